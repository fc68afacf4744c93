"""The regressor."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from s7.estimation.fitting import Target, fit_ensemble
from s7.sklearn.base import Estimator


class S7Regressor(RegressorMixin, Estimator):
    """Predict one or several numbers for each series, or for each step of series.

    Settings and series are those of `S7Classifier`.

    Examples:
        >>> import numpy as np
        >>> from s7.sklearn import S7Regressor
        >>> frequency = np.linspace(0.1, 1, 40)
        >>> x = np.sin(np.arange(60)[None] * frequency[:, None])  # 40 series of 60 steps
        >>> bool(S7Regressor(members=0).fit(x, frequency).score(x, frequency) > 0.9)
        True
    """

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        times: Any = None,
        dt: Any = None,
        minutes: float | None = None,
        group: str | None = None,
        time: str | None = None,
    ) -> "S7Regressor":
        """Fit to series.

        Args:
            x: The series.
            y: Numbers, (samples,) or (samples, outputs); or per step, a list of arrays (steps,) or (steps, outputs), or
                an array (samples, steps, outputs). For a long-format frame, the name of the column.
            times: As for `S7Classifier.fit`.
            dt: As for `S7Classifier.fit`.
            minutes: As for `S7Classifier.fit`.
            group: As for `S7Classifier.fit`.
            time: As for `S7Classifier.fit`.
        """
        self._remember_columns(group, time)
        series, y = self._read(x, times, dt, reset=True, y=y)
        self.ensemble_ = fit_ensemble(series, self._target(y, series), self._request(minutes))
        return self

    def predict(self, x: Any, *, times: Any = None, dt: Any = None) -> Any:
        """The predicted numbers, in the shape of the targets; per step, a list of arrays."""
        self._check_fitted()
        found = self.ensemble_(self._read_new(x, times, dt))
        if self.ensemble_.per_step:
            return [part[:, 0] if self.is_flat_ else part for part in found]
        return found[:, 0] if self.is_flat_ else found

    def score(self, x: Any, y: Any, sample_weight: Any = None, **arguments: Any) -> float:
        """The coefficient of determination R²; per step, of all steps together."""
        from sklearn.metrics import r2_score

        self._check_fitted()
        _, y = self._read(x, None, None, reset=False, y=y)
        found = self.predict(x, **arguments)
        if self.ensemble_.per_step:
            found, y = np.concatenate(found), np.concatenate([np.asarray(part) for part in y])
        return float(r2_score(y, found, sample_weight=sample_weight))

    def _target(self, y: Any, series: Any) -> Target:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if _is_per_step(y):
            rows = [np.asarray(part, float) for part in y]
            check_consistent_length(series.values, rows)
            for n, (row, values) in enumerate(zip(rows, series.values, strict=True)):
                if row.ndim not in (1, 2) or len(row) != len(values):
                    raise ValueError(f"y of series {n} has shape {row.shape}, expected {len(values)} steps")
                broken = ~np.isfinite(row).reshape(len(row), -1).all(1)
                if broken.any():
                    raise ValueError(f"y of series {n} is not finite at step {int(np.argmax(broken))}")
            self.is_flat_ = rows[0].ndim == 1
            return Target(rows, per_step=True)
        values = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
        check_consistent_length(series.values, values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = column_or_1d(values, warn=True)
        self.is_flat_ = values.ndim == 1
        return Target(values.astype(float))

    def _stored(self) -> tuple[str, ...]:
        return (*super()._stored(), "is_flat_")


def _is_per_step(y: Any) -> bool:
    if isinstance(y, list | tuple) and len(y):
        return all(hasattr(row, "__array__") and np.ndim(row) > 0 for row in y)
    return isinstance(y, np.ndarray) and y.ndim == 3
