"""A table ready to be formatted."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Sheet(NamedTuple):
    """Cells as text, with notes below them; `records` are the rows as JSON objects."""

    name: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    records: Sequence[dict[str, Any]]
