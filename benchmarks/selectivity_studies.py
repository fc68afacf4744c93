"""S7 with and without selectivity on each task: for a minute of one core, and for as many steps.

    python -m benchmarks.studies --run selectivity

Validation data, three seeds. The numbers are on docs/results.md and explained on docs/selectivity.md.
"""

from benchmarks.study_entry import StudyEntry

# The number of steps is about what the selective model makes in a minute.
_STEPS = {
    "walker2d": 2000,
    "pendulum": 2000,
    "fitzhugh-nagumo": 6000,
    "human-activity": 4000,
    "nmnist": 1500,
    "spoken-digits": 2000,
}
SELECTIVITY_STUDIES = tuple(
    StudyEntry(f"selectivity-{task}-{name}", f'ablate {task} --only "all static" --no-test {budget}')
    for task, steps in _STEPS.items()
    for name, budget in (("steps", f"--steps {steps}"), ("time", "--minutes 1"))
)
