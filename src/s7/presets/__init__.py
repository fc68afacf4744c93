"""Presets: one TOML file for each task, with one table for each preset.

`paper` holds the hyperparameters that the paper prints. Its SSM learning rate is `train.ssm_learning_rate`; the paper
does not print the factor that gives the rate of all other parameters. `ours` holds the settings that were best on
validation data. Tables named after a model or a family of models (`cells`) override the preset for those models.
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
    """The tables `data`, `model` and `train` of a preset."""
    if name not in NAMES:
        raise ValueError(unknown("preset", name, NAMES))
    tables = _tables(task)
    if name not in tables:
        others = ", ".join(known for known in NAMES if known in tables) or "none"
        why = "; the paper prints no settings for this task" if name == "paper" else ""
        raise ValueError(f"{task} has no preset {name!r}{why} (there is: {others})")
    return tables[name]


def otherwise(task: str, name: str) -> Table:
    """The settings of a task for one model or family of models; empty if its file has none."""
    return _tables(task).get(name, {})


def _tables(task: str) -> Table:
    file = files(__name__) / f"{task}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
