"""Irregular time: simulated tasks in which the gaps between events carry the answer, and matching ones without.

A hidden process runs on a clock, and a model sees it at 48 events. With `informative=True` the clock is the time: the
sum of the gaps. With `informative=False` it is the number of events, and the gaps are noise of the same distribution.
Gaps are s·E, with E exponential of mean 1 and one scale s per sequence, log-uniform from 1/4 to 4, so that the number
of events says little about the time.

    phase   a sine of 0.8 rad per unit of the clock, in noise of standard deviation 0.5; the answer is (sin, cos) of its
            phase at the last event. Here s is 1, because an oscillation that is sampled too rarely cannot be followed
    delay   spikes of which two are marked, A and B; the answer is which came first and whether the other came sooner or
            later than the median delay: four classes
    decay   A exp(-t/τ) in noise of standard deviation 0.05, τ log-uniform from 3 to 30, A uniform from 0.5 to 1.5; the
            answer is log τ
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

import s7
from s7.data.samples import Samples
from s7.tasks.task import Problem, Task, most_frequent

SIZES = {"train": 1024, "valid": 512, "test": 1024}
EVENTS = 48
FREQUENCY = 0.8
TAU = (3.0, 30.0)


class Recording(NamedTuple):
    """Inputs (N, L, channels), gaps (N, L) and answers (N, ...) of N sequences."""

    inputs: Float[np.ndarray, "N L I"]
    gaps: Float[np.ndarray, "N L"]
    answers: Shaped[np.ndarray, "N ..."]


@dataclass(frozen=True)
class IrregularTime(Task):
    """Answer a question about a process that is seen at irregular times.

    Args:
        kind: The process: "phase", "delay" or "decay".
        informative: Whether the process depends on the gaps. Otherwise it depends on the number of events.
        elapsed: Whether log(1 + gap) is also an input. The model always receives the gaps as dt.
        seed: The seed of the simulation.
    """

    name: ClassVar[str] = "irregular-time"
    title: ClassVar[str] = "Phases, delays and decay rates seen at irregular times"
    source: ClassVar[str] = "simulated"
    protocols: ClassVar[dict[str, str]] = {
        "strict": "1,024 training, 512 validation, 1,024 test sequences; causal",
    }
    kind: Literal["phase", "delay", "decay"] = "phase"
    informative: bool = True
    elapsed: bool = False
    seed: int = 0

    def load(self, folder, protocol, say):
        made = PROCESSES[self.kind](sum(SIZES.values()), self.informative, np.random.default_rng(self.seed))
        ends = np.cumsum(list(SIZES.values()))[:-1]
        parts = zip(*(np.split(q, ends) for q in made), strict=True)
        splits = {name: self._samples(Recording(*part), name) for name, part in zip(SIZES, parts, strict=True)}
        train, valid, test = splits["train"], splits["valid"], splits["test"]
        encoder = s7.LinearEncoder.of(train)
        if self.kind == "delay":
            chance = most_frequent(train, test, 4)
            return Problem(train, valid, test, encoder, s7.Mean(4), s7.CrossEntropy(4), chance)
        mean, scale = train.targets.mean(0), train.targets.std(0)
        error = float(np.mean((test.targets - mean) ** 2))
        columns = ("sin", "cos") if self.kind == "phase" else ("log τ",)
        head = s7.Last if self.kind == "phase" else s7.Mean
        return Problem(
            train,
            valid,
            test,
            encoder,
            head(len(columns), tuple(mean.tolist()), tuple(scale.tolist())),
            s7.MeanSquared(len(columns), unit=float(np.mean(np.square(scale)))),
            baselines={"the mean": {"mse": error, "rmse": error**0.5}},
            columns=columns,
        )

    def _samples(self, part: Recording, name: str) -> Samples:
        inputs = part.inputs
        if self.elapsed:
            inputs = np.concatenate([inputs, np.log1p(part.gaps)[..., None]], -1)
        answers = part.answers if self.kind == "delay" else part.answers.astype(np.float32)
        return Samples.of(inputs.astype(np.float32), answers, part.gaps, per_step=False, name=name)


def draw_gaps(count: int, scales: float, rng: np.random.Generator) -> Float[np.ndarray, "N L"]:
    """Exponential gaps; each sequence has its own mean, log-uniform from 1/scales to scales. The first gap is 0."""
    mean = np.exp(rng.uniform(-math.log(scales), math.log(scales), (count, 1)))
    gaps = mean * rng.exponential(size=(count, EVENTS))
    gaps[:, 0] = 0
    return gaps


def clock(gaps: Float[np.ndarray, "N L"], informative: bool) -> Float[np.ndarray, "N L"]:
    """The time of each event, or its number."""
    return np.cumsum(gaps if informative else np.ones_like(gaps), axis=1)


def phase(count: int, informative: bool, rng: np.random.Generator) -> Recording:
    """A sine in noise; the answer is (sin, cos) of its phase at the last event."""
    gaps = draw_gaps(count, 1.0, rng)
    angle = FREQUENCY * clock(gaps, informative) + rng.uniform(0, 2 * np.pi, (count, 1))
    seen = np.sin(angle) + 0.5 * rng.normal(size=angle.shape)
    return Recording(seen[..., None], gaps, np.stack([np.sin(angle[:, -1]), np.cos(angle[:, -1])], -1))


def delay(count: int, informative: bool, rng: np.random.Generator) -> Recording:
    """Spikes in three channels, other, A and B; the answer is 2·(B first) + (a long delay)."""
    gaps = draw_gaps(count, 4.0, rng)
    between = rng.integers(3, 13, count)
    first = rng.integers(0, EVENTS - between)
    swapped = rng.integers(0, 2, count)
    rows = np.arange(count)
    inputs = np.zeros((count, EVENTS, 3))
    inputs[..., 0] = 1
    for place, channel in ((first, 1 + swapped), (first + between, 2 - swapped)):
        inputs[rows, place] = 0
        inputs[rows, place, channel] = 1
    times = clock(gaps, informative)
    delays = times[rows, first + between] - times[rows, first]
    return Recording(inputs, gaps, 2 * swapped + (delays > np.median(delays)))


def decay(count: int, informative: bool, rng: np.random.Generator) -> Recording:
    """An exponential decay in noise; the answer is the logarithm of its time constant."""
    gaps = draw_gaps(count, 4.0, rng)
    constant = np.exp(rng.uniform(math.log(TAU[0]), math.log(TAU[1]), (count, 1)))
    amplitude = rng.uniform(0.5, 1.5, (count, 1))
    seen = amplitude * np.exp(-clock(gaps, informative) / constant) + 0.05 * rng.normal(size=gaps.shape)
    return Recording(seen[..., None], gaps, np.log(constant))


PROCESSES = {"phase": phase, "delay": delay, "decay": decay}
