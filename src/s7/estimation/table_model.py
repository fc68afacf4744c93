"""A model of a table: a fitted ensemble or forecaster with the roles of the columns, and its answers as rows."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from s7.estimation.columns import Columns, Grouped, series_of
from s7.estimation.ensemble import Ensemble
from s7.estimation.forecasting import Forecaster
from s7.series.collection import Collection
from s7.series.table import Table

# The file in a run folder that `s7 predict` reads.
NAME = "table.safetensors"


class TableModel(eqx.Module):
    """A fitted model and the roles of the columns that it was fitted to."""

    fitted: Ensemble | Forecaster
    columns: Columns = eqx.field(static=True)

    def answers(self, table: Table) -> tuple[list[str], Iterator[list[Any]]]:
        """The header and the rows of the answers: one per series, per row of the table, or per step of a forecast."""
        series, parts = series_of(table, self.columns)
        return self.answers_for(series, parts, table)

    def answers_for(
        self, series: Collection, parts: Grouped, table: Table | None = None
    ) -> tuple[list[str], Iterator[list[Any]]]:
        """The answers for series that were read already."""
        head = [] if self.columns.group is None else [self.columns.group]
        names = [[] if self.columns.group is None else [name] for name in parts.names]
        found = self.fitted(series)
        if isinstance(self.fitted, Forecaster):
            return [*head, "step", *self.columns.features], _forecast_rows(names, found)
        answer = _answer_of(self.fitted)
        outputs = [f"p({label})" for label in self.fitted.classes]
        header = [*head, str(self.columns.target), *outputs]
        if not self.fitted.per_step:
            return header, ([*name, *answer(row)] for name, row in zip(names, found, strict=True))
        if self.columns.time is not None and table is not None:
            header.insert(len(head), self.columns.time)
        return header, self._step_rows(names, found, parts, table)

    def _step_rows(self, names: Any, found: Any, parts: Grouped, table: Table | None) -> Iterator[list[Any]]:
        answer = _answer_of(self.fitted)
        times = None if self.columns.time is None or table is None else table.column(self.columns.time)
        for name, rows, outputs in zip(names, parts.rows, found, strict=True):
            for row, output in zip(rows, outputs, strict=True):
                yield [*name, *([] if times is None else [times[row]]), *answer(output)]


def _answer_of(ensemble: Any) -> Any:
    if not ensemble.classes:
        return lambda row: [_short(value) for value in row]
    return lambda row: [ensemble.classes[int(np.argmax(row))], *(_short(value) for value in row)]


def _forecast_rows(names: Any, found: Any) -> Iterator[list[Any]]:
    for name, steps in zip(names, found, strict=True):
        for number, values in enumerate(steps, 1):
            yield [*name, number, *(_short(value) for value in values)]


def _short(value: Any) -> str:
    return f"{float(value):.6g}"
