"""Downloads into the data folder. A file gets its name once its checksum has been verified."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from s7.data.transfer import DEFAULT_RETRIES, FetchError, Progress, RetryPolicy, Transfer, amount
from s7.data.unpacking import is_unpacked, unpack
from s7.data.verification import Download, VerifiedFile, check, remember

__all__ = ["Download", "FetchError", "Progress", "RetryPolicy", "VerifiedFile", "amount", "check", "fetch"]


def _ignore(_: Any) -> None:
    pass


def fetch(
    download: Download,
    folder: Path,
    watch: Callable[[Progress], None] = _ignore,
    say: Callable[[str], None] = _ignore,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> VerifiedFile:
    """Downloads a file into the data folder, unless it is there already.

    A file that is there and has another checksum is an error. It is never overwritten.

    Args:
        download: The file.
        folder: The data folder.
        watch: Called with the progress.
        say: Called with messages about retries.
        retries: When to give up.
    """
    path = folder / download.path
    if path.exists() and is_unpacked(path, download.unpack):
        return remember(check(download, path))
    with _alone(path.parent):
        transfer = Transfer(download, path, watch, say, retries)
        verified = remember(check(download, path) if path.exists() else transfer.bring())
        unpack(path, download.unpack, say)
    return verified


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder, which is created if needed: two processes must not write one file."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FetchError(f"{folder}: another process is downloading into it; wait until it has finished") from None
        yield
    finally:
        os.close(handle)
