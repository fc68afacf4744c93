"""Extraction of archives next to themselves, never outside of their folder.

NAME.unpacked lists what was extracted, so that it is done once.
"""

import errno
import gzip
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from s7.storage import write_atomically

# Errors that the libraries raise for a damaged archive, or for another file.
_UNREADABLE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, KeyError, RuntimeError),
)


def is_unpacked(path: Path, patterns: tuple[str, ...]) -> bool:
    """Whether the archive is already unpacked."""
    return set(patterns) <= set(_done(path))


def unpack(path: Path, patterns: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Extracts the members of a zip or tar archive whose names match next to it: all of them, or none on failure."""
    if is_unpacked(path, patterns):
        return
    say(f"unpacking {path} …")
    aside = path.with_name(f".{path.name}.unpacking")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir()
        take = _from_zip if zipfile.is_zipfile(path) else _from_tar
        if not take(path, patterns, aside):
            raise ValueError(f"{path}: nothing in it is called {' or '.join(patterns)}")
        _move(aside, path.parent)
    except _UNREADABLE as error:
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise ValueError(f"{path}: damaged, or not an archive ({reason}); remove it and fetch it again") from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(f"{path}: the disk is full, nothing was unpacked; make room and try again") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    done = dict.fromkeys([*_done(path), *patterns])
    write_atomically(_marker(path), "".join(f"{pattern}\n" for pattern in done).encode())


def forget(path: Path) -> None:
    """Marks the archive as not extracted, because it was replaced."""
    _marker(path).unlink(missing_ok=True)


def stays_inside(name: str) -> bool:
    """Whether a relative path stays inside its folder, on any operating system."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and ":" not in parts[0]


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.unpacked")


def _done(path: Path) -> list[str]:
    return _marker(path).read_text().splitlines() if _marker(path).exists() else []


def _from_tar(path: Path, patterns: tuple[str, ...], folder: Path) -> int:
    taken = 0
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isdir() or not _matches(member.name, patterns):
                continue
            try:
                archive.extract(member, folder, filter="data")
            except tarfile.FilterError:
                raise _escape(path, member.name) from None
            taken += 1
    return taken


def _from_zip(path: Path, patterns: tuple[str, ...], folder: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        members = [q for q in archive.infolist() if not q.is_dir() and _matches(q.filename, patterns)]
        for member in members:
            if not stays_inside(member.filename):
                raise _escape(path, member.filename)
        for member in members:
            archive.extract(member, folder)
    return len(members)


def _escape(path: Path, name: str) -> ValueError:
    return ValueError(f"{path}: {name!r} in it leads out of its folder; nothing was unpacked")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _move(source: Path, target: Path) -> None:
    """Moves everything in one folder into another, merging folders that exist in both."""
    for entry in list(source.iterdir()):
        there = target / entry.name
        if entry.is_dir() and not entry.is_symlink() and there.is_dir():
            _move(entry, there)
        else:
            os.replace(entry, there)
