"""Settings that are known to work: one TOML file for each task, with a table for each preset.

`paper` is the row of the paper's table of hyperparameters. Its SSM LR is `train.ssm_learning_rate`; the rate of
all other parameters is that times a factor which the paper does not print and which stands beside it. `ours` is what
measured best here, on validation data. Further tables are named after a peer or a family of them (`cells`): they
override the preset for those models.
"""

import tomllib
from importlib.resources import files

from s7.settings import Table, unknown

NAMES = ("ours", "paper")


def tasks_with(name: str) -> list[str]:
    """The tasks that have a preset of this name."""
    found = [file.name.removesuffix(".toml") for file in files(__name__).iterdir() if file.name.endswith(".toml")]
    return sorted(task for task in found if name in _tables(task))


def preset(task: str, name: str) -> Table:
    """The tables data, model and train of a preset."""
    if name not in NAMES:
        raise ValueError(unknown("preset", name, NAMES))
    tables = _tables(task)
    if name not in tables:
        others = ", ".join(known for known in NAMES if known in tables) or "none"
        why = "; the paper prints no settings for this task" if name == "paper" else ""
        raise ValueError(f"{task} has no preset {name!r}{why} (there is: {others})")
    return tables[name]


def otherwise(task: str, name: str) -> Table:
    """What a task's file says for a peer or a family of them; empty where it says nothing."""
    return _tables(task).get(name, {})


def _tables(task: str) -> Table:
    file = files(__name__) / f"{task}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
