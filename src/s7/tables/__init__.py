"""The tables of the paper beside what came out here: `sheets` fills them in, `page` writes them down."""

from s7.tables.filling import sheets
from s7.tables.page import as_json, as_markdown, as_text
from s7.tables.results import read

__all__ = ["as_json", "as_markdown", "as_text", "read", "sheets"]
