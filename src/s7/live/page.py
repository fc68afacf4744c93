"""The page of the viewer, as one file: its parts are in the folder `page`."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from s7.publishing.colours import DARK, LIGHT

SCRIPTS = ("charts.js", "viewer.js")


@cache
def page() -> str:
    """The page: HTML with its style and scripts inside, without external resources."""
    return _read("index.html").replace("/* style */", _style()).replace("/* script */", _script())


@cache
def policy() -> str:
    """A Content-Security-Policy that allows the page's own style and script, and connections to its own server."""
    script, style = (_digest(text) for text in (_script(), _style()))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _style() -> str:
    colours = [
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}",
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}",
    ]
    return "\n".join([*colours, _read("style.css")])


@cache
def _script() -> str:
    return "\n".join(_read(name) for name in SCRIPTS)


def _variables(theme: dict[str, str]) -> str:
    return " ".join(f"--{role}: {colour};" for role, colour in theme.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files("s7.live") / "page" / name).read_text(encoding="utf-8")
