"""S7 with and without selectivity on each task: for the same time on one core, and for the same number of steps.

    python -m benchmarks.studies --run selectivity

Validation data, three seeds. The numbers are on docs/results.md and explained on docs/selectivity.md.
"""

from benchmarks.study_entry import StudyEntry

# Minutes, and about as many steps as the selective model makes in that time.
_BUDGETS = {
    "fitzhugh-nagumo": (0.5, 4000),
    "human-activity": (0.2, 1200),
    "spoken-digits": (1, 2000),
    "pendulum": (1, 2000),
    "walker2d": (1, 2000),
    "nmnist": (1, 2000),
}
SELECTIVITY_STUDIES = tuple(
    StudyEntry(f"selectivity-{task}-{name}", f'ablate {task} --only "all static" --no-test {budget}')
    for task, (minutes, steps) in _BUDGETS.items()
    for name, budget in (("steps", f"--steps {steps}"), ("time", f"--minutes {minutes}"))
)
