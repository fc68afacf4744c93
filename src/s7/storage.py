"""Atomic file writes, and safetensors files of named arrays with a checksum.

A file is written under a temporary name, flushed to disk and renamed, so it exists whole or not at all. Array files
carry a JSON configuration and a checksum in their header. Nothing is ever unpickled or evaluated. JAX is not imported.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

FORMAT = 2
READABLE = (1, 2)


def write_arrays(path: Path, holds: str, arrays: dict[str, np.ndarray], config: Any) -> None:
    """Write named arrays and a configuration to a file.

    Args:
        path: The file to write.
        holds: What kind of object the arrays belong to ("model"); `read_arrays` checks it.
        arrays: The arrays. Values must be finite.
        config: Any JSON value.
    """
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"{path}: not written, {name}{list(at)} is {array[at]}")
    try:
        about = json.dumps({"format": FORMAT, "holds": holds, "config": config}, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: not written, the configuration is not JSON ({error})") from None
    metadata = {"s7": about, "sha256": _checksum(arrays, about)}
    write_atomically(path, tensors(arrays, metadata))


def tensors(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a safetensors file. Equal contents give equal bytes; the library orders its header at random."""
    data = save_tensors({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return data[:8] + header.encode().ljust(size) + data[8 + size :]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to disk and rename it: it exists whole or not at all.

    Raises:
        OSError: If it cannot be written. The error names the file.
    """
    with open_atomically(path) as file:
        file.write(data)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing, which replaces `path` at the end of the context unless an error was raised.

    Raises:
        OSError: If it cannot be written. The error names the file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not by tempfile, whose files only their owner may read.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with _named(path):
            opened = os.fdopen(handle, "w+b")
        with opened as file:
            try:
                yield file
            except OSError as error:
                # An error of the new file (a full disk, say) names no file. Others are about something else.
                if error.filename is not None:
                    raise
                raise type(error)(error.errno, error.strerror or str(error), str(path)) from None
            with _named(path):
                file.flush()
                os.fsync(file.fileno())
        with _named(path):
            os.replace(temporary, path)
            _flush_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors of the operating system name a file."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_temporary(path: Path) -> bool:
    """Whether a file is one that `write_atomically` left unfinished."""
    return re.fullmatch(r"\..+\.\d+\.[0-9a-f]{8}", path.name) is not None


def read_arrays(path: Path, holds: str) -> tuple[dict[str, np.ndarray], Any]:
    """Read and check a file that `write_arrays` wrote.

    Returns:
        The arrays by name, and the configuration.

    Raises:
        ValueError: If the file is damaged, of another format, or holds something else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    data = path.read_bytes()
    try:
        arrays = load_tensors(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error})") from None
    if "s7" not in metadata:
        raise ValueError(f"{path}: a safetensors file, but not one that s7 wrote")
    try:
        about = json.loads(metadata["s7"])
        version, kind, config = about["format"], about["holds"], about["config"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path}: altered since it was written (its header cannot be read)") from None
    if version not in READABLE:
        raise ValueError(f"{path}: format {version}, this version of s7 reads formats up to {FORMAT}; update s7")
    if _checksum(arrays, metadata["s7"]) != metadata.get("sha256"):
        raise ValueError(f"{path}: altered since it was written (the checksum differs)")
    if kind != holds:
        raise ValueError(f"{path}: holds a {kind}, not a {holds}")
    return arrays, config


def _checksum(arrays: dict[str, np.ndarray], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
