"""The common part of SHD and SSC: spoken words as spikes in 700 channels of a model of the inner ear."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool

import s7
from s7.data.samples import Samples
from s7.events.recordings import Sensor
from s7.events.spike_hdf5 import SpikeFile, open_spikes
from s7.tasks.event_task import EventTask

CHANNELS = 700


@dataclass(frozen=True)
class Heidelberg(EventTask):
    """A task with one HDF5 file for each of `files`."""

    sensor: ClassVar[Sensor] = Sensor(CHANNELS, 1, 1)
    files: ClassVar[tuple[str, ...]]

    def missing(self, folder):
        for file in self.files:
            if not folder.find(*self._names(file)):
                return folder.absence(*self._names(file), how=self._how)
        return None

    def load(self, folder, protocol, say):
        paths = {file: folder.require(*self._names(file), how=self._how) for file in self.files}
        splits: dict[str, Samples] = {}
        words: tuple[str, ...] = ()
        for file, path in paths.items():
            say(f"reading {path} …")
            with open_spikes(path) as spikes:
                for name, chosen in self.cut(spikes, file, protocol).items():
                    splits[name] = self.samples(spikes.parts(chosen), name, say)
                words = words or spikes.names
        known = words if len(words) == self.classes else ()
        return self.problem(splits, s7.TokenEncoder(CHANNELS), s7.Mean(self.classes), known)

    def cut(self, spikes: SpikeFile, file: str, protocol: str) -> dict[str, Bool[np.ndarray, " N"] | None]:
        """The splits that a file provides, each with a mask of its recordings; None means all."""
        return {file: None}

    def _names(self, file: str) -> tuple[str, str]:
        name = f"{self.name}/{self.name}_{file}.h5"
        return name, f"{name}.gz"

    @property
    def _how(self) -> str:
        files = ", ".join(f"{self.name}_{file}.h5" for file in self.files)
        return f"s7 data fetch {self.name}, or put {files} there, as they are or as .gz"
