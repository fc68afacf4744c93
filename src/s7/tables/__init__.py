"""The paper's tables with results of this library: `sheets` fills them in, `as_text` and others format them."""

from s7.tables.filling import sheets
from s7.tables.page import as_json, as_markdown, as_text
from s7.tables.results import read

__all__ = ["as_json", "as_markdown", "as_text", "read", "sheets"]
