"""Ranges of settings for a search, declared where the settings are.

    learning_rate: float = searched(2e-3, Range(1e-4, 3e-2, log=True))

The paper found its settings by Bayesian search but does not print the ranges that it searched. The ranges declared in
this package cover the values of its table of hyperparameters. JAX is not imported.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

SEARCH = "search"


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; whole numbers if both are.

    Args:
        log: Whether to search on a logarithmic scale.
        step: The distance between neighbouring values; None for all values.
        item: Of a tuple of numbers, the index of the one that is searched.
        optional: Whether the setting is searched only if `--only` or `--space` names it.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    item: int | None = None
    optional: bool = False

    def __post_init__(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"{self}: expected two finite numbers in order")
        if self.log and not self.low > 0:
            raise ValueError(f"{self}: a logarithmic range starts above 0")
        if self.step is not None and (self.log or not 0 < self.step <= self.high - self.low):
            raise ValueError(f"{self}: a step is positive, at most the size of the range, and not logarithmic")

    @property
    def is_whole(self) -> bool:
        """Whether the range has whole numbers only."""
        ends = (self.low, self.high) if self.step is None else (self.low, self.high, self.step)
        return all(isinstance(end, int) for end in ends)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.low, self.high

    def including(self, value: Any) -> "Range":
        """The range, extended to include a value. A step becomes smaller if the value does not lie on it."""
        if isinstance(value, bool) or not isinstance(value, int | float) or (self.is_whole and value != int(value)):
            raise ValueError(f"{self}: does not include {value!r}")
        low, high, step = min(self.low, value), max(self.high, value), self.step
        if self.log and not low > 0:
            raise ValueError(f"{self}: a logarithmic range cannot include {value:g}")
        if step is not None:
            on_steps = [(end - low) / step for end in (value, self.low, high)]
            if any(abs(place - round(place)) > 1e-9 for place in on_steps):
                step = (
                    math.gcd(*(int(end - low) for end in (value, self.low, high)), int(step)) if self.is_whole else None
                )
        return Range(low, high, self.log, step, self.item, self.optional)

    def __str__(self) -> str:
        scale = ":log" if self.log else "" if self.step is None else f":{self.step:g}"
        return f"{self.low:g}:{self.high:g}{scale}"


@dataclass(frozen=True)
class Choice:
    """One of several values: strings, numbers or bools. `optional` is that of `Range`."""

    options: tuple[str | int | float | bool, ...]
    optional: bool = False

    def __post_init__(self):
        if len(self.options) < 2 or len(set(self.options)) != len(self.options):
            raise ValueError(f"{self}: expected at least two different values")

    @property
    def ends(self) -> tuple[str | int | float | bool, ...]:
        """All values."""
        return self.options

    def including(self, value: Any) -> "Choice":
        """The choice with one more value."""
        return self if value in self.options else Choice((value, *self.options), self.optional)

    def __str__(self) -> str:
        return ",".join(str(option).lower() if isinstance(option, bool) else str(option) for option in self.options)


Searched = Range | Choice


def searched(default: Any, over: Searched, **options: Any) -> Any:
    """A field of a settings dataclass with a range for searches. `options` are further options of the field."""
    return field(default=default, metadata={SEARCH: over}, **options)


def declared(settings: Any, below: str) -> Iterator[tuple[str, Searched]]:
    """The declared ranges of a settings dataclass and of those in its fields, by dotted name.

    Args:
        settings: The settings.
        below: The dotted name of the settings themselves, such as "train".
    """
    for one in fields(settings):
        name, value, over = f"{below}.{one.name}", getattr(settings, one.name), one.metadata.get(SEARCH)
        if isinstance(over, Range) and over.item is not None:
            name = f"{name}.{over.item}"
        if over is not None:
            yield name, over
        if is_dataclass(value):
            yield from declared(value, name)
        elif isinstance(value, tuple):
            for n, item in enumerate(value):
                if is_dataclass(item):
                    yield from declared(item, f"{name}.{n}")
