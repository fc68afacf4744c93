"""The cost of training on n devices. JAX is not imported.

A batch of B sequences has L events each (with padding; a fraction f of them is real). The model has N parameters and D
blocks.

Measured on this machine with two batch sizes, for one device:

    t(b) = t₀ + c·b·L          seconds of a training step without input
    m(b) = m₀ + μ·b·L          bytes: parameters, gradient, optimizer, and what the backward pass keeps of each event
    i                          seconds to prepare one event of input, which happens while the previous step runs

Assumed: every device is σ times as fast as this machine, and links have bandwidth β (bytes/s) and latency α (s).

**Data parallel.** Every device trains on B sequences of its own; gradients are averaged by recursive halving and
doubling, after the backward pass:

    T_compute = (t₀ + c·B·L) / σ
    T_reduce  = 2·⌈log₂ n⌉·α + 2·(n-1)/n · 4N / β
    T_input   = i·B·L / σ
    T(n)      = max(T_compute + T_reduce, T_input)          events/s = f·n·B·L / T(n)
    memory    = m₀ + μ·B·L                                  largest batch: ⌊(M - m₀) / (μ·L)⌋

**Sequence parallel.** All devices share one batch of B sequences and take L/n events of each. In every block, forward
and backward, each device sends the product of its transitions and its last state or its gradient, E bytes per sequence,
to all others. It reads its events twice, before and after, which takes κ = 2 times the arithmetic of one device:

    T_compute  = (t₀ + κ·c·B·L/n) / σ          κ = 1 for n = 1
    T_exchange = 2·D·(⌈log₂ n⌉·α + (n-1)·B·E / β)
    T_input    = i·B·L/n / σ
    T(n)       = max(T_compute + T_exchange + T_reduce, T_input)          events/s = f·B·L / T(n)
    memory     = m₀ + μ·B·L/n

For n = 1 both are the measured step. The model leaves out stragglers, contention of links, overlap of communication
with the backward pass, and the slower steps of batches that no longer fit into a cache.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from s7.storage import write_atomically

BYTES_PER_PARAMETER = 4
# κ. `python -m benchmarks.two_passes` prints 1.9 for vectors and 2.5 for pooled tokens.
TWO_PASSES = 2.0
MOST = 1_000_000


@dataclass(frozen=True)
class Measurements:
    """What was measured on one device, and what follows from the model's configuration.

    Attributes:
        length: Events per sequence, with padding.
        filled: The fraction of these events that is real.
        blocks: The number of blocks of the model.
        exchange_bytes: The bytes that a block exchanges for one sequence if sequences are split; 0 for models that
            cannot be split.
        batch, step_seconds, memory_bytes: One training step with the batch size of the settings.
        other_batch, other_seconds, other_bytes: One training step with another batch size.
        input_seconds: The time to prepare a batch of the first size.
        about: The task, the model, the machine and the versions.
    """

    parameters: int
    length: int
    filled: float
    blocks: int
    exchange_bytes: int
    batch: int
    step_seconds: float
    memory_bytes: float
    other_batch: int
    other_seconds: float
    other_bytes: float
    input_seconds: float
    about: dict[str, str]

    def __post_init__(self):
        for name in (
            "parameters",
            "length",
            "filled",
            "blocks",
            "batch",
            "step_seconds",
            "memory_bytes",
            "other_batch",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.batch == self.other_batch:
            raise ValueError(f"batch={self.batch} and other_batch={self.other_batch} must differ")

    @property
    def is_consistent(self) -> bool:
        """Whether the larger batch took longer; not so on a machine that is busy with something else."""
        return _slope(self, self.step_seconds, self.other_seconds) > 0

    @property
    def event_seconds(self) -> float:
        """c: seconds of a step per event. Not negative: a timing may be off by more than small batches differ."""
        return max(0.0, _slope(self, self.step_seconds, self.other_seconds))

    @property
    def fixed_seconds(self) -> float:
        """t₀: seconds of a step that do not depend on the batch."""
        return max(0.0, self.step_seconds - self.event_seconds * self.batch * self.length)

    @property
    def event_bytes(self) -> float:
        """μ: bytes per event."""
        return max(0.0, _slope(self, self.memory_bytes, self.other_bytes))

    @property
    def fixed_bytes(self) -> float:
        """m₀: bytes that do not depend on the batch."""
        return max(0.0, self.memory_bytes - self.event_bytes * self.batch * self.length)

    def write(self, path: Path) -> None:
        """Write the measurements as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Measurements":
        """Read measurements; raises ValueError if the file holds something else."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{one.name: content[one.name] for one in fields(cls)})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not the measurements of s7 plan ({error})") from None


@dataclass(frozen=True)
class Assumptions:
    """Properties of devices that were not measured.

    Args:
        bandwidth: β, bytes per second of a link.
        latency: α, seconds of a message.
        speed: σ, the speed of a device relative to this machine.
    """

    bandwidth: float = 1.25e9
    latency: float = 5e-5
    speed: float = 1.0

    def __post_init__(self):
        if not (self.bandwidth > 0 and self.latency >= 0 and self.speed > 0):
            raise ValueError(f"{self}: bandwidth and speed must be positive, the latency not negative")


@dataclass(frozen=True)
class Prediction:
    """The prediction for a number of devices. `seconds` is the time of a step, `limit` names its largest part."""

    devices: int
    batch: int
    seconds: float
    events_per_second: float
    efficiency: float
    memory_bytes: float
    limit: str
    parts: dict[str, float]


@dataclass(frozen=True)
class Cost:
    """The cost model. `batch` is the number of sequences per device, by default that of the settings."""

    measured: Measurements
    assumed: Assumptions = Assumptions()

    def data_parallel(self, devices: int, batch: int | None = None) -> Prediction:
        """Every device trains on a batch of its own."""
        batch = self.measured.batch if batch is None else batch
        parts = {
            "compute": self._compute(batch * self.measured.length),
            "all-reduce": self._reduce(devices),
            "input": self._input(batch * self.measured.length),
        }
        one = self._step({"compute": parts["compute"], "input": parts["input"]})
        return self._prediction(devices, batch, parts, batch * devices, one / self._step(parts), self.memory(batch))

    def sequence_parallel(self, devices: int, batch: int | None = None) -> Prediction:
        """All devices share one batch, each with its part of every sequence."""
        measured = self.measured
        batch = measured.batch if batch is None else batch
        events = batch * measured.length
        passes = 1 if devices == 1 else TWO_PASSES
        parts = {
            "compute": self._compute(passes * events / devices),
            "all-reduce": self._reduce(devices),
            "state exchange": self._exchange(devices, batch),
            "input": self._input(events / devices),
        }
        one = self._step({"compute": self._compute(events), "input": self._input(events)})
        memory = measured.fixed_bytes + measured.event_bytes * events / devices
        return self._prediction(devices, batch, parts, batch, one / (devices * self._step(parts)), memory)

    def memory(self, batch: int) -> float:
        """Bytes on each device with a batch of its own."""
        return self.measured.fixed_bytes + self.measured.event_bytes * batch * self.measured.length

    def largest_batch(self, memory: float) -> int:
        """The largest batch of a device with this many bytes; 0 if not even one sequence fits."""
        measured = self.measured
        left = memory - measured.fixed_bytes
        if left < 0:
            return 0
        per_sequence = measured.event_bytes * measured.length
        return MOST if per_sequence <= left / MOST else int(left / per_sequence)

    def devices_for_one_sequence(self, memory: float) -> int | None:
        """The number of devices over which one sequence must be split; None if the parameters alone do not fit."""
        left = memory - self.measured.fixed_bytes
        if left <= 0:
            return None
        return max(1, math.ceil(self.measured.event_bytes * self.measured.length / left))

    def _compute(self, events: float) -> float:
        return (self.measured.fixed_seconds + self.measured.event_seconds * events) / self.assumed.speed

    def _input(self, events: float) -> float:
        per_event = self.measured.input_seconds / (self.measured.batch * self.measured.length)
        return per_event * events / self.assumed.speed

    def _reduce(self, devices: int) -> float:
        volume = BYTES_PER_PARAMETER * self.measured.parameters
        return (
            2 * _rounds(devices) * self.assumed.latency + 2 * (devices - 1) / devices * volume / self.assumed.bandwidth
        )

    def _exchange(self, devices: int, batch: int) -> float:
        volume = (devices - 1) * batch * self.measured.exchange_bytes
        return 2 * self.measured.blocks * (_rounds(devices) * self.assumed.latency + volume / self.assumed.bandwidth)

    @staticmethod
    def _step(parts: dict[str, float]) -> float:
        return max(sum(parts.values()) - parts["input"], parts["input"])

    def _prediction(
        self, devices: int, batch: int, parts: dict[str, float], sequences: int, efficiency: float, memory: float
    ) -> Prediction:
        seconds = self._step(parts)
        rate = self.measured.filled * sequences * self.measured.length / seconds
        others = {name: part for name, part in parts.items() if name != "input"}
        limit = "input" if parts["input"] >= seconds else max(others, key=lambda name: others[name])
        return Prediction(devices, batch, seconds, rate, efficiency, memory, limit, parts)


def counts(most: int) -> list[int]:
    """Numbers of devices for a table: powers of two up to `most`, and `most`."""
    return sorted({*(2**n for n in range(most.bit_length())), most})


def _rounds(devices: int) -> int:
    return math.ceil(math.log2(devices))


def _slope(measured: Measurements, at_batch: float, at_other: float) -> float:
    return (at_batch - at_other) / ((measured.batch - measured.other_batch) * measured.length)
