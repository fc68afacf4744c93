"""SSC, the Spiking Speech Commands: which of 35 short commands was spoken, by many people in ordinary rooms."""

from dataclasses import dataclass
from typing import ClassVar

from s7.tasks.heidelberg import Heidelberg


@dataclass(frozen=True)
class Ssc(Heidelberg):
    """Spoken commands as spikes."""

    name: ClassVar[str] = "ssc"
    title: ClassVar[str] = "Spiking Speech Commands, spoken commands as spikes"
    source: ClassVar[str] = "SSC (Cramer 2020, CC BY 4.0)"
    protocols: ClassVar[dict[str, str]] = {
        "strict": "the official training, validation and test files; the test file tested once",
        "paper": "the same files",
    }
    classes: ClassVar[int] = 35
    files: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
