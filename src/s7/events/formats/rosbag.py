"""Event messages in bags of ROS 1 (.bag) and ROS 2 (.mcap, .db3 or its folder), read by the package rosbags.

Messages of the type EventArray (dvs_msgs, prophesee_event_msgs) hold arrays of events; messages of the type EventPacket
(event_camera_msgs) hold words of EVT 3.0 or EVT 2.x. The first topic of these types is read.
"""

import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from s7.events.container import Events, Size
from s7.events.formats.base import ByteDecoder, EventFormat
from s7.events.formats.evt2 import Evt2Decoder
from s7.events.formats.evt3 import Evt3Decoder
from s7.events.formats.evt21 import Evt21Decoder

SIGNATURES = (b"#ROSBAG V2.0", b"\x89MCAP0\r\n", b"SQLite format 3\x00")
ARRAY, PACKET = "/EventArray", "/EventPacket"
_DECODERS: dict[str, Callable[[str], ByteDecoder]] = {"evt3": Evt3Decoder, "evt2": Evt2Decoder, "evt21": Evt21Decoder}
_ROS1_EVENT = np.dtype([("x", "<u2"), ("y", "<u2"), ("secs", "<u4"), ("nsecs", "<u4"), ("p", "u1")])
# In ROS 2 fields are aligned to their size. From the second event on, an event has 16 bytes, with x 2 bytes before y.
_ROS2_EVENT = np.dtype(
    {
        "names": ["y", "secs", "nsecs", "p"],
        "formats": ["<u2", "<u4", "<u4", "u1"],
        "offsets": [0, 4, 8, 12],
        "itemsize": 16,
    }
)


class RosBag(EventFormat, name="rosbag"):
    """Bags of ROS 1 and ROS 2."""

    extensions = (".bag", ".mcap", ".db3")
    extra = "ros"

    def sniff(self, start):
        return start.startswith(SIGNATURES)

    def blocks(self, path):
        try:
            readers = [import_module(f"rosbags.rosbag{version}").Reader for version in (1, 2)]
        except ModuleNotFoundError as error:
            message = "reading bags of ROS needs rosbags, which is missing; pip install 's7-ssm[ros]'"
            raise ModuleNotFoundError(message, name=error.name) from None
        try:
            yield from _messages(readers, path)
        except Exception as error:  # a MemoryError too: damaged sizes are huge
            if (isinstance(error, OSError) and error.filename) or str(error).startswith(f"{path}: "):
                raise
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ValueError(f"{path}: damaged ({reason}); get it again") from None


def _messages(readers: list[Any], path: Path) -> Iterator[Events]:
    with path.open("rb") as file:
        is_ros2 = not file.read(len(SIGNATURES[0])).startswith(SIGNATURES[0])
    with readers[is_ros2](path) as bag:
        topics = [one for one in bag.connections if one.msgtype.endswith((ARRAY, PACKET))]
        if not topics:
            names = ", ".join(f"{one.topic} ({one.msgtype})" for one in bag.connections)[:200] or "none"
            raise ValueError(f"{path}: has no topic of events (EventArray or EventPacket); it has {names}")
        chosen = [one for one in topics if one.topic == topics[0].topic]
        parse = _Messages(str(path), is_ros2, topics[0].msgtype)
        for number, (_, _, raw) in enumerate(bag.messages(chosen)):
            try:
                yield parse(bytes(raw))
            except (struct.error, IndexError, UnicodeDecodeError):
                raise ValueError(f"{path}: message {number} of {topics[0].topic} is damaged") from None


class _Messages:
    """Decodes the messages of one topic."""

    def __init__(self, where: str, is_ros2: bool, kind: str):
        self._where = where
        self._is_ros2 = is_ros2
        self._is_packet = kind.endswith(PACKET)
        self._decoder: ByteDecoder | None = None

    def __call__(self, raw: bytes) -> Events:
        fields = _Fields(raw, self._is_ros2)
        if not self._is_ros2:
            fields.number("I")  # the sequence number
        fields.number("I"), fields.number("I"), fields.text()
        height, width = fields.number("I"), fields.number("I")
        sensor = (width, height) if 0 < width < 2**16 and 0 < height < 2**16 else None
        return self._packet(fields, sensor) if self._is_packet else self._array(fields, sensor)

    def _array(self, fields: "_Fields", sensor: Size | None) -> Events:
        count = fields.number("I")
        events = fields.ros2_events(count) if self._is_ros2 else fields.records(_ROS1_EVENT, count)
        t = events["secs"].astype(np.int64) * 1_000_000 + events["nsecs"] // 1000
        return Events(events["x"], events["y"], t, events["p"], sensor)

    def _packet(self, fields: "_Fields", sensor: Size | None) -> Events:
        fields.number("Q"), fields.number("Q")
        encoding = fields.text()
        fields.number("B")
        size = fields.number("I")
        if encoding not in _DECODERS:
            raise ValueError(f"{self._where}: events in the encoding {encoding!r}, expected {', '.join(_DECODERS)}")
        if self._decoder is None:
            self._decoder = _DECODERS[encoding](self._where)
            self._decoder.without_header(sensor)
        return self._decoder.feed(fields.bytes(size))


class _Fields:
    """Reads the fields of a serialized message one after another."""

    def __init__(self, raw: bytes, is_ros2: bool):
        self._raw = raw[4:] if is_ros2 else raw  # ROS 2 starts with the encoding
        self._order = ">" if is_ros2 and raw[1:2] == b"\x00" else "<"
        self._is_ros2 = is_ros2
        self._at = 0

    def number(self, kind: str) -> int:
        field = struct.Struct(self._order + kind)
        if self._is_ros2:
            self._at += -self._at % field.size
        (value,) = field.unpack_from(self._raw, self._at)
        self._at += field.size
        return value

    def bytes(self, size: int) -> bytes:
        if self._at + size > len(self._raw):
            raise IndexError
        self._at += size
        return self._raw[self._at - size : self._at]

    def text(self) -> str:
        return self.bytes(self.number("I")).rstrip(b"\x00").decode()

    def records(self, kind: np.dtype, count: int) -> np.ndarray:
        return np.frombuffer(self.bytes(count * kind.itemsize), kind)

    def ros2_events(self, count: int) -> dict[str, np.ndarray]:
        """The columns of an array of events in ROS 2."""
        if not count:
            return {name: np.empty(0, _ROS1_EVENT[name]) for name in _ROS1_EVENT.names or ()}
        if self._order == ">":
            raise IndexError
        data = self.bytes(16 * count - 3) + bytes(3)
        events = np.frombuffer(data, _ROS2_EVENT)
        x, y = np.frombuffer(data, "<u2")[7::8][: count - 1], events["y"].copy()
        y[0] = int.from_bytes(data[2:4], "little")
        x = np.concatenate([np.frombuffer(data[:2], "<u2"), x])
        return {"x": x, "y": y, "secs": events["secs"], "nsecs": events["nsecs"], "p": events["p"]}
