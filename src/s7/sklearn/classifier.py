"""The classifier."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from s7.estimation.fitting import Target, fit_ensemble
from s7.sklearn.base import Estimator


class S7Classifier(ClassifierMixin, Estimator):
    """Classify series, or each step of series.

    Series are arrays (samples, steps, channels) or (samples, steps); lists of arrays (steps, channels) of different
    lengths; lists of pandas frames indexed by time; or long-format frames. NaN means missing. Scaling, validation and
    early stopping happen inside; sizes and training settings are derived from the data.

    Args:
        minutes: About how long fitting may take; None for a default number of steps.
        members: The number of trained S7 models; 0 for random states alone, which takes seconds. With 5 or more, the
            share of the trained models is chosen on all of the training data. None: 5 if there are 500 series or more,
            if `minutes` are given or if there is one label per step; otherwise 0.
        random_states: Whether to fit random states with a closed-form readout too. Their share of the answer, and that
            of the trained models, is chosen by cross-validation.
        layout: "channels_first" if arrays are (samples, channels, steps), as in aeon and sktime.
        steps: The number of batches that each model is trained on.
        patch: Steps of a series that a trained model reads as one event.
        width: The number of features between the blocks of a trained model.
        state: The number of states of each layer.
        depth: The number of blocks.
        dropout: The probability that a value is dropped in training.
        batch_size: The number of series in a batch.
        learning_rate: The largest learning rate.
        random_state: The seed.
        verbose: Whether to print what is being done.

    Attributes:
        classes_: The labels, sorted.
        ensemble_: The fitted models, an `s7.Ensemble`.

    Examples:
        >>> import numpy as np
        >>> from s7.sklearn import S7Classifier
        >>> x = np.sin(np.arange(60)[None] * np.linspace(0.1, 1, 20)[:, None])  # 20 series of 60 steps
        >>> y = np.repeat(["slow", "fast"], 10)
        >>> S7Classifier(members=0).fit(x, y).predict(x[:1]).tolist()
        ['slow']
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
    ) -> "S7Classifier":
        """Fit to series.

        Args:
            x: The series.
            y: One label per series; or per step, a list of arrays or an array (samples, steps). For a long frame,
                the name of the column.
            times: The times of the steps, (samples, steps) or a list of arrays: numbers or datetimes.
            dt: The gaps before the steps, in place of times.
            minutes: About how long fitting may take.
            group: The column of a long-format frame that identifies the series.
            time: The column of a long-format frame with the times.
        """
        self._remember_columns(group, time)
        series, y = self._read(x, times, dt, reset=True, y=y)
        self.ensemble_ = fit_ensemble(series, self._target(y, series), self._request(minutes))
        return self

    def predict_proba(self, x: Any, *, times: Any = None, dt: Any = None) -> Any:
        """The probability of each class, (samples, classes); per step, a list of arrays (steps, classes)."""
        self._check_fitted()
        return self.ensemble_(self._read_new(x, times, dt))

    def predict(self, x: Any, *, times: Any = None, dt: Any = None) -> Any:
        """The most likely class of each series; per step, a list of arrays."""
        found = self.predict_proba(x, times=times, dt=dt)
        if self.ensemble_.per_step:
            return [self.classes_[part.argmax(1)] for part in found]
        return self.classes_[found.argmax(1)]

    def score(self, x: Any, y: Any, sample_weight: Any = None, **arguments: Any) -> float:
        """The accuracy; per step, that of all steps together."""
        self._check_fitted()
        if not self.ensemble_.per_step:
            from sklearn.metrics import accuracy_score

            _, y = self._read(x, None, None, reset=False, y=y)
            return float(accuracy_score(y, self.predict(x, **arguments), sample_weight=sample_weight))
        right = [np.asarray(a) == b for a, b in zip(self.predict(x, **arguments), y, strict=True)]
        return float(np.concatenate(right).mean())

    def _target(self, y: Any, series: Any) -> Target:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if _is_per_step(y, series):
            rows = [np.asarray(part) for part in y]
            check_consistent_length(series.values, rows)
            for n, (row, values) in enumerate(zip(rows, series.values, strict=True)):
                if row.shape != (len(values),):
                    raise ValueError(f"y of series {n} has shape {row.shape}, expected ({len(values)},)")
            flat = np.concatenate(rows)
            check_classification_targets(flat)
            self.classes_, codes = np.unique(flat, return_inverse=True)
            ends = np.cumsum([len(row) for row in rows])[:-1]
            return Target(np.split(codes, ends), tuple(self.classes_.tolist()), per_step=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(series.values, y)
        missing = [label is None or label != label for label in y.tolist()]
        if any(missing):
            raise ValueError(f"y of series {missing.index(True)} is missing; leave the series out")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_.tolist()[0]!r}; a classifier needs at least two classes")
        return Target.of_classes(codes, tuple(self.classes_.tolist()))

    def _stored(self) -> tuple[str, ...]:
        return (*super()._stored(), "classes_")


def _is_per_step(y: Any, series: Any) -> bool:
    """Whether there is one label per step: ragged lists, or an array as wide as the series are long."""
    if isinstance(y, list | tuple) and y and hasattr(y[0], "__len__") and not isinstance(y[0], str):
        return all(len(row) == len(values) for row, values in zip(y, series.values, strict=False)) and len(y[0]) > 1
    shape = np.shape(y) if isinstance(y, np.ndarray) else ()
    return len(shape) == 2 and shape[1] > 1 and bool((series.lengths == shape[1]).all())
