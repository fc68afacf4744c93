"""The theory behind the layer, tested numerically: `verify()` yields a `Check` for each of its four points."""

from collections.abc import Callable, Iterator, Sequence

import jax

from s7.settings import unknown
from s7.theory import approximation, gradients, stability, weight_ratio
from s7.theory.check import Check, Point, record

__all__ = ["CHECKS", "Check", "Point", "record", "verify"]

CHECKS: dict[str, Callable[[int], Check]] = {
    "stability": stability.check,
    "gradients": gradients.check,
    "weight-ratio": weight_ratio.check,
    "approximation": approximation.check,
}


def verify(names: Sequence[str] = (), seed: int = 0, say: Callable[[str], None] = lambda name: None) -> Iterator[Check]:
    """The checks of these names, or all, one after another; `say` hears each name before its check begins."""
    for name in names:
        if name not in CHECKS:
            raise ValueError(unknown("check", name, CHECKS))
    return _run([name for name in CHECKS if not names or name in names], seed, say)


def _run(names: Sequence[str], seed: int, say: Callable[[str], None]) -> Iterator[Check]:
    for name in names:
        say(name)
        # Closed before the caller goes on: what it computes is no concern of ours.
        with jax.enable_x64(True):
            check = CHECKS[name](seed)
        yield check
