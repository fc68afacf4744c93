"""Tables in files: CSV, Parquet and NumPy archives. Every value knows the line it is from."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".npz")


@dataclass(frozen=True)
class Table:
    """Columns of equal length.

    Attributes:
        path: The file, for messages.
        columns: Each column by name: strings as they are in the file, or numbers and times where the file has types.
        lines: The line number of each row; the row number, from 1, where a file has no lines.
    """

    path: Path
    columns: dict[str, Shaped[np.ndarray, " R"]]
    lines: Int[np.ndarray, " R"]

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Shaped[np.ndarray, " R"]:
        """A column; raises ValueError that lists the available ones if there is no such column."""
        if name not in self.columns:
            raise ValueError(f"{self.path}: no column {name!r}; the columns are {', '.join(self.columns)}")
        return self.columns[name]

    def missing(self, name: str) -> Bool[np.ndarray, " R"]:
        """Where a column has no value."""
        column = self.column(name)
        if column.dtype.kind == "f":
            return np.isnan(column)
        if column.dtype.kind in "mM":
            return np.isnat(column)
        if column.dtype.kind in "iub":
            return np.zeros(len(column), bool)
        return np.array([value is None or str(value).strip().lower() in MISSING for value in column.tolist()], bool)

    def is_text(self, name: str) -> bool:
        """Whether a column holds text: not a single one of its values is a number."""
        column = self.column(name)
        if column.dtype.kind in "iufb":
            return False
        known = column[~self.missing(name)]
        return len(known) > 0 and not any(is_number(value) for value in known[:1000].tolist())

    def numbers(self, name: str) -> Shaped[np.ndarray, " R"]:
        """A column as float64, NaN where a value is missing.

        Raises:
            ValueError: A value is not a number. The message names its line.
        """
        column = self.column(name)
        if column.dtype.kind in "iufb":
            return column.astype(np.float64)
        missing = self.missing(name)
        values = np.full(len(column), np.nan)
        for row in np.flatnonzero(~missing).tolist():
            try:
                values[row] = float(column[row])
            except (TypeError, ValueError):
                raise ValueError(f"{self.at(row)}: {name} is {column[row]!r}, expected a number") from None
            if math.isinf(values[row]):
                raise ValueError(f"{self.at(row)}: {name} is {column[row]!r}; leave it empty if it is missing")
        return values

    def times(self, name: str) -> Shaped[np.ndarray, " R"]:
        """A column of times: numbers, or datetimes as in ISO 8601; raises ValueError that names the line."""
        self.require(name)
        column = self.column(name)
        if column.dtype.kind in "iufmM":
            return column
        if is_number(column[0]):
            return self.numbers(name)
        times = np.empty(len(column), "datetime64[ns]")
        for row, value in enumerate(column.tolist()):
            try:
                times[row] = np.datetime64(str(value).strip().removesuffix("Z"), "ns")
            except ValueError:
                expected = "a number or a time such as 2024-05-01T12:00:00"
                raise ValueError(f"{self.at(row)}: {name} is {value!r}, expected {expected}") from None
        return times

    def require(self, name: str) -> None:
        """Raise ValueError that names the line if a value is missing."""
        missing = self.missing(name)
        if missing.any():
            raise ValueError(f"{self.at(int(np.argmax(missing)))}: {name} is empty")

    def at(self, row: int) -> str:
        """The place of a row, for messages."""
        return f"{self.path}, line {self.lines[row]}"


def is_number(value: Any) -> bool:
    """Whether this is a number, or text that is one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def read_table(path: Path) -> Table:
    """Read a CSV (.csv, .tsv, .txt) or Parquet (.parquet, .pq) file.

    Raises:
        ValueError: The file is empty, has no header, or a row has another number of fields. The message names the line.
        ModuleNotFoundError: A Parquet file without pyarrow (extra `parquet`).
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if path.suffix in (".parquet", ".pq"):
        table = _read_parquet(path)
    elif path.suffix in (".csv", ".tsv", ".txt"):
        table = _read_csv(path)
    else:
        raise ValueError(f"{path}: unknown kind of file; expected one of {', '.join(SUFFIXES)}")
    if not len(table):
        raise ValueError(f"{path}: there are no rows")
    return table


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start})") from None
    lines = text.splitlines()
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    delimiter = max(",;\t", key=lines[0].count)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(header, path)
        rows, numbers = [], []
        for row in reader:
            if not row or row == [""]:
                continue
            if len(row) != len(header):
                raise ValueError(f"{path}, line {reader.line_num}: {len(row)} fields, expected {len(header)}")
            rows.append(row)
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    columns = {name: np.array(values, object) for name, values in zip(header, _columns(rows, header), strict=True)}
    return Table(path, columns, np.array(numbers, int))


def _columns(rows: list[list[str]], header: Sequence[str]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in header]


def _check_header(header: list[str], path: Path) -> None:
    for n, name in enumerate(header):
        if not name:
            raise ValueError(f"{path}, line 1: column {n + 1} has no name")
        if header.index(name) != n:
            raise ValueError(f"{path}, line 1: two columns are called {name!r}")
    if all(is_number(name) for name in header):
        raise ValueError(f"{path}, line 1: {', '.join(header[:5])}: expected the names of the columns, not numbers")


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{path}: Parquet files need pyarrow; install it with: pip install 's7-ssm[parquet]'", name="pyarrow"
        ) from None
    try:
        read = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a Parquet file ({' '.join(str(error).split())[:120]})") from None
    columns = {}
    for name, column in zip(read.column_names, read.columns, strict=True):
        values = column.to_numpy()
        columns[str(name)] = values if values.dtype.kind in "iufbmM" else values.astype(object)
    return Table(path, columns, np.arange(1, read.num_rows + 1))
