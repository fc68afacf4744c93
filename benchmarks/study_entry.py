"""A study of docs/results.md."""

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from benchmarks.stored import RESULTS


class StudyEntry(NamedTuple):
    """A study of the page: its name, and the arguments of `s7` that run it, without the folder."""

    name: str
    command: str

    @property
    def is_ablation(self) -> bool:
        """Whether it compares S7 with variants of itself."""
        return self.command.startswith("ablate")

    @property
    def summary(self) -> Path:
        """The file of its stored summary."""
        return RESULTS / f"study-{self.name}.json"

    @property
    def models(self) -> list[str]:
        """The models that it compares; none for an ablation."""
        words = shlex.split(self.command)
        return words[words.index("--models") + 1].split(",") if "--models" in words else []

    @property
    def missing(self) -> list[str]:
        """The models without stored results, if there are results of others."""
        if not self.summary.exists():
            return []
        stored = {score["name"] for score in json.loads(self.summary.read_text(encoding="utf-8"))["scores"]}
        return [model for model in self.models if model not in stored]

    @property
    def is_done(self) -> bool:
        """Whether the results of the whole study are stored."""
        return self.summary.exists() and not self.missing
