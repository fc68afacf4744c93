"""SHD, the Spiking Heidelberg Digits: classify spoken digits, zero to nine in English and German (20 classes).

Twelve speakers, two of whom occur only in the test set.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from s7.data.download import Download
from s7.events.spike_hdf5 import SPEAKERS
from s7.tasks.heidelberg import Heidelberg
from s7.tasks.sources import zenke_lab

# Speakers held out for validation, of the ten in the training file.
HELD_OUT = 2


@dataclass(frozen=True)
class Shd(Heidelberg):
    """Spoken digits as spikes."""

    name: ClassVar[str] = "shd"
    title: ClassVar[str] = "Spiking Heidelberg Digits, spoken digits as spikes"
    source: ClassVar[str] = "SHD (Cramer 2020, CC BY 4.0)"
    downloads: ClassVar[tuple[Download, ...]] = (
        zenke_lab("shd_train.h5.gz", "md5:d47c9825dee33347913e8ce0f2be08b0"),
        zenke_lab("shd_test.h5.gz", "md5:3062a80ec0c5719404d5b02e166543b1"),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": (
            "the last two of the ten training speakers for validation, since two speakers occur only in the test "
            "file; the test file for testing"
        ),
        "paper": "the whole training file for training; the epoch is chosen on the test set",
    }
    classes: ClassVar[int] = 20
    files: ClassVar[tuple[str, ...]] = ("train", "test")

    def cut(self, spikes, file, protocol):
        if (file, protocol) != ("train", "strict"):
            return super().cut(spikes, file, protocol)
        speakers = np.unique(spikes.speakers)
        if len(speakers) <= HELD_OUT:
            count = f"{len(speakers)} speakers, at least {HELD_OUT + 1} are needed"
            raise ValueError(f"{spikes.path}: {SPEAKERS} names {count}")
        held = np.isin(spikes.speakers, speakers[-HELD_OUT:])
        return {"train": ~held, "valid": held}
