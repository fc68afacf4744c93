"""S7 in which all states read the gaps, every second one or none, after the same number of steps.

    python -m benchmarks.studies --run gaps

Validation data. The numbers are on docs/results.md and explained on docs/time.md.
"""

from benchmarks.study_entry import StudyEntry

# As many steps as in the studies of selectivity. Walker2d's task also gives the gap to the model as an input.
# 100 validation recordings of nmnist would be too few to tell the variants apart.
_TASKS = {
    "walker2d": ("walker2d", "--steps 1000"),
    "walker2d-no-input": ("walker2d", "--steps 1000 --set data.elapsed=false"),
    "pendulum": ("pendulum", "--steps 2000"),
    "human-activity": ("human-activity", "--steps 1200"),
    "spoken-digits": ("spoken-digits", "--steps 2000"),
    "nmnist": ("nmnist", "--steps 2000 --set data.validation=0.3"),
}
# The presets of these tasks say that all states read the gaps.
VARIANTS = ("dt read by every second state", "dt ignored")

GAP_STUDIES = tuple(
    StudyEntry(f"gaps-{name}", f'ablate {task} --only "{",".join(VARIANTS)}" --no-test {limit}')
    for name, (task, limit) in _TASKS.items()
)
