"""SSC, the Spiking Speech Commands: classify 35 spoken commands, recorded from many people in ordinary rooms."""

from dataclasses import dataclass
from typing import ClassVar

from s7.data.download import Download
from s7.tasks.heidelberg import Heidelberg
from s7.tasks.sources import zenke_lab


@dataclass(frozen=True)
class Ssc(Heidelberg):
    """Spoken commands as spikes."""

    name: ClassVar[str] = "ssc"
    title: ClassVar[str] = "Spiking Speech Commands, spoken commands as spikes"
    source: ClassVar[str] = "SSC (Cramer 2020, CC BY 4.0)"
    # Checksums are published next to the files, in md5sums.txt, but have not been verified.
    downloads: ClassVar[tuple[Download, ...]] = (
        zenke_lab("ssc_train.h5.gz"),
        zenke_lab("ssc_valid.h5.gz"),
        zenke_lab("ssc_test.h5.gz"),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": "the official training, validation and test files",
        "paper": "the same files",
    }
    classes: ClassVar[int] = 35
    files: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
