"""The theory behind the layer, checked numerically: `verify()` yields a `Check` for each of its four parts."""

from collections.abc import Callable, Iterator, Sequence

import jax

from s7.settings import unknown
from s7.theory import approximation, gradients, stability, weight_ratio
from s7.theory.check import Check, Point, headline, record

__all__ = ["CHECKS", "Check", "Point", "headline", "record", "verify"]

CHECKS: dict[str, Callable[[int], Check]] = {
    "stability": stability.check,
    "gradients": gradients.check,
    "weight-ratio": weight_ratio.check,
    "approximation": approximation.check,
}


def verify(names: Sequence[str] = (), seed: int = 0, say: Callable[[str], None] = lambda name: None) -> Iterator[Check]:
    """Run the checks of these names, or all. `say` is called with each name before its check starts."""
    for name in names:
        if name not in CHECKS:
            raise ValueError(unknown("check", name, CHECKS))
    return _run([name for name in CHECKS if not names or name in names], seed, say)


def _run(names: Sequence[str], seed: int, say: Callable[[str], None]) -> Iterator[Check]:
    for name in names:
        say(name)
        # Left before the check is yielded: the caller computes in the precision of its choice.
        with jax.enable_x64(True):
            check = CHECKS[name](seed)
        yield check
