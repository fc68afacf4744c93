"""Everything that S7 prints or publishes: numbers and tables as text, plots, Markdown and HTML pages.

`text` and `markdown` need only the standard library. `plots` needs matplotlib and `pages` needs jinja2, which the extra
`report` installs; call `require` before importing them.
"""

from importlib import import_module

__all__ = ["require"]


def require(what: str, packages: tuple[str, ...] = ("jinja2", "matplotlib")) -> None:
    """Check that the packages of the extra `report` are installed.

    Args:
        what: the feature that needs them, such as "the report".

    Raises:
        ValueError: one of them is missing; the message says how to install it.
    """
    for package in packages:
        try:
            import_module(package)
        except ModuleNotFoundError:
            message = f"{what} needs {package}, which is not installed: pip install 's7-ssm[report]'"
            raise ValueError(message) from None
