"""S7: selective state-space models for long, irregular and event-driven sequences.

Public names are listed in `__init__.pyi`, with the module that defines each. They are imported when they are first
used, so that `import s7` is fast and does not import JAX.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from s7.version import __version__

_HOME = {
    name: module
    for module, name in re.findall(
        r"^from (s7\S*) import (\w+)", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), re.MULTILINE
    )
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 's7' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"s7.{name}") if home == "s7" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)


__all__ = ["__version__", *(name for name in _HOME if name != "__version__")]
