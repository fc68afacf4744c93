"""An estimator in a file: its class, its settings and everything that fitting has made."""

from importlib import import_module
from typing import Any

import equinox as eqx

# The classes that files may name.
HOME = "s7.sklearn"
KINDS = ("S7Classifier", "S7Regressor", "S7Forecaster")


class StoredEstimator(eqx.Module):
    """What `s7.save` writes of a fitted estimator, and `s7.load` makes an estimator of again.

    Attributes:
        kind: The name of the estimator's class.
        settings: The arguments of its constructor.
        fitted: The fitted ensemble or forecaster.
        attributes: The other fitted attributes, as plain values.
    """

    kind: str = eqx.field(static=True)
    settings: dict[str, Any] = eqx.field(static=True)
    fitted: eqx.Module
    attributes: dict[str, Any] = eqx.field(static=True)

    def __s7_load__(self) -> Any:
        """The estimator."""
        if self.kind not in KINDS:
            raise ValueError(f"no estimator {self.kind!r}; expected one of {', '.join(KINDS)}")
        return getattr(import_module(HOME), self.kind).from_stored(self)
