"""A check of HDF5's global heaps, in which texts and rows of different lengths are stored.

The HDF5 library follows the sizes of objects in a heap without checking them. If one of them is damaged, it may never
return.

    heap      "GCOL", version (1 byte), 0 (3 bytes), size (8 bytes), objects
    object    index (2 bytes), references (2 bytes), 0 (4 bytes), size (8 bytes), data, up to a multiple of 8 bytes
    the rest  an object of index 0, whose size includes its header
"""

import struct

SIGNATURE = b"GCOL\x01\x00\x00\x00"
# The number of bytes at the start of a file that are checked.
CHECKED = 2**26
_HEADER = struct.Struct("<HHIQ")


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
