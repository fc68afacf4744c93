"""Write event files."""

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from s7.events.container import Events, Size
from s7.events.formats import EventFormat, format_named
from s7.events.formats.base import Unwritable
from s7.events.formats.detection import formats
from s7.storage import open_atomically


def write_events(
    path: str | os.PathLike,
    events: Events | Iterable[Events],
    *,
    format: str | None = None,
    sensor: Size | None = None,
) -> Path:
    """Write events to a file. The file exists whole or not at all.

    Args:
        path: The file. Its extension chooses the format: .raw (EVT 3.0), .evt2, .dat, .aedat2, .csv or .npz.
        events: The events, or chunks of them.
        format: The name of the format, whatever the extension is.
        sensor: Width and height of the sensor. By default that of the events.

    Returns:
        The path of the file.

    Raises:
        ValueError: If the format cannot be written, or cannot hold the events. The message names the event.
    """
    path = Path(path)
    form = format_named(format) if format else writable_format(path)
    blocks = iter([events] if isinstance(events, Events) else events)
    first = next(blocks, Events.empty())
    try:
        with open_atomically(path) as file:
            form.write(file, chain([first], blocks), sensor or first.sensor)
    except Unwritable as error:
        raise ValueError(f"{path}: not written, {error}") from None
    return path


def writable_format(path: Path) -> EventFormat:
    """The format in which a file of this name is written.

    Raises:
        ValueError: If there is none.
    """
    known = [form for form in formats().values() if form.written_as]
    for form in known:
        if path.name.lower().endswith(form.written_as):
            return form
    endings = ", ".join(ending for form in known for ending in form.written_as)
    raise ValueError(f"{path}: no format is written under this name; use one of {endings}, or name a format")
