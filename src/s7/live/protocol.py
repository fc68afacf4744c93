"""The messages between a server and its clients.

A client sends events as binary records (`Inputs.record`) or as text in the line protocol, and commands as JSON objects:

    {"type": "play"}  {"type": "pause"}  {"type": "speed", "speed": 0.5}  {"type": "replay"}  {"type": "reset"}
    {"type": "speed", "speed": null}                          as fast as possible
    {"type": "repeat", "repeat": true}                        start again at the end of a recording
    {"type": "upload", "name": "a.raw", "size": 123}          the file follows in binary messages
    {"type": "subscribe", "frames": false, "answers": true}   an answer to each message, no frames

The server sends JSON objects of the types hello, answer and error, and frames for a viewer as binary messages: the size
of a JSON object (4 bytes, little endian), the object, and x, y, polarity of events as 16-bit integers.
"""

import json
import math
import struct
from typing import Any

import numpy as np
from jaxtyping import UInt16

# Close codes (RFC 6455 and IANA's registry).
NORMAL = 1000
GOING_AWAY = 1001
INVALID = 1007
POLICY = 1008
TRY_AGAIN = 1013
# Codes of applications start at 4000: the session continues in another connection.
TAKEN_OVER = 4000
# A close frame holds 125 bytes, of which the code takes 2.
_REASON = 123

SLOWEST, FASTEST = 0.01, 100.0


class Closing(Exception):
    """A connection must be closed, with this code and this reason."""

    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, short_reason(reason)


def short_reason(text: str) -> str:
    """A reason that fits into a close frame."""
    text = " ".join(text.split())
    encoded = text.encode()
    if len(encoded) <= _REASON:
        return text
    return encoded[: _REASON - 3].decode("utf-8", "ignore") + "…"


def read_command(text: str) -> dict[str, Any]:
    """A command, checked.

    Raises:
        Closing: The text is not a command.
    """
    try:
        command = json.loads(text)
    except (ValueError, RecursionError):
        raise Closing(INVALID, "the message starts with { but is not JSON") from None
    kind = command.get("type")
    checks = _FIELDS.get(kind) if isinstance(kind, str) else None
    if checks is None:
        raise Closing(INVALID, f"type {kind!r:.30} is not one of {', '.join(_FIELDS)}")
    for name, (is_valid, expected) in checks.items():
        if not is_valid(command.get(name)):
            raise Closing(INVALID, f"{kind}: {name} must be {expected}")
    return command


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_speed(value: Any) -> bool:
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and SLOWEST <= value <= FASTEST
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 255


# For each command, its fields: a check, and what is expected.
_FIELDS: dict[str, dict[str, tuple[Any, str]]] = {
    "play": {},
    "pause": {},
    "replay": {},
    "reset": {},
    "speed": {"speed": (_is_speed, f"a number from {SLOWEST:g} to {FASTEST:g}, or null")},
    "repeat": {"repeat": (_is_flag, "true or false")},
    "upload": {"name": (_is_name, "a file name"), "size": (_is_size, "a number of bytes")},
    "subscribe": {"frames": (_is_flag, "true or false"), "answers": (_is_flag, "true or false")},
}


def frame(about: dict[str, Any], events: UInt16[np.ndarray, "n 3"]) -> bytes:
    """A frame for a viewer."""
    head = dumps(about).encode()
    return struct.pack("<I", len(head)) + head + events.astype("<u2").tobytes()


def read_frame(message: bytes) -> tuple[dict[str, Any], UInt16[np.ndarray, "n 3"]]:
    """The two parts of a frame."""
    (size,) = struct.unpack_from("<I", message)
    events = np.frombuffer(message, "<u2", offset=4 + size).reshape(-1, 3)
    return json.loads(message[4 : 4 + size]), events


def dumps(value: Any) -> str:
    """JSON without spaces. Numbers that JSON does not have become null."""
    return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
