"""Settings that are known to work: one TOML file for each task, with a table for each preset.

`paper` is the row of the paper's table of hyperparameters. Its SSM LR is `train.ssm_rate`; the rate of all other
parameters is that times a factor which the paper does not print and which stands beside it. `ours` is what measured
best here, on validation data.
"""

import tomllib
from importlib.resources import files

from s7.settings import Table, unknown

NAMES = ("ours", "paper")


def tasks_with(name: str) -> list[str]:
    """The tasks that have a preset of this name."""
    found = {file.name.removesuffix(".toml"): file for file in files(__name__).iterdir() if file.name.endswith(".toml")}
    return sorted(task for task, file in found.items() if name in tomllib.loads(file.read_text(encoding="utf-8")))


def preset(task: str, name: str) -> Table:
    """The tables data, model and train of a preset."""
    if name not in NAMES:
        raise ValueError(unknown("preset", name, NAMES))
    file = files(__name__) / f"{task}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if name not in tables:
        others = ", ".join(known for known in NAMES if known in tables) or "none"
        why = "; the paper prints no settings for this task" if name == "paper" else ""
        raise ValueError(f"{task} has no preset {name!r}{why} (there is: {others})")
    return tables[name]
