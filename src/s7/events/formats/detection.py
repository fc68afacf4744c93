"""Find the format of a file or stream: by its signature, then its extension, then by what its content resembles."""

from pathlib import Path

from s7 import registry
from s7.events.formats.base import Decoder, EventFormat

# The number of bytes at the start of a file by which its format is recognized.
SNIFFED = 4096


def formats() -> dict[str, EventFormat]:
    """All formats by name, those of plugins included."""
    registry.load_plugins()
    return {name: kind() for name, kind in EventFormat.registry.classes.items()}


def format_named(name: str) -> EventFormat:
    """The format with this name.

    Raises:
        ValueError: If there is none.
    """
    return EventFormat.registry.find(name)()


def find_format(path: Path) -> EventFormat:
    """Find the format of a file.

    Raises:
        ValueError: If no format fits.
    """
    with path.open("rb") as file:
        start = file.read(SNIFFED)
    return format_of(start, str(path))


def format_of(start: bytes, where: str) -> EventFormat:
    """Find the format of a file or stream.

    Args:
        start: The first bytes, up to `SNIFFED` of them.
        where: The path or name of the source. Its extension decides if the content has no signature.

    Raises:
        ValueError: If no format fits.
    """
    known = formats()
    name = where.lower()
    tests = (
        lambda one: one.sniff(start),
        lambda one: bool(one.extensions) and name.endswith(one.extensions),
        lambda one: one.resembles(start),
    )
    for fits in tests:
        for one in known.values():
            if fits(one):
                return one
    if not start:
        raise ValueError(f"{where}: empty; there are no events in it")
    names = ", ".join(EventFormat.registry.short_name(name) for name in known)
    raise ValueError(f"{where}: byte 0: not the start of a known event format ({names})")


def decoder_for(start: bytes, where: str = "stream", format: str | None = None) -> Decoder:
    """The decoder of a stream. Feed it all bytes, those in `start` included.

    Args:
        start: The first bytes of the stream; 4096 are enough to recognize every format.
        where: The name of the stream, for error messages.
        format: The name of the format. By default it is recognized.

    Raises:
        ValueError: If the format is not known.
    """
    return (format_named(format) if format else format_of(start, where)).decoder(where)
