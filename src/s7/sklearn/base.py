"""What the estimators have in common: reading series and targets, fitting, saving, explaining."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from s7.data.samples import Samples
from s7.estimation.fitting import Request
from s7.estimation.stored import StoredEstimator
from s7.series.collection import Collection, as_collection, is_list_of_frames
from s7.series.long_format import from_frame
from s7.series.table import is_number

# Settings of the trained models; None stands for a value that is derived from the data.
PLANNED = ("steps", "patch", "width", "state", "depth", "dropout", "batch_size", "learning_rate")


class Estimator(BaseEstimator):
    """Base class of the estimators. Its settings are those of S7Classifier."""

    fitted: ClassVar[str] = "ensemble_"
    channels_: tuple[str, ...]

    def __init__(
        self,
        *,
        minutes: float | None = None,
        members: int | None = None,
        random_states: bool = True,
        layout: Any = "steps_first",
        steps: int | None = None,
        patch: int | None = None,
        width: int | None = None,
        state: int | None = None,
        depth: int | None = None,
        dropout: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.minutes = minutes
        self.members = members
        self.random_states = random_states
        self.layout = layout
        self.steps = steps
        self.patch = patch
        self.width = width
        self.state = state
        self.depth = depth
        self.dropout = dropout
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    # Reading.

    def _read(self, x: Any, times: Any, dt: Any, *, reset: bool, y: Any = None) -> tuple[Collection, Any]:
        """The series, and the targets if they are in the same frame as the series."""
        if hasattr(x, "columns") and self._long(x) is not None:
            group, time = self._long(x)
            target = y if isinstance(y, str) else None
            kept = None if reset else list(self.channels_)
            x, found = from_frame(x, group=group, time=time, target=target, features=kept)
            y = found if target is not None else y
        elif isinstance(y, str):
            raise ValueError(
                f"y={y!r} names a column, but x is not a long-format frame; pass group=, the column of ids"
            )
        if _is_table(x):
            _check_numbers(x)
            x = validate_data(self, x, dtype="numeric", ensure_all_finite="allow-nan", reset=reset)
        series = as_collection(x, times=times, dt=dt, layout=self.layout)
        if reset:
            self._timed = series.gaps is not None
            self.channels_ = series.channels
            if not _is_table(x):
                self.n_features_in_ = len(series.channels)
        elif len(series.channels) != len(self.channels_):
            raise ValueError(f"x has {len(series.channels)} channels, expected {len(self.channels_)} as in fit")
        return series, y

    def _read_new(self, x: Any, times: Any, dt: Any) -> Collection:
        """Series to predict.

        Raises:
            ValueError: Times are given but were not in `fit`, or the other way round. This is not known of frames: in
                their index, whole numbers from 0 on may be times or count the rows.
        """
        series, _ = self._read(x, times, dt, reset=False)
        timed = getattr(self, "_timed", series.gaps is not None)
        if timed and series.gaps is None and not hasattr(x, "columns") and not is_list_of_frames(x):
            raise ValueError("x has no times, but fit was given times; pass times= or dt=")
        if not timed and (times is not None or dt is not None):
            raise ValueError("x has times, but fit was given none; omit them, or pass times= or dt= to fit too")
        return series

    def _long(self, x: Any) -> Any:
        """The columns of ids and times, if this is a long-format frame."""
        group = getattr(self, "_group", None)
        return None if group is None or (group not in x.columns and not _is_table(x)) else (group, self._time)

    def _remember_columns(self, group: str | None, time: str | None) -> None:
        self._group, self._time = group, time

    # Fitting.

    def _request(self, minutes: float | None) -> Request:
        value = self.members
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0):
            raise ValueError(f"members={value!r} must be a whole number of at least 0, or None")
        if not self.random_states and value == 0:
            raise ValueError("members=0 and random_states=False: there is no model to fit")
        minutes = self.minutes if minutes is None else minutes
        if minutes is not None and not 0 < minutes < float("inf"):
            raise ValueError(f"minutes={minutes!r} must be positive")
        return Request(
            members=None if value is None else int(value),
            minutes=minutes,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            random_states=self.random_states,
            settings={name: getattr(self, name) for name in PLANNED},
            say=print if self.verbose else lambda text: None,
            progress=bool(self.verbose),
        )

    def _check_fitted(self) -> None:
        check_is_fitted(self, self.fitted)

    # Saving.

    def __s7_save__(self) -> StoredEstimator:
        self._check_fitted()
        settings = self.get_params(deep=False)
        settings["random_state"] = settings["random_state"] if isinstance(settings["random_state"], int) else None
        plain = {name: _plain(getattr(self, name)) for name in self._stored() if hasattr(self, name)}
        settings = {name: _plain(value) for name, value in settings.items()}
        return StoredEstimator(type(self).__name__, settings, getattr(self, self.fitted), plain)

    @classmethod
    def from_stored(cls, stored: StoredEstimator) -> Any:
        """The estimator that was saved."""
        made = cls(**stored.settings)
        for name, value in stored.attributes.items():
            setattr(made, name, np.array(value) if isinstance(value, list) else value)
        setattr(made, cls.fitted, stored.fitted)
        return made

    def _stored(self) -> tuple[str, ...]:
        """The fitted attributes besides the models."""
        return ("channels_", "n_features_in_", "feature_names_in_", "_group", "_time", "_timed")

    # Explaining.

    def explain(self, x: Any, sample: int = 0, *, times: Any = None, dt: Any = None) -> Any:
        """Plot one series with the steps at which the selection opened.

        The selection is open where the input-dependent parts of B and C contribute most, compared with the static
        parts: there the model lets the input in, or reads its state out, differently from elsewhere.

        Args:
            x: Series, as for `predict`.
            sample: The index of the series to plot.
            times, dt: As for `predict`.

        Returns:
            A matplotlib figure.
        """
        from s7.sklearn.explanation import explanation

        self._check_fitted()
        series = self._read_new(x, times, dt)
        member = getattr(self, self.fitted).selective
        if member is None:
            raise ValueError("there is no trained model to explain; fit with members=1 or more")
        if not -len(series) <= sample < len(series):
            raise ValueError(f"sample={sample} is not one of the {len(series)} series")
        return explanation(member, series.take([sample % len(series)]))


def _is_table(x: Any) -> bool:
    """Whether this is an array of two dimensions, one row per sample, or something that becomes one."""
    if hasattr(x, "columns"):
        return getattr(x.index, "nlevels", 1) == 1 and not _has_series_in_cells(x)
    if isinstance(x, Samples | Collection):
        return False
    if isinstance(x, list | tuple):
        return bool(x) and not hasattr(x[0], "__array__") and not hasattr(x[0], "iloc") and _is_rectangular(x)
    return getattr(x, "ndim", 2) != 3 and not (isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1)


def _check_numbers(x: Any) -> None:
    """Name the first text in a table of numbers, which may hold numbers as text elsewhere."""
    rows = x if isinstance(x, np.ndarray) else x.to_numpy() if hasattr(x, "to_numpy") else None
    if rows is None or rows.dtype != object or rows.ndim != 2:
        return
    for (n, step), value in np.ndenumerate(rows):
        if isinstance(value, str) and not is_number(value):
            raise ValueError(f"x: step {step} of series {n} is {value!r}, expected a number")


def _has_series_in_cells(frame: Any) -> bool:
    return len(frame) > 0 and all(np.ndim(cell) == 1 for cell in frame.iloc[0].tolist())


def _is_rectangular(x: Any) -> bool:
    lengths = {len(row) if hasattr(row, "__len__") else None for row in x}
    return len(lengths) == 1


def _plain(value: Any) -> Any:
    """A value as plain JSON values; arrays become lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value
