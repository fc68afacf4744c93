"""AEDAT 4, recorded with iniVation's DV, read by the package aedat."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from s7.events.container import Events
from s7.events.formats.base import EventFormat

MAGIC = b"#!AER-DAT4"


class Aedat4(EventFormat, name="aedat4"):
    """AEDAT 4, recorded with DV."""

    extensions = (".aedat4",)
    extra = "aedat4"

    def sniff(self, start):
        return start.startswith(MAGIC)

    def blocks(self, path):
        try:
            aedat = import_module("aedat")
        except ModuleNotFoundError as error:
            message = "reading AEDAT 4 files needs aedat, which is missing; pip install 's7-ssm[aedat4]'"
            raise ModuleNotFoundError(message, name=error.name) from None
        packets = self._packets(aedat, path)
        streams = next(packets)
        for packet in packets:
            if "events" in packet:
                about = streams.get(packet["stream_id"], {})
                sensor = (int(about["width"]), int(about["height"])) if "width" in about else None
                events = packet["events"]
                yield Events(events["x"], events["y"], events["t"].astype("i8"), events["on"], sensor)

    def _packets(self, aedat: Any, path: Path) -> Iterator[dict[str, Any]]:
        """The description of the streams, then the packets. Errors of the package become one line."""
        try:
            decoder = aedat.Decoder(str(path))
            yield decoder.id_to_stream()
            yield from decoder
        except (GeneratorExit, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a panic of its compiled code is not an Exception
            if isinstance(error, OSError) and error.filename:
                raise
            raise ValueError(f"{path}: damaged ({' '.join(str(error).split())}); get it again") from None
