"""Files from the web: each arrives whole and right, or not at all.

What has come so far stands in NAME.part and is gone on with after a broken connection, a full disk or an interruption,
unless the file changed on the server meanwhile: NAME.part.json keeps its ETag or date. A file gets its name once its
checksum is right. Where none is published, NAME.sha256 keeps that of the first fetch, so that a change is seen.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from s7.data.unpacking import forget, is_unpacked, stays_inside, unpack
from s7.data.web import Broken, Useless, breakdown, content_range, failure, offered, opener, validator_of
from s7.storage import write_atomically
from s7.version import __version__

BLOCK = 1 << 18
# A try that brought so many bytes was worth it: the count of tries starts again.
WORTHWHILE = 1 << 20


@dataclass(frozen=True)
class Download:
    """A file to fetch.

    `path` is its place in the data folder, `digest` its checksum as "md5:…" or "sha256:…" if one is published, `page`
    where a person finds it. `mirrors` are asked when `url` has failed. Of an archive, members whose names match one of
    `unpack` are put beside it: ("*",) is all of them, () leaves it packed.
    """

    url: str
    path: str
    bytes: int | None = None
    digest: str | None = None
    page: str = ""
    mirrors: tuple[str, ...] = ()
    unpack: tuple[str, ...] = ()

    def __post_init__(self):
        if not stays_inside(self.path):
            raise ValueError(f"path={self.path!r} must lead into the data folder, such as imdb/reviews.tar.gz")
        if self.digest is not None and not re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", self.digest):
            raise ValueError(f"digest={self.digest!r} must be md5: or sha256: and its digits in lower case")
        for url in (self.url, *self.mirrors):
            if urlsplit(url).scheme not in ("http", "https"):
                raise ValueError(f"url={url!r} must begin with https:// or http://")


class Progress(NamedTuple):
    """How far a file has come; `speed` is bytes per second."""

    done: int
    total: int | None
    speed: float

    @property
    def seconds_left(self) -> float | None:
        """None where it cannot be known."""
        return None if self.total is None or self.speed <= 0 else (self.total - self.done) / self.speed


class Held(NamedTuple):
    """A file that is here and is right, as far as one can know.

    `against` says what its checksum was compared with: the published one, that of the first fetch, or nothing.
    """

    path: Path
    bytes: int
    digest: str
    against: Literal["published", "first fetch"] | None


@dataclass(frozen=True)
class Patience:
    """Seconds: of silence after which a server is given up, and before each further try."""

    silence: float = 60.0
    waits: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)


PATIENT = Patience()


class FetchError(OSError):
    """A file could not be had; the message says why, and what would help."""


def _ignore(_: Any) -> None:
    pass


def fetch(
    download: Download,
    folder: Path,
    watch: Callable[[Progress], None] = _ignore,
    say: Callable[[str], None] = _ignore,
    patience: Patience = PATIENT,
) -> Held:
    """Brings a file into the data folder, unless it is there already; `say` hears of what does not go smoothly.

    A file that is there and is wrong is an error, never overwritten: somebody may have put it there.
    """
    path = folder / download.path
    if path.exists() and is_unpacked(path, download.unpack):
        return _remember(check(download, path))
    with _alone(path.parent):
        transfer = _Transfer(download, path, watch, say, patience)
        held = _remember(check(download, path) if path.exists() else transfer.bring())
        unpack(path, download.unpack, say)
    return held


def check(download: Download, path: Path) -> Held:
    """The file at `path`, compared with all that is known of it; a ValueError says what is wrong."""
    try:
        return _examine(download, path, path)
    except ValueError as wrong:
        raise ValueError(f"{path}: {wrong}; remove it and fetch it again") from None


def amount(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _examine(download: Download, file: Path, path: Path) -> Held:
    """The file that stands, or is to stand, at `path`."""
    size = file.stat().st_size
    if download.bytes not in (None, size):
        raise ValueError(f"it has {size:,} bytes, expected {download.bytes:,}")
    expected = download.digest
    against: Literal["published", "first fetch"] | None = "published"
    if expected is None:
        expected = _first_seen(path)
        against = None if expected is None else "first fetch"
    kind = "sha256" if expected is None else expected.partition(":")[0]
    with file.open("rb") as stream:
        digest = f"{kind}:{hashlib.file_digest(stream, kind).hexdigest()}"
    if expected not in (None, digest):
        whose = "published"
        if against == "first fetch":
            whose = f"that of the first fetch; to trust this one remove {_beside(path)}"
        raise ValueError(f"its checksum is {digest}, expected {expected} ({whose})")
    return Held(path, size, digest, against)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _first_seen(path: Path) -> str | None:
    """The checksum of the first fetch, from a file as `sha256sum` reads and writes it."""
    file = _beside(path)
    if not file.exists():
        return None
    digits = file.read_text(errors="replace").partition(" ")[0].strip()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(f"{file} does not hold a SHA-256; remove that file")
    return f"sha256:{digits}"


def _remember(held: Held) -> Held:
    if held.against is None:
        digits = held.digest.partition(":")[2]
        write_atomically(_beside(held.path), f"{digits}  {held.path.name}\n".encode())
    return held


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process: two that write one part would spoil it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FetchError(f"{folder}: another process is fetching into it; wait for that one") from None
        yield
    finally:
        os.close(handle)


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"{folder}: {amount(needed)} are needed and {amount(free)} are free; make room or choose another folder"
        )


@dataclass(frozen=True)
class _Transfer:
    """A file on its way to `path`."""

    download: Download
    path: Path
    watch: Callable[[Progress], None]
    say: Callable[[str], None]
    patience: Patience

    @property
    def part(self) -> Path:
        """What has come of it."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def about(self) -> Path:
        """What the server said of the file that the part is of."""
        return self.path.with_name(f"{self.path.name}.part.json")

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self.part.stat().st_size if self.part.exists() else 0

    def discard(self) -> None:
        """Nothing has come."""
        self.part.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)

    def bring(self) -> Held:
        """The file in its place, from the first address that has it."""
        if self.download.bytes is not None:
            _require_room(self.path.parent, self.download.bytes - self.size)
        reasons = []
        for url in (self.download.url, *self.download.mirrors):
            try:
                self._receive(url)
                held = self._examined()
            except Useless as reason:
                reasons.append(f"{url}: {reason}")
                continue
            os.replace(self.part, self.path)
            self.discard()
            forget(self.path)
            return held
        source = f" from {self.download.page}" if self.download.page else ""
        raise FetchError(f"{'; '.join(reasons)}. By hand: get {self.path.name}{source} and put it at {self.path}")

    def _examined(self) -> Held:
        try:
            return _examine(self.download, self.part, self.path)
        except ValueError as wrong:
            self.discard()
            raise Useless(f"{wrong}; what came was removed, try again") from None

    def _receive(self, url: str) -> None:
        """All of it, in as many tries as it takes and is bearable."""
        tries, reached = 0, self.size
        while True:
            try:
                return self._try(url)
            except Broken as broken:
                tries = 1 if self.size >= reached + WORTHWHILE else tries + 1
                reached = max(reached, self.size)
                if tries > len(self.patience.waits):
                    kept = f"; {amount(self.size)} are kept, the same command goes on from there" if self.size else ""
                    raise Useless(f"{broken} ({tries} tries){kept}") from None
                wait = self.patience.waits[tries - 1]
                self.say(f"{url}: {broken}; trying again in {wait:g} s")
                time.sleep(wait)

    def _try(self, url: str) -> None:
        """One request: for all of it, or for what is missing."""
        start, origin = self.size, self._origin(url)
        if start and origin.get("bytes") == start:
            return  # it was stopped between the last byte and the name
        known = origin.get("validator")
        headers = {"User-Agent": f"s7/{__version__}"}
        # With neither, nobody could tell whether two halves are of one file.
        if start and (known or self.download.digest):
            headers["Range"] = f"bytes={start}-"
            if known:
                headers["If-Range"] = known
        else:
            start = 0
        try:
            response = opener().open(request.Request(url, headers=headers), timeout=self.patience.silence)
        except HTTPError as answer:
            with answer:
                if answer.code != 416 or not start:
                    raise failure(answer) from None
                if content_range(answer.headers)[1] == start:
                    return  # there is no more of it
            self.discard()
            raise Broken("the file on the server is shorter than what came; starting anew") from None
        except (OSError, HTTPException) as error:
            raise breakdown(error, self.patience.silence) from None
        with response:
            self._take(response, url, start, origin)

    def _origin(self, url: str) -> dict[str, Any]:
        """What the server said when the part began to come from there; nothing, if that cannot be known."""
        try:
            origin = json.loads(self.about.read_bytes())
        except (OSError, ValueError):
            return {}
        return origin if isinstance(origin, dict) and origin.get("url") == url else {}

    def _take(self, response: HTTPResponse, url: str, start: int, origin: dict[str, Any]) -> None:
        """The answer, added to the part or in its stead."""
        first, total = offered(response)
        if self.download.bytes is not None and total not in (None, self.download.bytes):
            raise Useless(f"the file there has {total:,} bytes, expected {self.download.bytes:,}")
        said = {"validator": validator_of(response.headers), "bytes": total}
        # There are servers that pass over If-Range.
        changed = any(origin.get(name) not in (None, value) for name, value in said.items() if value is not None)
        if first and (first != start or changed):
            self.discard()
            raise Broken("the file on the server changed; starting anew")
        if not first:
            self.discard()  # before room is looked for: it takes some
        _require_room(self.path.parent, (total or 0) - first)
        if origin != {"url": url} | said:
            write_atomically(self.about, json.dumps({"url": url} | said).encode())
        try:
            self._copy(response, first, total)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise FetchError(
                f"{self.path.parent}: the disk is full; make room, and the same command goes on: "
                f"{amount(self.size)} of {self.path.name} are kept"
            ) from None

    def _copy(self, response: HTTPResponse, first: int, total: int | None) -> None:
        begun, done = time.monotonic(), first
        with self.part.open("ab") as file:
            while total is None or done < total:
                try:
                    # What is there, without waiting for a whole block: a break must not lose what came before it.
                    block = response.read1(BLOCK)
                except (OSError, HTTPException) as error:
                    raise breakdown(error, self.patience.silence) from None
                if not block:
                    break
                file.write(block)
                done += len(block)
                self.watch(Progress(done, total, (done - first) / max(time.monotonic() - begun, 1e-9)))
            if total is not None and done != total:
                raise Broken(f"the connection ended after {done:,} of {total:,} bytes")
            file.flush()
            os.fsync(file.fileno())
