"""S7 with and without selectivity on each task: for the same time on one core, and for the same number of steps.

    python -m benchmarks.studies --run selectivity

The static model is also trained with twice the width, because selective matrices add parameters. Validation data. The
numbers are on docs/results.md and explained on docs/selectivity.md.
"""

from typing import NamedTuple

from benchmarks.study_entry import StudyEntry


class Budget(NamedTuple):
    """Minutes, and about as many steps as the selective model makes in that time."""

    minutes: float
    steps: int
    seeds: int = 3
    settings: str = ""


# The presets of image and of pathfinder-contours are static and have batch norm.
_IMAGE = """model.norm=layer 'model.form={kind="Factored", rank=32}' model.transition.selective=true"""
_PATHFINDER = (
    "data.patch=4 data.target=contours model.depth=6 model.width=64 model.state=40 "
    """'model.form={kind="Factored", rank=32}' 'model.transition={kind="Stable", oscillate=true, period=8, """
    """tau=[2.0, 300.0], gain="variance"}' train.batch_size=32 train.learning_rate=4e-3"""
)
_BUDGETS = {
    "fitzhugh-nagumo": Budget(0.5, 4000),
    "human-activity": Budget(0.2, 1200),
    "spoken-digits": Budget(1, 2000),
    "pendulum": Budget(1, 2000),
    "walker2d": Budget(0.5, 1000),
    "nmnist": Budget(1, 2000),
    "text": Budget(2, 500, 2),
    "image": Budget(2, 200, 2, _IMAGE),
    "pathfinder": Budget(2, 300, 2, _PATHFINDER),
    # Short expressions with the values of all operators, because little is learned from long ones in this time.
    "listops": Budget(0.5, 1000, 2, "data.target=values data.shortest=15 data.longest=100 data.train=60000"),
}


def _command(task: str, limit: str, seeds: int, settings: str) -> str:
    some = "" if seeds == 3 else f" --seeds {seeds}"
    chosen = f" --set {settings}" if settings else ""
    return f'ablate {task} --only "all static,all static and wide" --no-test {limit}{some}{chosen}'


SELECTIVITY_STUDIES = (
    *(
        StudyEntry(f"selectivity-{task}-{name}", _command(task, limit, budget.seeds, budget.settings))
        for task, budget in _BUDGETS.items()
        for name, limit in (("steps", f"--steps {budget.steps}"), ("time", f"--minutes {budget.minutes}"))
    ),
    # Selective matrices multiply the large values of rare events, which layer norm bounds and batch norm does not.
    StudyEntry(
        "selectivity-pathfinder-batch-norm-steps",
        _command("pathfinder", "--steps 300", 2, f"{_PATHFINDER} model.norm=batch"),
    ),
)
