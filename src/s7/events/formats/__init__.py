"""Event file formats, one module each. A format is a class that registers itself, here or in a user's module.

    class MyFormat(s7.EventFormat, name="mine"):
        extensions = (".mine",)

        def sniff(self, start):
            return start.startswith(b"MINE")

        def blocks(self, path):
            yield s7.Events(x, y, t, p, sensor=(640, 480))

A format that is a stream of bytes inherits from `ByteFormat` instead and defines a `ByteDecoder`. It is then decoded
while the bytes arrive, for example from standard input.
"""

from s7.events.formats.base import BLOCK, ByteDecoder, ByteFormat, Decoder, EventFormat
from s7.events.formats.detection import decoder_for, find_format, format_named, format_of

__all__ = [
    "BLOCK",
    "ByteDecoder",
    "ByteFormat",
    "Decoder",
    "EventFormat",
    "decoder_for",
    "find_format",
    "format_named",
    "format_of",
]
