"""Files from the web: each arrives whole and right, or not at all.

What has come so far stands in NAME.part and is gone on with after a broken connection, a full disk or an interruption,
unless the file changed on the server meanwhile: NAME.part.json keeps its ETag and date. A file gets its name once its
checksum is right. Where none is published, NAME.sha256 keeps that of the first fetch, so that a change is seen.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import ssl
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from s7.files import write_atomically
from s7.version import __version__

BLOCK = 1 << 18
# A try that brought so many bytes was worth it: the count of tries starts again.
WORTHWHILE = 1 << 20
DIGITS = {"md5": 32, "sha256": 64}
# Answers of a server that may well do better in a moment, besides its own errors (5xx).
PASSING = (408, 425, 429)
FULL = (errno.ENOSPC, errno.EDQUOT)


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
        if not _stays_inside(self.path):
            raise ValueError(f"path={self.path!r} must lead into the data folder, such as imdb/reviews.tar.gz")
        kind, _, digits = (self.digest or "").partition(":")
        if self.digest is not None and not re.fullmatch(f"[0-9a-f]{{{DIGITS.get(kind, 0)}}}", digits or "-"):
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


class FetchError(OSError):
    """A file could not be had; the message says why, and what would help."""


class _Broken(Exception):
    """This try failed; another may not."""


class _Useless(Exception):
    """This address has nothing for us."""


def _ignore(_: Any) -> None:
    pass


def fetch(
    download: Download,
    folder: Path,
    watch: Callable[[Progress], None] = _ignore,
    say: Callable[[str], None] = _ignore,
    patience: Patience = Patience(),
) -> Held:
    """Brings a file into the data folder, unless it is there already; `say` hears of what does not go smoothly.

    A file that is there and is wrong is an error, never overwritten: somebody may have put it there.
    """
    path = folder / download.path
    if path.exists():
        held = check(download, path)
    else:
        with _alone(path.parent):
            held = check(download, path) if path.exists() else _bring(download, path, watch, say, patience)
    if held.against is None:
        digits = held.digest.partition(":")[2]
        write_atomically(_remembered(path), f"{digits}  {path.name}\n".encode())
    if download.unpack:
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
    expected, remembered = download.digest, _remembered(path)
    against: Literal["published", "first fetch"] | None = "published"
    if expected is None:
        expected = _read_remembered(remembered)
        against = None if expected is None else "first fetch"
    kind = "sha256" if expected is None else expected.partition(":")[0]
    with file.open("rb") as stream:
        digest = f"{kind}:{hashlib.file_digest(stream, kind).hexdigest()}"
    if expected not in (None, digest):
        how = "as published" if against == "published" else f"as first fetched, or remove {remembered} to trust this one"
        raise ValueError(f"its checksum is {digest}, expected {expected} {how}")
    return Held(path, size, digest, against)


def _remembered(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _read_remembered(path: Path) -> str | None:
    """In the form that `sha256sum` reads and writes."""
    if not path.exists():
        return None
    digits = path.read_text(errors="replace").partition(" ")[0].strip()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(f"{path} beside it does not hold a SHA-256; remove that file")
    return f"sha256:{digits}"


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


def _bring(
    download: Download,
    path: Path,
    watch: Callable[[Progress], None],
    say: Callable[[str], None],
    patience: Patience,
) -> Held:
    """From the first address that has it."""
    part = _Part(path)
    if download.bytes is not None:
        _require_room(path.parent, download.bytes - part.size)
    reasons = []
    for url in (download.url, *download.mirrors):
        try:
            _receive(url, download, part, watch, say, patience)
            try:
                held = _examine(download, part.path, path)
            except ValueError as wrong:
                part.discard()
                raise _Useless(f"{wrong}; what came was removed") from None
        except _Useless as reason:
            reasons.append(f"{url}: {reason}")
            continue
        os.replace(part.path, path)
        part.discard()
        _done_marker(path).unlink(missing_ok=True)
        return held
    source = f" from {download.page}" if download.page else ""
    raise FetchError(f"{'; '.join(reasons)}. By hand: get {path.name}{source} and put it at {path}")


class _Part:
    """What has come of a file, and what the server said of the file then."""

    def __init__(self, path: Path):
        self.path = path.with_name(f"{path.name}.part")
        self.about = path.with_name(f"{path.name}.part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def origin(self) -> dict[str, Any]:
        """Nothing, if it cannot be read."""
        try:
            origin = json.loads(self.about.read_bytes())
        except (OSError, ValueError):
            return {}
        return origin if isinstance(origin, dict) else {}

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)


def _receive(
    url: str,
    download: Download,
    part: _Part,
    watch: Callable[[Progress], None],
    say: Callable[[str], None],
    patience: Patience,
) -> None:
    """The whole file into the part, in as many tries as it takes and is bearable."""
    tries, reached = 0, part.size
    while True:
        try:
            return _try(url, download, part, watch, patience.silence)
        except _Broken as broken:
            tries = 1 if part.size >= reached + WORTHWHILE else tries + 1
            reached = max(reached, part.size)
            if tries > len(patience.waits):
                kept = f"; {amount(part.size)} are kept, and the same command goes on from there" if part.size else ""
                raise _Useless(f"{broken} ({tries} tries){kept}") from None
            wait = patience.waits[tries - 1]
            say(f"{url}: {broken}; trying again in {wait:g} s")
            time.sleep(wait)


def _try(url: str, download: Download, part: _Part, watch: Callable[[Progress], None], silence: float) -> None:
    """One request: for all of the file, or for what is missing of it."""
    start, origin = part.size, part.origin()
    known = origin.get("validator") if origin.get("url") == url else None
    headers = {"User-Agent": f"s7/{__version__}"}
    # With neither, nobody could tell whether two halves are of one file.
    if start and (known or download.digest):
        headers["Range"] = f"bytes={start}-"
        if known:
            headers["If-Range"] = known
    else:
        start = 0
    try:
        response = _opener().open(request.Request(url, headers=headers), timeout=silence)
    except HTTPError as answer:
        with answer:
            if answer.code == 416 and start:
                if _range(answer.headers)[1] == start:
                    return  # all of it had come
                part.discard()
                raise _Broken("the file on the server is shorter than what came; starting anew") from None
            raise _failure(answer) from None
    except (OSError, HTTPException) as error:
        raise _broken(error, silence) from None
    with response:
        first, total = _offered(response, download)
        if first and (first != start or _changed(response, total, origin, url)):
            part.discard()
            raise _Broken("the file on the server changed; starting anew")
        if not first:
            part.discard()  # before room is looked for: it takes some
        _require_room(part.path.parent, (total or 0) - first)
        about = {"url": url, "validator": _validator(response.headers), "bytes": total}
        write_atomically(part.about, json.dumps(about).encode())
        try:
            _copy(response, part.path, first, total, watch, silence)
        except OSError as error:
            if error.errno not in FULL:
                raise
            kept = f"{amount(part.size)} of {part.path.name} are kept"
            raise FetchError(
                f"{part.path.parent}: the disk is full; {kept}: make room, and the same command goes on from there"
            ) from None


def _offered(response: HTTPResponse, download: Download) -> tuple[int, int | None]:
    """Where the answer begins within the file, and how long the file is, if the server says so."""
    if response.status not in (200, 206):
        raise _Useless(f"the server answered {response.status} {response.reason} instead of the file")
    # Pages that ask who is there come with a 200 like any file, and would be taken for it where no checksum is known.
    if response.headers.get_content_type() == "text/html" and "Content-Type" in response.headers:
        raise _Useless("the server answered with a web page instead of the file")
    if response.status == 206:
        first, total = _range(response.headers)
        if first is None:
            raise _Useless("the server answered with a part of the file and does not say which")
    else:
        length = response.headers.get("Content-Length", "")
        first, total = 0, int(length) if length.isdecimal() else None
    if download.bytes is not None and total not in (None, download.bytes):
        raise _Useless(f"the file there has {total:,} bytes, expected {download.bytes:,}")
    return first, total


def _copy(
    response: HTTPResponse,
    path: Path,
    done: int,
    total: int | None,
    watch: Callable[[Progress], None],
    silence: float,
) -> None:
    begun, first = time.monotonic(), done
    with path.open("ab") as file:
        while True:
            try:
                # What is there, without waiting for a whole block: a break must not lose what came before it.
                block = response.read1(BLOCK)
            except (OSError, HTTPException) as error:
                raise _broken(error, silence) from None
            if not block:
                break
            file.write(block)
            done += len(block)
            watch(Progress(done, total, (done - first) / max(time.monotonic() - begun, 1e-9)))
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done != total:
        raise _Broken(f"the connection ended after {done:,} of {total:,} bytes")


def _range(headers: HTTPMessage) -> tuple[int | None, int | None]:
    """The first byte and the size of the file, of `Content-Range: bytes 5-9/10` or `bytes */10`."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", headers.get("Content-Range", "").strip())
    first, total = found.groups() if found else (None, None)
    return None if first is None else int(first), None if total is None else int(total)


def _validator(headers: HTTPMessage) -> str | None:
    """What `If-Range` may hold: a weak ETag promises too little."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def _changed(response: HTTPResponse, total: int | None, origin: dict[str, Any], url: str) -> bool:
    """Whether the rest is of another file than what came: there are servers that pass over If-Range."""
    if origin.get("url") != url:
        return False
    pairs = ((_validator(response.headers), origin.get("validator")), (total, origin.get("bytes")))
    return any(now != before for now, before in pairs if now is not None and before is not None)


class _Redirects(request.HTTPRedirectHandler):
    """To the web only, and not for ever."""

    max_redirections = 8
    max_repeats = 2

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise HTTPError(newurl, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Opens http and https and nothing else, through the proxies of the environment if it names any."""
    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler(), _Redirects()),
        *(request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor(), request.UnknownHandler()),
    ):
        opener.add_handler(handler)
    return opener


def _failure(answer: HTTPError) -> _Broken | _Useless:
    """What an answer that is no success means."""
    if 300 <= answer.code < 400:
        to = answer.headers.get("Location", "")
        if urlsplit(to).scheme not in ("", "http", "https"):
            return _Useless(f"the server redirects to {to}, which is not on the web")
        return _Useless("the server redirects in a circle, or too often")
    said = f"the server answered {answer.code} {answer.reason}".strip()
    return _Broken(said) if answer.code >= 500 or answer.code in PASSING else _Useless(said)


def _broken(error: Exception, silence: float) -> _Broken | _Useless:
    """What a connection that failed means."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _Useless(f"its certificate cannot be trusted ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return _Broken(f"the server was silent for {silence:g} s")
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return _Broken(f"the connection failed ({said})")


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"{folder}: {amount(needed)} are needed and {amount(free)} are free; make room or choose another folder"
        )


def unpack(path: Path, patterns: tuple[str, ...] = ("*",), say: Callable[[str], None] = _ignore) -> None:
    """Puts the members of a zip or tar archive that match beside it, all or none; once for each pattern."""
    marker = _done_marker(path)
    done = marker.read_text().splitlines() if marker.exists() else []
    wanted = [pattern for pattern in patterns if pattern not in done]
    if not wanted:
        return
    say(f"unpacking {path} …")
    aside = path.with_name(f".{path.name}.unpacking")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir()
        take = _unzip if zipfile.is_zipfile(path) else _untar
        if not take(path, wanted, aside):
            raise ValueError(f"{path}: nothing in it is called {' or '.join(wanted)}")
        _move(aside, path.parent)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise FetchError(f"{path}: the disk is full, nothing was unpacked; make room and try again") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    write_atomically(marker, "".join(f"{pattern}\n" for pattern in [*done, *wanted]).encode())


def _done_marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.unpacked")


def _untar(path: Path, patterns: list[str], folder: Path) -> int:
    taken = 0
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isdir() and _matches(member.name, patterns):
                    archive.extract(member, folder, filter="data")
                    taken += 1
    except tarfile.FilterError as error:
        raise ValueError(f"{path}: {error.tarinfo.name!r} in it leads out of the folder; nothing was unpacked") from None
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise ValueError(f"{path}: not a whole archive ({error}); remove it and fetch it again") from None
    return taken


def _unzip(path: Path, patterns: list[str], folder: Path) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [q for q in archive.infolist() if not q.is_dir() and _matches(q.filename, patterns)]
            for member in members:
                if not _stays_inside(member.filename):
                    raise ValueError(
                        f"{path}: {member.filename!r} in it leads out of the folder; nothing was unpacked"
                    )
            _require_room(folder, sum(member.file_size for member in members))
            for member in members:
                archive.extract(member, folder)
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise ValueError(f"{path}: not a whole archive ({error}); remove it and fetch it again") from None
    return len(members)


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _stays_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and ":" not in parts[0]


def _move(source: Path, target: Path) -> None:
    """Everything in one folder into another: whole folders where they are new there, else what is in them."""
    for entry in list(source.iterdir()):
        there = target / entry.name
        if entry.is_dir() and not entry.is_symlink() and there.is_dir():
            _move(entry, there)
        else:
            os.replace(entry, there)
