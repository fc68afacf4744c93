"""Numbers, durations, metrics and tables as plain text."""

import math
import statistics
from collections.abc import Sequence

METRIC_NAMES = {"mse": "MSE", "rmse": "RMSE", "mae": "MAE", "nll": "NLL"}
# Metrics shown in percent.
PERCENT = ("accuracy",)
MISSING = "–"


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with `digits` significant digits. Whole numbers below a million are shown in full.

    >>> number(0.123456), number(1234567.8), number(12), number(0.00012345), number(None)
    ('0.1235', '1,234,568', '12', '1.234e-04', '–')
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) >= 10.0 ** min(digits, 4):
        return f"{value:,.0f}"
    if abs(value) < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{float(mantissa):g}e{exponent}"
    return f"{value:.{digits}g}"


def mean_std(values: Sequence[float]) -> str:
    """Format mean ± standard deviation (n − 1), with two digits of the latter; a single value has no deviation.

    >>> mean_std([1.0, 1.1, 1.2])
    '1.10 ± 0.10'
    """
    if not values:
        return MISSING
    if len(values) == 1:
        return number(values[0])
    if not all(map(math.isfinite, values)):
        return number(sum(values) / len(values))
    # Exact, unlike NumPy's: equal values have no deviation.
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    if deviation == 0:
        return f"{number(mean)} ± 0"
    if max(abs(mean), deviation) < 1e-3:
        power = math.floor(math.log10(max(abs(mean), deviation)))
        digits = _decimals(deviation / 10**power)
        return f"({mean / 10**power:.{digits}f} ± {deviation / 10**power:.{digits}f})e{power:03d}"
    digits = _decimals(deviation)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def metric_name(metric: str) -> str:
    """The usual name of a metric: MSE for `mse`."""
    return METRIC_NAMES.get(metric, metric)


def is_percent(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric in PERCENT


def metric_value(metric: str, value: float | None) -> str:
    """Format a value of a metric, in percent if that is usual.

    >>> metric_value("accuracy", 0.951), metric_value("mse", 0.0123456)
    ('95.10 %', '0.01235')
    """
    if value is None:
        return MISSING
    return f"{100 * value:.2f} %" if is_percent(metric) else number(value)


def metric_mean_std(metric: str, values: Sequence[float]) -> str:
    """Format mean ± standard deviation of a metric over runs; a single value has no deviation."""
    if len(values) < 2:
        return metric_value(metric, values[0] if values else None)
    return f"{mean_std([100 * value for value in values])} %" if is_percent(metric) else mean_std(values)


def duration(seconds: float) -> str:
    """Format a duration for a sentence or a table, in its two largest units.

    >>> duration(3.14159), duration(100), duration(200), duration(8000)
    ('3.1 s', '100 s', '3 min 20 s', '2 h 13 min')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(seconds: float) -> str:
    """Format a duration for a line that is updated: minutes and seconds, and hours if needed.

    >>> clock(65), clock(3665), clock(float("inf"))
    ('1:05', '1:01:05', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count(n: int, one: str, many: str | None = None) -> str:
    """Format a number of things, singular or plural.

    >>> count(1, "run"), count(1200, "run"), count(2, "entry", "entries")
    ('1 run', '1,200 runs', '2 entries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "<>") -> str:
    """Format a table for a terminal.

    Args:
        heads: the names of the columns.
        rows: the cells of each row, one per column.
        align: "<" (left) or ">" (right) for each column; the last one is repeated for the columns that follow.

    >>> print(table(["model", "MSE"], [["s7", "0.45"], ["lstm", "1.05"]]))
    model   MSE
    s7     0.45
    lstm   1.05
    """
    lines = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    columns = list(zip(align.ljust(len(widths), align[-1]), widths, strict=True))
    padded = ([f"{cell:{side}{width}}" for cell, (side, width) in zip(line, columns, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _decimals(deviation: float) -> int:
    """The number of decimals that show two digits of a deviation."""
    return min(max(0, 1 - math.floor(math.log10(deviation))), 12)
