"""The FitzHugh–Nagumo neuron: predict the next value of v, which depends on the hidden variable w and thus on the past.

    v' = v − v³/3 − w + 0.5            w' = (v + 0.7 − 0.8 w) / 50            v(0) ~ U(−1, 1),  w(0) = 0

A model reads v and predicts its change until the next of 1,000 samples, 0.4 time units ahead. The error of the change
is the error of the next value. The procedure is that of the LEM paper.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

import s7
from s7.data.samples import Samples
from s7.tasks.runge_kutta import solve
from s7.tasks.task import Problem, Task

END, SAMPLES = 400.0, 1001
SIZES = {"train": 128, "valid": 128, "test": 1024}
# LEM draws training, validation and test data in this order from one legacy generator with this seed.
SEED = 1234


@dataclass(frozen=True)
class FitzHughNagumo(Task):
    """Predict the next value.

    Args:
        tolerance: The relative tolerance of the integrator. Published results use SciPy's default, 1e-3.
    """

    name: ClassVar[str] = "fitzhugh-nagumo"
    title: ClassVar[str] = "FitzHugh–Nagumo neuron, one step ahead"
    source: ClassVar[str] = "simulated with SciPy's RK45"
    protocols: ClassVar[dict[str, str]] = {
        "strict": "128 training, 128 validation, 1,024 test sequences; the error is that of the whole test set",
        "paper": "the same split; published errors may be those of the last test batch, or mean squared errors",
    }
    tolerance: float = 1e-3

    def load(self, folder, protocol, say):
        def make():
            say(f"simulating {sum(SIZES.values()):,} neurons …")
            return {"v": simulate(initial_values(), self.tolerance).astype(np.float32)}

        settings = asdict(self) | {"seed": SEED, "sizes": SIZES, "version": 2}
        trace = folder.simulated(self.name, settings, make)["v"][..., None]
        parts = np.split(trace, np.cumsum(list(SIZES.values()))[:-1])
        splits = {
            name: Samples.of(part[:, :-1], np.diff(part, axis=1), name=name)
            for name, part in zip(SIZES, parts, strict=True)
        }
        scale = float(np.sqrt(np.mean(splits["train"].targets ** 2)))
        persistence = float(np.mean(splits["test"].targets.astype(np.float64) ** 2))
        return Problem(
            splits["train"],
            splits["valid"],
            splits["test"],
            encoder=s7.LinearEncoder.of(splits["train"]),
            head=s7.PerStep(1, scale=scale),
            objective=s7.MeanSquared(1, unit=scale**2),
            columns=("change of v",),
            baselines={"persistence": {"mse": persistence, "rmse": persistence**0.5}},
        )


def initial_values() -> Float[np.ndarray, " N"]:
    """Draw v(0) of every sequence."""
    return np.random.RandomState(SEED).uniform(-1, 1, sum(SIZES.values()))


def simulate(v0: Float[np.ndarray, " N"], tolerance: float) -> Float[np.ndarray, "N T"]:
    """v at even times from 0 to 400, each sequence with its own steps, as published.

    Near a spike the equation amplifies rounding errors strongly, so at the default tolerance two machines agree only to
    the tolerance.
    """

    def rates(state):
        v, w = state
        return np.stack([v - v**3 / 3 - w + 0.5, (v + 0.7 - 0.8 * w) / 50])

    times = np.linspace(0, END, SAMPLES)
    states = solve(rates, np.stack([v0, np.zeros_like(v0)]), times, tolerance, min(1e-6, tolerance / 100))
    return states[:, 0].T
