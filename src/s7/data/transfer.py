"""One file on its way from a web server.

The bytes received so far are in NAME.part. A broken connection, a full disk or an interruption loses none of them,
unless the file changed on the server: NAME.part.json stores its ETag or date.
"""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib import request
from urllib.error import HTTPError

from s7.data.unpacking import forget
from s7.data.verification import Download, VerifiedFile, examine
from s7.data.web import (
    PermanentError,
    TransientError,
    breakdown,
    content_range,
    failure,
    offered,
    opener,
    validator_of,
)
from s7.storage import write_atomically
from s7.version import __version__

BLOCK = 1 << 18
# An attempt that received this many bytes resets the count of attempts.
WORTHWHILE = 1 << 20


class Progress(NamedTuple):
    """Progress of a download, in bytes and bytes per second."""

    done: int
    total: int | None
    speed: float

    @property
    def seconds_left(self) -> float | None:
        """The remaining time, or None if it is not known."""
        return None if self.total is None or self.speed <= 0 else (self.total - self.done) / self.speed


@dataclass(frozen=True)
class RetryPolicy:
    """When to give up: seconds without data from a server, and seconds to wait before each further attempt."""

    silence: float = 60.0
    waits: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)


DEFAULT_RETRIES = RetryPolicy()


class FetchError(OSError):
    """A download failed. The message gives the reason and a remedy."""


def amount(count: float) -> str:
    """Formats a number of bytes."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


@dataclass(frozen=True)
class Transfer:
    """A download in progress."""

    download: Download
    path: Path
    watch: Callable[[Progress], None]
    say: Callable[[str], None]
    retries: RetryPolicy

    @property
    def part(self) -> Path:
        """The file with the bytes received so far."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def about(self) -> Path:
        """The file with the address, validator and size of the file that the part belongs to."""
        return self.path.with_name(f"{self.path.name}.part.json")

    @property
    def size(self) -> int:
        """The number of bytes received so far."""
        return self.part.stat().st_size if self.part.exists() else 0

    def discard(self) -> None:
        """Removes what was received."""
        self.part.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)

    def bring(self) -> VerifiedFile:
        """Downloads the file from the first address that has it, and moves it to its path."""
        if self.download.bytes is not None:
            _require_room(self.path.parent, self.download.bytes - self.size)
        reasons = []
        for url in (self.download.url, *self.download.mirrors):
            try:
                self._receive(url)
                verified = self._examined()
            except PermanentError as reason:
                reasons.append(f"{url}: {reason}")
                continue
            os.replace(self.part, self.path)
            self.discard()
            forget(self.path)
            return verified
        source = f" from {self.download.page}" if self.download.page else ""
        raise FetchError(f"{'; '.join(reasons)}. By hand: get {self.path.name}{source} and put it at {self.path}")

    def _examined(self) -> VerifiedFile:
        try:
            return examine(self.download, self.part, self.path)
        except ValueError as wrong:
            self.discard()
            raise PermanentError(f"{wrong}; the file was removed, try again") from None

    def _receive(self, url: str) -> None:
        """Downloads the file from one address, with retries."""
        tries, reached = 0, self.size
        while True:
            try:
                return self._try(url)
            except TransientError as error:
                tries = 1 if self.size >= reached + WORTHWHILE else tries + 1
                reached = max(reached, self.size)
                if tries > len(self.retries.waits):
                    kept = f"; {amount(self.size)} were kept; run it again to continue" if self.size else ""
                    raise PermanentError(f"{error} ({tries} attempts){kept}") from None
                wait = self.retries.waits[tries - 1]
                self.say(f"{url}: {error}; trying again in {wait:g} s")
                time.sleep(wait)

    def _try(self, url: str) -> None:
        """Makes one request, for the whole file or for what is missing."""
        start, origin = self.size, self._origin(url)
        if start and origin.get("bytes") == start:
            return  # interrupted between the last byte and the renaming
        known = origin.get("validator")
        headers = {"User-Agent": f"s7/{__version__}"}
        # With neither, nothing would tell whether the two parts belong to one file.
        if start and (known or self.download.digest):
            headers["Range"] = f"bytes={start}-"
            if known:
                headers["If-Range"] = known
        else:
            start = 0
        try:
            response = opener().open(request.Request(url, headers=headers), timeout=self.retries.silence)
        except HTTPError as answer:
            with answer:
                if answer.code != 416 or not start:
                    raise failure(answer) from None
                if content_range(answer.headers)[1] == start:
                    return  # the part is complete
            self.discard()
            raise TransientError("the file on the server is shorter than what was received; starting over") from None
        except (OSError, HTTPException) as error:
            raise breakdown(error, self.retries.silence) from None
        with response:
            self._take(response, url, start, origin)

    def _origin(self, url: str) -> dict[str, Any]:
        """What the server said of the file when the part was started; empty if unknown."""
        try:
            origin = json.loads(self.about.read_bytes())
        except (OSError, ValueError):
            return {}
        return origin if isinstance(origin, dict) and origin.get("url") == url else {}

    def _take(self, response: HTTPResponse, url: str, start: int, origin: dict[str, Any]) -> None:
        """Writes the response: appends to the part, or replaces it."""
        first, total = offered(response)
        if self.download.bytes is not None and total not in (None, self.download.bytes):
            raise PermanentError(f"the file there has {total:,} bytes, expected {self.download.bytes:,}")
        said = {"validator": validator_of(response.headers), "bytes": total}
        # Some servers ignore If-Range.
        changed = any(origin.get(name) not in (None, value) for name, value in said.items() if value is not None)
        if first and (first != start or changed):
            self.discard()
            raise TransientError("the file on the server changed; starting over")
        if not first:
            self.discard()  # first, to free its space
        _require_room(self.path.parent, (total or 0) - first)
        if origin != {"url": url} | said:
            write_atomically(self.about, json.dumps({"url": url} | said).encode())
        try:
            self._copy(response, first, total)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise FetchError(
                f"{self.path.parent}: the disk is full; free some space and run it again to continue: "
                f"{amount(self.size)} of {self.path.name} were kept"
            ) from None

    def _copy(self, response: HTTPResponse, first: int, total: int | None) -> None:
        begun, done = time.monotonic(), first
        with self.part.open("ab") as file:
            while total is None or done < total:
                try:
                    # Whatever has arrived, without waiting for a whole block: an interruption must not lose it.
                    block = response.read1(BLOCK)
                except (OSError, HTTPException) as error:
                    raise breakdown(error, self.retries.silence) from None
                if not block:
                    break
                file.write(block)
                done += len(block)
                self.watch(Progress(done, total, (done - first) / max(time.monotonic() - begun, 1e-9)))
            if total is not None and done != total:
                raise TransientError(f"the connection ended after {done:,} of {total:,} bytes")
            file.flush()
            os.fsync(file.fileno())


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"{folder}: {amount(needed)} are needed and {amount(free)} are free; free some or use another folder"
        )
