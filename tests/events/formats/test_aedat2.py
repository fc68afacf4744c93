"""AEDAT 2.0."""

import numpy as np
import pytest

from s7.events.formats.aedat2 import Aedat2Decoder
from tests.events.streams import assert_events, decoded

HEADER = b"#!AER-DAT2.0\r\n# This is a raw AE data file\r\n# AEChip: eu.seebetter.ini.chips.davis.DAVIS346\r\n"


def records(*pairs):
    return np.array(pairs, ">u4").tobytes()


def davis(x, y, p):
    return (259 - y) << 22 | x << 12 | p << 11


@pytest.mark.parametrize("piece", [None, 1, 7, 60])
def test_davis_files_skip_frames_and_other_records(piece):
    # The first byte of the first address is that of '#'.
    data = HEADER + records(
        (davis(3, 259 - 142, 1), 10), (1 << 31 | 5, 11), (davis(1, 2, 0) | 1 << 10, 12), (davis(345, 0, 0), 13)
    )
    assert data[len(HEADER)] == ord("#")
    found = decoded(Aedat2Decoder("a.aedat"), data, piece)
    assert_events(found, [3, 345], [117, 0], [1, 0], [10, 13])
    assert found.sensor == (346, 260)


def test_files_of_the_first_chip_need_no_name():
    data = b"#!AER-DAT2.0\r\n" + records((5 << 1 | 100 << 8, 2**32 - 1), (1 << 15, 0), (127 << 1 | 1, 4))
    found = decoded(Aedat2Decoder("a.aedat"), data, 9)
    assert_events(found, [5, 127], [27, 127], [1, 0], [2**32 - 1, 2**32 + 4])
    assert found.sensor == (128, 128)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"#!AER-DAT1.0\r\n", "byte 0: not an AEDAT 2.0 file"),
        (HEADER + records((davis(3, 4, 1), 5))[:-1], f"byte {len(HEADER) + 7}: cut off inside of an event"),
        (HEADER + records((0, 1), (346 << 12, 5)), f"byte {len(HEADER) + 8}: an event at x=346, y=0 is outside"),
        (b"#!AER-DAT2.0\r\n" + records((davis(3, 4, 1), 5)), "byte 14: the header names none of the chips DVS128"),
        (b"#!AER-DAT2.0\r\n# no end", "byte 22: cut off in the header"),
    ],
)
def test_damaged_files_are_rejected(data, message):
    with pytest.raises(ValueError, match=rf"^a\.aedat: {message}"):
        decoded(Aedat2Decoder("a.aedat"), data)
