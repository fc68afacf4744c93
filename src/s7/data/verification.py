"""Files with a known size or checksum.

Where no checksum is published, NAME.sha256 stores that of the first download, so that later changes are noticed.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from s7.data.unpacking import stays_inside
from s7.storage import write_atomically


@dataclass(frozen=True)
class Download:
    """A file to download.

    Args:
        url: Its address.
        path: Its path in the data folder.
        bytes: Its size, if known.
        digest: Its checksum as "md5:…" or "sha256:…", if one is published.
        page: The web page that links to it.
        mirrors: Addresses to try when `url` fails.
        unpack: Patterns of the members of an archive to extract next to it: ("*",) for all, () for none.
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
            raise ValueError(f"path={self.path!r} must be a path inside the data folder, such as imdb/reviews.tar.gz")
        if self.digest is not None and not re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", self.digest):
            raise ValueError(f"digest={self.digest!r} must be md5: or sha256: and its digits in lower case")
        for url in (self.url, *self.mirrors):
            if urlsplit(url).scheme not in ("http", "https"):
                raise ValueError(f"url={url!r} must begin with https:// or http://")


class VerifiedFile(NamedTuple):
    """A file whose checksum was verified.

    `against` is what the checksum was compared with: the published one, that of the first download, or None.
    """

    path: Path
    bytes: int
    digest: str
    against: Literal["published", "first fetch"] | None


def check(download: Download, path: Path) -> VerifiedFile:
    """Verifies the size and the checksum of the file at `path`."""
    try:
        return examine(download, path, path)
    except ValueError as wrong:
        raise ValueError(f"{path}: {wrong}; remove it and fetch it again") from None


def examine(download: Download, file: Path, path: Path) -> VerifiedFile:
    """Verifies `file`, which is or will be at `path`."""
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
            whose = f"that of the first fetch; to trust this one remove {_checksum_file(path)}"
        raise ValueError(f"its checksum is {digest}, expected {expected} ({whose})")
    return VerifiedFile(path, size, digest, against)


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _first_seen(path: Path) -> str | None:
    """The checksum of the first download, from a file in the format of `sha256sum`."""
    file = _checksum_file(path)
    if not file.exists():
        return None
    digits = file.read_text(errors="replace").partition(" ")[0].strip()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(f"{file} does not hold a SHA-256; remove that file")
    return f"sha256:{digits}"


def remember(verified: VerifiedFile) -> VerifiedFile:
    """Stores the checksum of a file for which none is published."""
    if verified.against is None:
        digits = verified.digest.partition(":")[2]
        write_atomically(_checksum_file(verified.path), f"{digits}  {verified.path.name}\n".encode())
    return verified
