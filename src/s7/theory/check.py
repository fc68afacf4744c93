"""What a check hands back: the points it tested, what it found on the way, and what it cannot show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from s7.transitions import Stable

# How a check makes the transitions that it tests: `Stable`, or in a test a broken one.
Make = Callable[..., Stable]


@dataclass(frozen=True)
class Point:
    """One inequality or identity that was measured, and whether it holds."""

    claim: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Check:
    """A part of the theory, tested. `findings` are where a printed statement needs words that it does not have.

    `curves` is what its picture is drawn from; `numbers` are for machines.
    """

    name: str
    title: str
    statement: str
    points: tuple[Point, ...]
    findings: tuple[str, ...]
    limits: str
    caption: str
    numbers: Mapping[str, float]
    curves: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every point holds."""
        return all(point.holds for point in self.points)


def record(check: Check) -> dict[str, Any]:
    """A check for machines; what is infinite is said in words, for JSON has no number for it."""
    return {
        "check": check.name,
        "passed": check.passed,
        "points": [{"claim": p.claim, "measured": p.measured, "holds": p.holds} for p in check.points],
        "numbers": {name: value if abs(value) < float("inf") else str(value) for name, value in check.numbers.items()},
        "findings": list(check.findings),
        "limits": check.limits,
    }
