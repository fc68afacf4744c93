"""Checks of HDF5's global heaps, in which texts and rows of different lengths are stored.

The HDF5 library follows the sizes of rows and of objects in a heap without checking them. If one of them is damaged, it
may allocate all memory, or never return.

    heap      "GCOL", version (1 byte), 0 (3 bytes), size (8 bytes), objects
    object    index (2 bytes), references (2 bytes), 0 (4 bytes), size (8 bytes), data, up to a multiple of 8 bytes
    the rest  an object of index 0, whose size includes its header
    row       number of elements (4 bytes), position of its heap (8 bytes), index of its object (4 bytes)
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np

SIGNATURE = b"GCOL\x01\x00\x00\x00"
# The number of bytes at the start of a file that are checked.
CHECKED = 2**26
_HEADER = struct.Struct("<HHIQ")
_ROW = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])


def damaged_heap(data: bytes) -> int | None:
    """The position of the first object of a heap with an impossible size, or None.

    Args:
        data: The start of a file.
    """
    heap = data.find(SIGNATURE)
    while heap >= 0:
        at, end = heap + 16, heap + int.from_bytes(data[heap + 8 : heap + 16], "little")
        while at + _HEADER.size <= min(end, len(data)):
            index, _, _, size = _HEADER.unpack_from(data, at)
            step = _HEADER.size + -(-size // 8) * 8 if index else size
            if step < _HEADER.size or at + step > end:
                return at
            at += step
        heap = data.find(SIGNATURE, heap + 16)
    return None


def damaged_row(path: Path, array: Any) -> int | None:
    """The position of the first row that is longer than the file, or None. Compressed arrays are not checked.

    Args:
        path: The file.
        array: An array of h5py whose elements are rows.
    """
    kind = array.id.get_type()
    if kind.get_size() != _ROW.itemsize or not hasattr(kind, "get_super"):
        return None
    longest = path.stat().st_size // max(kind.get_super().get_size(), 1)
    with path.open("rb") as file:
        for at, size in _stored_parts(array):
            file.seek(at)
            data = file.read(size)
            rows = np.frombuffer(data, _ROW, len(data) // _ROW.itemsize)
            wrong = np.flatnonzero(rows["length"] > longest)
            if len(wrong):
                return at + int(wrong[0]) * _ROW.itemsize
    return None


def _stored_parts(array: Any) -> list[tuple[int, int]]:
    """The position and size in bytes of each part of an array that is not compressed."""
    if array.id.get_offset() is not None:
        return [(array.id.get_offset(), array.id.get_storage_size())]
    if array.chunks is None or array.id.get_create_plist().get_nfilters():
        return []
    chunks = (array.id.get_chunk_info(n) for n in range(array.id.get_num_chunks()))
    return [(chunk.byte_offset, chunk.size) for chunk in chunks if chunk.byte_offset is not None]
