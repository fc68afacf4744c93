"""NumPy's .npy files: a structured array with the fields x, y, t and p, or a table of four columns."""

import ast
import math
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

import numpy as np

from s7.events.formats.base import EventFormat
from s7.events.formats.tables import Source, find_table, four_columns

MAGIC = b"\x93NUMPY"
# A header that is longer than this is damaged.
LONGEST = 2**16


class Npy(EventFormat, name="npy"):
    """NumPy arrays (.npy)."""

    extensions = (".npy",)

    def sniff(self, start):
        return start.startswith(MAGIC)

    def blocks(self, path):
        with path.open("rb") as file:
            dtype, shape, fortran = read_header(file.read, str(path))
            at = file.tell()
        needed = at + dtype.itemsize * math.prod(shape)
        size = path.stat().st_size
        if size < needed:
            raise ValueError(f"{path}: byte {size}: cut off; the array ends at byte {needed}")
        if not math.prod(shape):
            return
        with path.open("rb") as file:
            read = partial(_read_rows, file, at, dtype, shape, fortran)
            source = Source("the array", dtype, shape, read)
            table = find_table({"the array": source}, str(path))
            if table is not None:
                yield from table.blocks()
            elif len(shape) == 2 and shape[1] == 4 and dtype.kind in "iuf":
                yield from four_columns(source, str(path))
            else:
                raise ValueError(f"{path}: holds {dtype}{list(shape)}, expected the fields x, y, t, p or four columns")


def _read_rows(
    file: BinaryIO, at: int, dtype: np.dtype, shape: tuple[int, ...], fortran: bool, start: int, end: int
) -> np.ndarray:
    """Read some rows of an array that starts at a position. Mapping the file instead would count as memory."""
    row = math.prod(shape[1:])
    if not fortran:
        file.seek(at + start * row * dtype.itemsize)
        return np.fromfile(file, dtype, (end - start) * row).reshape(-1, *shape[1:])
    columns = []
    for column in range(row):
        file.seek(at + (column * shape[0] + start) * dtype.itemsize)
        columns.append(np.fromfile(file, dtype, end - start))
    return np.stack(columns, 1).reshape(-1, *shape[1:])


def read_header(read: Callable[[int], bytes], where: str) -> tuple[np.dtype, tuple[int, ...], bool]:
    """Read the header of a .npy file up to its data.

    Args:
        read: Reads the given number of bytes from the start of the file on.
        where: The file, for messages.

    Returns:
        The type and the shape of the array, and whether its columns are contiguous.

    Raises:
        ValueError: If the header is damaged or the array holds Python objects.
    """
    start = read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise ValueError(f"{where}: byte 0: not the start of a NumPy array")
    bytes_of_size = 2 if start[6] == 1 else 4
    size = int.from_bytes(read(bytes_of_size), "little")
    if size > LONGEST:
        raise ValueError(f"{where}: byte 8: a header of {size:,} bytes is damaged")
    text = read(size)
    try:
        about = ast.literal_eval(text.decode("utf-8" if start[6] > 2 else "latin-1"))
        dtype = np.lib.format.descr_to_dtype(about["descr"])
        shape, fortran = about["shape"], bool(about["fortran_order"])
        good = isinstance(shape, tuple) and all(isinstance(n, int) and 0 <= n < 2**48 for n in shape)
    except Exception:  # whatever a damaged header makes of Python's and NumPy's parsers
        good = False
    if not good or len(text) < size:
        raise ValueError(f"{where}: byte {8 + bytes_of_size}: the header of the array is damaged")
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"{where}: byte {8 + bytes_of_size}: holds {dtype}, expected numbers")
    return dtype, shape, fortran
