"""The base classes of event file formats and of their decoders."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, ClassVar, NoReturn

from s7 import registry
from s7.events.container import Events, Size

# The number of bytes that are read and decoded at a time. Arrays of this size stay in the processor's cache.
BLOCK = 2**18
# A header that is longer than this is damaged.
LONGEST_HEADER = 2**20


class Unwritable(ValueError):
    """Events do not fit into a format. The message does not name the file."""


class EventFormat(registry.Registered, ABC, kind="event format", package="s7.events.formats"):
    """The base class of event file formats.

    Class attributes:
        extensions: File name endings in lower case, such as (".aedat",).
        written_as: File name endings for which files are written in this format; none if it cannot be written.
        extra: The optional dependency group that this format needs, or None.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    written_as: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str | None] = None

    def sniff(self, start: bytes) -> bool:
        """Whether a file that starts with these bytes certainly has this format, by a signature."""
        return False

    def resembles(self, start: bytes) -> bool:
        """Whether a file without a signature that starts with these bytes probably has this format."""
        return False

    @abstractmethod
    def blocks(self, path: Path) -> Iterator[Events]:
        """Read the events of a file in blocks of any size.

        Raises:
            ValueError: If the file is damaged, naming the file and the position.
        """

    def read(self, path: Path) -> Events:
        """Read all events of a file."""
        return Events.concatenate(list(self.blocks(path)))

    def recordings(self, path: Path) -> int:
        """The number of recordings in a file."""
        return 1

    def recording(self, path: Path, number: int) -> Iterator[Events]:
        """Read one recording of a file in blocks of any size."""
        if number:
            raise ValueError(f"{path}: holds one recording; there is no recording {number}")
        yield from self.blocks(path)

    def decoder(self, where: str) -> "Decoder":
        """A decoder of this format, for bytes that arrive in pieces. Its errors start with `where`."""
        return FileDecoder(self, where)

    def write(self, file: BinaryIO, blocks: Iterable[Events], sensor: Size | None) -> None:
        """Write blocks of events to a new file.

        Raises:
            Unwritable: If the format cannot be written or cannot hold the events.
        """
        raise Unwritable(f"the format {type(self).registry.name_of(type(self))} can be read only")


class ByteFormat(EventFormat):
    """The base class of formats that are decoded from a stream of bytes."""

    @abstractmethod
    def decoder(self, where: str) -> "ByteDecoder":
        """A decoder of this format. Its errors start with `where`."""

    def blocks(self, path, watch: Callable[[int], None] = lambda size: None):
        """Read the events of a file in blocks of any size. `watch` is called with the number of bytes of each."""
        decoder = self.decoder(str(path))
        with path.open("rb") as file:
            while data := file.read(BLOCK):
                yield decoder.feed(data)
                watch(len(data))
        yield decoder.finish()


class Decoder(ABC):
    """Decodes a stream of bytes that arrives in pieces of any size.

    Attributes:
        where: The start of error messages: the path of the file.
    """

    def __init__(self, where: str):
        self.where = where

    @abstractmethod
    def feed(self, data: bytes) -> Events:
        """Decode the next piece of the stream.

        Returns:
            The events that are complete; there may be none.

        Raises:
            ValueError: If the data are damaged, naming the position.
        """

    @abstractmethod
    def finish(self) -> Events:
        """End the stream and return the events that were not returned yet.

        Raises:
            ValueError: If the stream ends inside of the header or of an event.
        """


class ByteDecoder(Decoder):
    """The base class of decoders that return events as soon as their bytes have arrived.

    Subclasses define `_decode`, and `_header` if the format has one. Bytes that are not complete yet are kept.

    Attributes:
        sensor: Width and height of the sensor, or None as long as they are not known.
        at: The position in the stream up to which it has been decoded.
    """

    def __init__(self, where: str):
        super().__init__(where)
        self.sensor: Size | None = None
        self.at = 0
        self._rest = b""
        self._started = False

    def feed(self, data):
        return self._advance(self._rest + data if self._rest else data, last=False)

    def finish(self):
        return self._advance(self._rest, last=True)

    def without_header(self, sensor: Size | None) -> None:
        """Expect events at once, as in messages whose header is elsewhere. Call this before `feed`."""
        self._started, self.sensor = True, sensor

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise an error that names the source and a position in the stream."""
        raise ValueError(f"{self.where}: byte {at}: {message}")

    def _advance(self, data: bytes, last: bool) -> Events:
        if not self._started:
            size = self._header(data, last)
            if size is None:
                if last:
                    self.fail(len(data), "cut off in the header; get it again")
                if len(data) > LONGEST_HEADER:
                    self.fail(LONGEST_HEADER, "the header does not end here or before")
                self._rest = data
                return Events.empty(self.sensor)
            self._started, self.at, data = True, size, data[size:]
        used, events = self._decode(data, last)
        self.at += used
        self._rest = data[used:]
        if last and self._rest:
            self._cut_off()
        return events

    def _header(self, data: bytes, last: bool) -> int | None:
        """Read the header at the start of `data`: its size, or None if it is not complete. `last` as in `_decode`."""
        return 0

    @abstractmethod
    def _decode(self, data: bytes, last: bool) -> tuple[int, Events]:
        """Decode bytes from position `at` on.

        Args:
            data: All bytes that have arrived and were not decoded.
            last: Whether the stream ends with them.

        Returns:
            The number of bytes that are decoded, and the events in them.
        """

    def _cut_off(self) -> NoReturn:
        """Raise the error for a stream that ends with the bytes in `_rest`."""
        self.fail(self.at + len(self._rest), "cut off inside of an event; get it again")


class FileDecoder(Decoder):
    """Collects a stream in a temporary file, for formats that can only be read from files."""

    def __init__(self, form: EventFormat, where: str):
        super().__init__(where)
        self._format = form
        self._folder = TemporaryDirectory(prefix="s7-events-")
        self._path = Path(self._folder.name) / f"stream{form.extensions[0] if form.extensions else ''}"

    def feed(self, data):
        with self._path.open("ab") as file:
            file.write(data)
        return Events.empty()

    def finish(self):
        self._path.touch()
        try:
            with self._folder:
                return Events.concatenate(list(self._format.blocks(self._path)))
        except ValueError as error:
            raise ValueError(str(error).replace(str(self._path), self.where)) from None
