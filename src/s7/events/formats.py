"""Event file formats. A format is a class in a file of this package, or of a user's own, that registers itself.

class MyFormat(s7.EventFormat, name="mine"):
    extensions = (".mine",)

    def sniff(self, start): return start.startswith(b"MINE")
    def read(self, path): return Events(x, y, p, t)
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from s7 import registry
from s7.events.recordings import Events

# As many bytes of a file as `sniff` sees.
SNIFFED = 4096


class EventFormat(registry.Registered, ABC, kind="event format", package="s7.events"):
    """The base class of event file formats.

    Class attributes:
        extensions: File name endings, in lower case, such as (".aedat",).
    """

    extensions: ClassVar[tuple[str, ...]] = ()

    def sniff(self, start: bytes) -> bool:
        """Whether a file that starts with these bytes is of this format. By default only the extension counts."""
        return False

    @abstractmethod
    def read(self, path: Path) -> Events:
        """The events of a file, in the order of time, with times in milliseconds.

        Raises:
            ValueError: If the file is damaged, naming the file and the position.
        """


def find_format(path: Path) -> EventFormat:
    """The format of a file: one that recognizes its content, else one that has its extension.

    Raises:
        ValueError: If no format fits.
    """
    registry.load_plugins()
    formats = {name: kind() for name, kind in EventFormat.registry.classes.items()}
    with path.open("rb") as file:
        start = file.read(SNIFFED)
    for one in formats.values():
        if one.sniff(start):
            return one
    for one in formats.values():
        if path.name.lower().endswith(one.extensions):
            return one
    known = ", ".join(EventFormat.registry.short_name(name) for name in formats)
    raise ValueError(f"{path}: not an event file of a known format ({known})")
