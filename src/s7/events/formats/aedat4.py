"""AEDAT 4, recorded with iniVation's DV, read by the package aedat."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
        path.open("rb").close()  # an error of the operating system says what is wrong
        with _readable(path):
            decoder = aedat.Decoder(str(path))
            streams = decoder.id_to_stream()
        yield streams
        while True:
            with _readable(path):
                packet = next(decoder, None)
            if packet is None:
                return
            yield packet


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Make one line of any error, and of a panic of compiled code, which also prints a trace to the standard error."""
    kept = os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(silent, 2)
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic is not an Exception
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path}: damaged ({reason}); get it again") from None
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)
