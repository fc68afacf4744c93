"""AEDAT 4, recorded with iniVation's DV, read by the package aedat.

A file starts with a line of text and the description of its streams, preceded by its size (4 bytes). Packets follow,
each with the number of its stream and its size (4 bytes each).
"""

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from s7.events.container import Events
from s7.events.formats.base import EventFormat

MAGIC = b"#!AER-DAT4"
FIRST_LINE = 14
_SIZE, _PACKET = struct.Struct("<I"), struct.Struct("<iI")
# The standard error is that of the whole process, so one thread at a time may redirect it.
_redirecting = threading.Lock()


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
        path.open("rb").close()  # an error of the operating system says what is wrong
        with _readable(path, None):
            decoder = aedat.Decoder(str(path))
            streams = decoder.id_to_stream()
        yield streams
        for number in count():
            with _readable(path, number):
                packet = next(decoder, None)
            if packet is None:
                return
            yield packet


@contextmanager
def _readable(path: Path, packet: int | None) -> Iterator[None]:
    """Make one line of any error, and of a panic of compiled code, which also prints a trace to the standard error.

    The line names the position of the packet that is being read, or of the description of the streams.
    """
    with _redirecting:
        kept = os.dup(2)
        silent = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silent, 2)
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic is not an Exception
            reason = " ".join(str(error).split())[:200]
            at = FIRST_LINE if packet is None else _position(path, packet)
            raise ValueError(f"{path}: byte {at}: damaged ({reason}); get it again") from None
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(silent)


def _position(path: Path, packet: int) -> int:
    """The position of a packet in a file whose packets before it are not damaged."""
    with path.open("rb") as file:
        file.seek(FIRST_LINE)
        (size,) = _SIZE.unpack(file.read(_SIZE.size))
        at = file.tell() + size
        for _ in range(packet):
            file.seek(at)
            _, size = _PACKET.unpack(file.read(_PACKET.size))
            at += _PACKET.size + size
        return at
