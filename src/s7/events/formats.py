"""Event file formats. A format is a class that registers itself, in this package or in a user's module.

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

# The number of bytes of a file that `sniff` receives.
SNIFFED = 4096


class EventFormat(registry.Registered, ABC, kind="event format", package="s7.events"):
    """The base class of event file formats.

    Class attributes:
        extensions: File name endings, in lower case, such as (".aedat",).
    """

    extensions: ClassVar[tuple[str, ...]] = ()

    def sniff(self, start: bytes) -> bool:
        """Whether a file that starts with these bytes has this format. By default only the extension decides."""
        return False

    @abstractmethod
    def read(self, path: Path) -> Events:
        """Read the events of a file, sorted by time, with times in milliseconds.

        Raises:
            ValueError: If the file is damaged, naming the file and the position.
        """


def find_format(path: Path) -> EventFormat:
    """Find the format of a file by its content, or else by its extension.

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
