"""Preset files: settings in a TOML file of the user, such as `s7 tune` writes, for `--preset FILE.toml`.

task = "pendulum"
preset = "ours"             # settings that the file does not mention

[model]
kind = "s7"                 # the architecture
width = 48

[train]
learning_rate = 0.006
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from s7.settings import Table, merge, to_toml, unknown
from s7.storage import write_atomically

SUFFIX = ".toml"
SECTIONS = ("data", "model", "train")
HEAD = ("task", "preset")


@dataclass(frozen=True)
class PresetFile:
    """The content of a preset file.

    Attributes:
        task: The task that the settings are for; empty for any.
        model: The architecture.
        preset: The preset of the task below these settings.
        settings: The tables data, model and train.
    """

    task: str = ""
    model: str = "s7"
    preset: str = "ours"
    settings: Table = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "PresetFile":
        """Read a file.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is not a preset. The message names the file.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not TOML ({error})") from None
        for name, value in table.items():
            if name not in (*HEAD, *SECTIONS):
                raise ValueError(f"{path}: {unknown('entry', name, (*HEAD, *SECTIONS))}")
            if not isinstance(value, str if name in HEAD else dict):
                raise ValueError(f"{path}: {name} is not {'a string' if name in HEAD else 'a table'}")
        settings = {name: dict(table[name]) for name in SECTIONS if name in table}
        model = settings.get("model", {}).pop("kind", "s7")
        if not isinstance(model, str):
            raise ValueError(f"{path}: model.kind is not a string")
        return cls(model=model, settings=settings, **{name: table[name] for name in HEAD if name in table})

    @classmethod
    def read_for(cls, path: Path, task: str) -> "PresetFile":
        """Read a file for a task. The errors are those of `read`, and a ValueError if it is for another task."""
        file = cls.read(path)
        if file.task and file.task != task:
            raise ValueError(f"{path}: for {file.task}, not for {task}")
        return file

    def changed(self, changes: Table) -> Table:
        """The settings with changes on top. A changed depth replaces the stages."""
        settings = self.settings
        if "depth" in changes.get("model", {}) and "model" in settings:
            settings = settings | {"model": {key: value for key, value in settings["model"].items() if key != "stages"}}
        return merge(settings, changes)

    def write(self, path: Path, comment: str = "") -> None:
        """Write a file that `read` reads, with a comment at its top."""
        settings = self.settings | {"model": {"kind": self.model} | self.settings.get("model", {})}
        table = {"task": self.task, "preset": self.preset} | {
            name: settings[name] for name in SECTIONS if settings.get(name)
        }
        lines = [f"# {line}" for line in comment.splitlines()]
        write_atomically(path, "\n".join([*lines, to_toml(table)]).encode())
