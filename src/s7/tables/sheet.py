"""A table ready to be written down."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Sheet(NamedTuple):
    """Cells as text, with notes to stand below; `records` are the rows for machines."""

    name: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    records: Sequence[dict[str, Any]]
