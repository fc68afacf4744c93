"""The forecaster."""

from typing import Any, ClassVar

import numpy as np

from s7.estimation.forecasting import fit_forecaster
from s7.series.collection import Collection, as_collection
from s7.sklearn.base import Estimator


class S7Forecaster(Estimator):
    """Predict the next values of series.

    Args:
        horizon: The number of steps to predict.

    The other settings are those of `S7Classifier`. Random states and patches are not used.

    Examples:
        >>> import numpy as np
        >>> from s7.sklearn import S7Forecaster
        >>> x = np.sin(np.arange(200) / 5)  # one series
        >>> S7Forecaster(horizon=3, steps=2).fit(x).predict(x).shape  # series, steps, channels
        (1, 3, 1)
    """

    fitted: ClassVar[str] = "forecaster_"

    def __init__(
        self,
        horizon: int = 1,
        *,
        minutes: float | None = None,
        members: int = 1,
        layout: Any = "steps_first",
        steps: int | None = None,
        width: int | None = None,
        state: int | None = None,
        depth: int | None = None,
        dropout: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        settings: dict[str, Any] = {"minutes": minutes, "members": members, "layout": layout, "steps": steps}
        settings |= {"width": width, "state": state, "depth": depth, "dropout": dropout, "batch_size": batch_size}
        super().__init__(**settings, learning_rate=learning_rate, random_state=random_state, verbose=verbose)
        self.horizon = horizon

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        times: Any = None,
        dt: Any = None,
        minutes: float | None = None,
        group: str | None = None,
        time: str | None = None,
    ) -> "S7Forecaster":
        """Fit to series.

        Args:
            x: One series, an array (steps,) or a frame indexed by time; or several, as for `S7Classifier.fit`.
            y: Not used.
            times: As for `S7Classifier.fit`.
            dt: As for `S7Classifier.fit`.
            minutes: As for `S7Classifier.fit`.
            group: As for `S7Classifier.fit`.
            time: As for `S7Classifier.fit`.
        """
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int | np.integer) or self.horizon < 1:
            raise ValueError(f"horizon={self.horizon!r} must be a whole number of at least 1")
        self._remember_columns(group, time)
        series = self._series(x, times, dt, reset=True)
        self.forecaster_ = fit_forecaster(series, int(self.horizon), self._request(minutes))
        return self

    def predict(self, x: Any, *, times: Any = None, dt: Any = None) -> Any:
        """The `horizon` values after the end of each series, (samples, horizon, channels)."""
        self._check_fitted()
        return self.forecaster_(self._series(x, times, dt, reset=False))

    def score(self, x: Any, y: Any = None, *, times: Any = None, dt: Any = None) -> float:
        """The skill in predicting the last `horizon` values of each series from those before.

        1 is perfect, 0 is as good as repeating the last value, and less is worse.
        """
        self._check_fitted()
        series = self._series(x, times, dt, reset=False)
        for n, part in enumerate(series.values):
            if len(part) <= self.horizon:
                raise ValueError(f"series {n} has {len(part)} steps, expected more than horizon={self.horizon}")
        gaps = None if series.gaps is None else [part[: -self.horizon] for part in series.gaps]
        past = Collection([part[: -self.horizon] for part in series.values], gaps, series.channels)
        ahead = np.stack([part[-self.horizon :] for part in series.values])
        last = np.stack([part[-1:] for part in past.values])
        error, repeated = (np.nanmean(np.square(q - ahead)) for q in (self.forecaster_(past), last))
        return float(1 - error / max(float(repeated), 1e-12))

    def _series(self, x: Any, times: Any, dt: Any, *, reset: bool) -> Collection:
        if isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype != object:
            x, times, dt = x[None], _one(times), _one(dt)
        elif hasattr(x, "iloc") and getattr(self, "_group", None) is None and x.index.nlevels == 1:
            x = [x]
        if isinstance(x, np.ndarray) and x.ndim == 2:
            x = x[..., None] if self.layout == "steps_first" else x[:, None]
        if hasattr(x, "columns"):
            series, _ = self._read(x, times, dt, reset=reset)
            return series
        series = as_collection(x, times=times, dt=dt, layout=self.layout)
        if reset:
            self.channels_, self.n_features_in_ = series.channels, len(series.channels)
        elif len(series.channels) != len(self.channels_):
            raise ValueError(f"x has {len(series.channels)} channels, expected {len(self.channels_)} as in fit")
        return series


def _one(times: Any) -> Any:
    return None if times is None else [times]
