"""Files at the bottom of everything: atomic writes, and named arrays in safetensors files with a checksum.

A file is written under a temporary name, flushed to disk and renamed, so it exists whole or not at all. Array files
carry a JSON configuration and a checksum in their header. Nothing is ever unpickled or evaluated. JAX is not imported.
"""

import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

FORMAT = 1


def write_arrays(path: Path, holds: str, arrays: dict[str, np.ndarray], config: Any) -> None:
    """Writes named arrays with a configuration; `holds` says of what. A number that is not finite is refused."""
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"{path}: not written, {name}{list(at)} is {array[at]}")
    about = json.dumps({"format": FORMAT, "holds": holds, "config": config}, sort_keys=True)
    metadata = {"s7": about, "sha256": _checksum(arrays, about)}
    write_atomically(path, tensors(arrays, metadata))


def tensors(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """A safetensors file, the same for the same contents: the library writes its header in any order."""
    data = save_tensors({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return data[:8] + header.encode().ljust(size) + data[8 + size :]


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file under another name, brings it to the disk, and renames it: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    # Not by tempfile, whose files nobody else may read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_temporary(path: Path) -> bool:
    """Whether this is a file that `write_atomically` had not finished."""
    return re.fullmatch(r"\..+\.\d+\.[0-9a-f]{8}", path.name) is not None


def read_arrays(path: Path, holds: str) -> tuple[dict[str, np.ndarray], Any]:
    """What `write_arrays` wrote, checked."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    data = path.read_bytes()
    try:
        arrays = load_tensors(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error})") from None
    if "s7" not in metadata:
        raise ValueError(f"{path}: a safetensors file, but not one of s7's")
    try:
        about = json.loads(metadata["s7"])
        version = about["format"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: altered since it was written (its header cannot be read)") from None
    if version != FORMAT:
        raise ValueError(f"{path}: format {version}, this version of s7 reads format {FORMAT}; update s7")
    if _checksum(arrays, metadata["s7"]) != metadata.get("sha256"):
        raise ValueError(f"{path}: altered since it was written (the checksum differs)")
    if about["holds"] != holds:
        raise ValueError(f"{path}: holds a {about['holds']}, not a {holds}")
    return arrays, about["config"]


def _checksum(arrays: dict[str, np.ndarray], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
