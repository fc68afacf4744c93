"""Everything that S7 prints or publishes: numbers and tables as text, plots, Markdown and HTML pages.

`text` and `markdown` need nothing but the standard library. `plots` needs matplotlib and `pages` jinja2, which the
extra `report` installs; `require` turns a missing one into a message that says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["require"]

EXTRA = ("jinja2", "markupsafe", "matplotlib")


@contextmanager
def require(what: str) -> Iterator[None]:
    """Explain how to install the extra `report` if an import in this context fails for want of it.

    Args:
        what: the feature that needs it, such as "the report".

    Raises:
        ValueError: jinja2 or matplotlib is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise ValueError(f"{what} needs {package}, which is not installed: pip install 's7-ssm[report]'") from None
