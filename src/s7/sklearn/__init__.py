"""Estimators with the interface of scikit-learn, which need no settings (extra `sklearn`).

from s7.sklearn import S7Classifier
model = S7Classifier().fit(x, y)
model.predict(x_new)
"""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "s7.sklearn needs scikit-learn; install it with: pip install 's7-ssm[sklearn]'", name="sklearn"
    ) from None

from s7.series.collection import as_collection as as_collection
from s7.series.long_format import from_frame as from_frame
from s7.sklearn.classifier import S7Classifier as S7Classifier
from s7.sklearn.forecaster import S7Forecaster as S7Forecaster
from s7.sklearn.regressor import S7Regressor as S7Regressor

__all__ = ["S7Classifier", "S7Forecaster", "S7Regressor", "as_collection", "from_frame"]
