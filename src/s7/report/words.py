"""How numbers and names are written."""

import math
import statistics

import numpy as np

NAMES = {"mse": "MSE", "rmse": "RMSE", "mae": "MAE", "nll": "NLL"}
SPLITS = {"train": "training", "valid": "validation", "test": "test"}


def name_of(metric: str) -> str:
    """A metric's name."""
    return NAMES.get(metric, metric)


def is_share(metric: str) -> bool:
    """Whether it is given in percent."""
    return metric == "accuracy"


def amount(metric: str, value: float | None) -> str:
    """A value of a metric: four digits, or percent."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if is_share(metric) else number(value)


def number(value: float) -> str:
    """Four digits, and never fewer than a whole number has."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def spread(metric: str, values: list[float]) -> str:
    """Mean ± standard deviation of a metric; a single value as it is."""
    if not values:
        return "–"
    if len(values) == 1:
        return amount(metric, values[0])
    factor, unit = (100, " %") if is_share(metric) else (1, "")
    return plus_minus([factor * value for value in values]) + unit


def plus_minus(values: list[float]) -> str:
    """Mean ± standard deviation (of n - 1), to two digits of the latter."""
    if not all(map(math.isfinite, values)):
        return number(float(np.mean(values)))
    # Exact, unlike NumPy's: equal values have no deviation.
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    if deviation == 0:
        return f"{number(mean)} ± 0"
    if max(abs(mean), deviation) < 1e-3:
        power = math.floor(math.log10(max(abs(mean), deviation)))
        digits = _digits(deviation / 10**power)
        return f"({mean / 10**power:.{digits}f} ± {deviation / 10**power:.{digits}f})e{power:03d}"
    digits = _digits(deviation)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def duration(seconds: float) -> str:
    """In the two units that matter."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count(n: int, one: str, many: str | None = None) -> str:
    """1 run, 2 runs."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _digits(deviation: float) -> int:
    """Decimals that show two digits of it."""
    return min(max(0, 1 - math.floor(math.log10(deviation))), 12)
