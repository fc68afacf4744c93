"""The result of a check: the points it tested, its findings, and its limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from s7.publishing.text import count
from s7.transitions import Stable

# Makes the transition that a check tests: `Stable`, or a broken one in the tests of the checks.
Make = Callable[..., Stable]


@dataclass(frozen=True)
class Point:
    """An inequality or identity that was measured, and whether it holds."""

    claim: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Check:
    """The result of checking one part of the theory.

    Attributes:
        findings: where a printed statement needs a condition that the paper does not state.
        limits: what the check cannot show.
        numbers: the measured numbers, for JSON.
        curves: the data of the figure.
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
    """The check as a JSON object. Infinite numbers become strings, as JSON has none."""
    return {
        "check": check.name,
        "passed": check.passed,
        "points": [{"claim": p.claim, "measured": p.measured, "holds": p.holds} for p in check.points],
        "numbers": {name: value if abs(value) < float("inf") else str(value) for name, value in check.numbers.items()},
        "findings": list(check.findings),
        "limits": check.limits,
    }


def headline(checks: Sequence[Check]) -> str:
    """How many points hold, in a sentence."""
    points = [point for check in checks for point in check.points]
    holding = sum(point.holds for point in points)
    return f"{holding} of {count(len(points), 'point')} hold, in {count(len(checks), 'check')}."
