"""EVT 2.0, 2.1, 3.0 and DAT against state machines that handle one word at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events.formats.dat import Dat, DatDecoder
from s7.events.formats.detection import format_of
from s7.events.formats.evt2 import Evt2Decoder
from s7.events.formats.evt3 import Evt3Decoder
from s7.events.formats.evt21 import Evt21Decoder
from tests.events.streams import assert_events, decoded
from tests.real_data import real_file


class Clock:
    """The upper part of a time, continued when it overflows."""

    def __init__(self, bits):
        self.period, self.value, self.loops = 2**bits, 0, 0

    def __call__(self, value):
        if value < self.value - self.period / 2:
            self.loops += 1
        elif value > self.value + self.period / 2 and self.loops:
            self.loops -= 1
        self.value = value
        return value + self.loops * self.period


def columns(found):
    """Columns x, y, p, t of a list of events."""
    return [list(column) for column in zip(*found, strict=True)] if found else [[]] * 4


def plain_evt2(words):
    clock, high, found = Clock(28), None, []
    for word in words:
        kind = word >> 28
        if kind == 8:
            high = clock(word & 0xFFFFFFF)
        elif kind < 2 and high is not None:
            found.append((word >> 11 & 0x7FF, word & 0x7FF, kind, high << 6 | word >> 22 & 63))
    return columns(found)


def plain_evt21(words):
    clock, high, found = Clock(28), None, []
    for word in words:
        kind, head = word >> 60, word >> 32
        if kind == 8:
            high = clock(head & 0xFFFFFFF)
        elif kind < 2 and high is not None:
            pixels = [bit for bit in range(32) if word >> bit & 1]
            found += [((head >> 11 & 0x7FF) + n, head & 0x7FF, kind, high << 6 | head >> 22 & 63) for n in pixels]
    return columns(found)


def plain_evt3(words):
    clock, high, low, y, base, found = Clock(12), None, 0, None, None, []
    for word in words:
        kind, value = word >> 12, word & 0xFFF
        known = high is not None and y is not None
        if kind == 0:
            y = value & 0x7FF
        elif kind == 2 and known:
            found.append((value & 0x7FF, y, value >> 11, high << 12 | low))
        elif kind == 3:
            base, polarity = value & 0x7FF, value >> 11
        elif kind in (4, 5) and base is not None:
            size = 12 if kind == 4 else 8
            if known:
                pixels = [bit for bit in range(size) if value >> bit & 1]
                found += [(base + bit, y, polarity, high << 12 | low) for bit in pixels]
            base += size
        elif kind == 6:
            low = value
        elif kind == 8:
            new = clock(value)
            low, high = low if new == high else 0, new
    return columns(found)


def words_of(kinds, bits, values):
    """Lists of words whose type is in the upper four bits."""
    word = st.builds(lambda kind, value: kind << bits | value, st.sampled_from(kinds), values)
    return st.lists(word, max_size=60)


def near_ends(bits):
    """Values of which many are close to the ends of the range, as around an overflow."""
    return st.integers(0, 2**bits - 1) | st.integers(0, 3) | st.integers(2**bits - 4, 2**bits - 1)


PIECES = st.sampled_from([1, 3, 7, 16, None])


@settings(max_examples=80)
@given(words_of([0, 1, 8, 8, 10, 14, 15], 28, near_ends(28)), PIECES)
def test_evt2_is_decoded_word_by_word(words, piece):
    data = b"% evt 2.0\n" + np.array(words, "<u4").tobytes()
    assert_events(decoded(Evt2Decoder("a.raw"), data, piece), *plain_evt2(words))


@settings(max_examples=60)
@given(words_of([0, 1, 8, 14], 28, near_ends(28)), st.integers(0, 99), PIECES, st.booleans())
def test_evt21_is_decoded_word_by_word(heads, seed, piece, legacy):
    masks = np.random.default_rng(seed).integers(0, 2**32, len(heads), np.uint64)
    words = np.array(heads, np.uint64) << np.uint64(32) | masks
    header = b"% evt 2.1\n% format EVT21;height=2048;width=2079\n"
    stored = words
    if legacy:
        header = b"% format EVT21;endianness=legacy\n% end\n"
        stored = words << np.uint64(32) | words >> np.uint64(32)
    found = decoded(Evt21Decoder("a.raw"), header + stored.astype("<u8").tobytes(), piece)
    assert_events(found, *plain_evt21(words.tolist()))


@settings(max_examples=150)
@given(words_of([0, 2, 2, 3, 4, 4, 5, 6, 6, 8, 8, 7, 10, 14, 15], 12, near_ends(12)), PIECES)
def test_evt3_is_decoded_word_by_word(words, piece):
    # Vectors start at the left, so that they end before the last column.
    words = [word & ~0x7F0 if word >> 12 == 3 else word for word in words]
    data = b"% evt 3.0\n% end\n" + np.array(words, "<u2").tobytes()
    assert_events(decoded(Evt3Decoder("a.raw"), data, piece), *plain_evt3(words))


def test_evt3_overflows_every_16_seconds():
    words = []
    for high in (0xFFE, 0xFFF, 0, 1, 0, 0xFFF, 0x800, 0x100):
        words += [8 << 12 | high, 6 << 12 | 5, 0 << 12 | 9, 2 << 12 | 7]
    found = decoded(Evt3Decoder("a.raw"), np.array(words, "<u2").tobytes())
    highs = [0xFFE, 0xFFF, 0x1000, 0x1001, 0x1000, 0xFFF, 0x800, 0x100]
    assert found.t.tolist() == [high << 12 | 5 for high in highs]


@pytest.mark.parametrize(
    ("decoder", "version", "word", "value", "kind"),
    [
        (Evt2Decoder, "2.0", "<u4", 9 << 28, "0x9"),
        (Evt21Decoder, "2.1", "<u8", 7 << 60, "0x7"),
        (Evt3Decoder, "3.0", "<u2", 13 << 12, "0xD"),
    ],
)
def test_an_unknown_type_of_word_is_rejected_with_its_position(decoder, version, word, value, kind):
    header = f"% evt {version}\n".encode()
    good = {"<u4": 8 << 28, "<u8": 8 << 60, "<u2": 8 << 12}[word]
    data = header + np.array([good] * 5 + [value], word).tobytes()
    at = len(header) + 5 * np.dtype(word).itemsize
    name = version.removesuffix(".0")
    for piece in (1, 3, None):
        with pytest.raises(ValueError, match=rf"^a\.raw: byte {at}: {kind} is not a type of EVT {name} words"):
            decoded(decoder("a.raw"), data, piece)


def test_events_outside_of_the_sensor_are_rejected_with_their_position():
    header = b"% evt 3.0\n% geometry 640x480\n% end\n"
    words = [8 << 12, 0 << 12 | 479, 2 << 12 | 639, 3 << 12 | 630, 4 << 12 | 0x3FF, 4 << 12 | 1]
    found = decoded(Evt3Decoder("a.raw"), header + np.array(words[:5], "<u2").tobytes())
    assert found.sensor == (640, 480)
    assert found.x.tolist() == [639, *range(630, 640)]
    message = rf"^a\.raw: byte {len(header) + 10}: an event at x=642, y=479 is outside of the sensor of 640×480 pixels$"
    with pytest.raises(ValueError, match=message):
        decoded(Evt3Decoder("a.raw"), header + np.array(words, "<u2").tobytes(), 5)
    with pytest.raises(ValueError, match=r"^a\.raw: byte \d+: a vector goes beyond x=2047$"):
        decoded(Evt3Decoder("a.raw"), np.array([8 << 12, 0, 3 << 12 | 2047, 4 << 12 | 1, 4 << 12], "<u2").tobytes())


def test_a_raw_file_that_is_cut_off_is_rejected():
    for decoder in (Evt2Decoder, Evt21Decoder, Evt3Decoder):
        with pytest.raises(ValueError, match=r"^a\.raw: byte 9: cut off inside of an event; get it again$"):
            decoded(decoder("a.raw"), bytes(9))
        with pytest.raises(ValueError, match=r"^a\.raw: byte 8: cut off in the header"):
            decoded(decoder("a.raw"), b"% evt 3.")
    with pytest.raises(ValueError, match=r"^a\.raw: byte 0: the header says EVT 3, not EVT 2$"):
        decoded(Evt2Decoder("a.raw"), b"% evt 3.0\n")
    with pytest.raises(ValueError, match=r"^a\.raw: byte 1048576: the header does not end"):
        decoded(Evt2Decoder("a.raw"), b"% " + bytes(2**20))


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"% evt 3.0\n", "evt3"),
        (b"% date 2024-01-01\n% evt 2.0\n% geometry 640x480\n", "evt2"),
        (b"% format EVT21;height=320;width=320\n% end\n", "evt2.1"),
        (b"% format EVT3;height=720;width=1280\n% evt 3.0\n% end\n", "evt3"),
        (b"% Data file containing CD events.\n% Version 2\n\x0c\x08", "dat"),
    ],
)
def test_formats_are_recognized_by_their_header(header, name):
    found = format_of(header + bytes(20), "anything.raw")
    assert type(found).registry.name_of(type(found)) == name


def dat_bytes(x, y, p, t, header="% Version 2\n", kind=0x0C):
    words = np.stack([np.asarray(t) & 0xFFFFFFFF, np.asarray(x) | np.asarray(y) << 14 | np.asarray(p) << 28], 1)
    return header.encode() + bytes([kind, 8]) + words.astype("<u4").tobytes()


@settings(max_examples=40)
@given(st.lists(near_ends(32), max_size=12), PIECES)
def test_dat_times_are_continued(times, piece):
    clock = Clock(32)
    x = np.arange(len(times))
    found = decoded(DatDecoder("a.dat"), dat_bytes(x, x + 1, x % 2, np.array(times, np.int64)), piece)
    assert_events(found, x, x + 1, x % 2, [clock(t) for t in times])


def test_dat_of_version_1_has_other_bits():
    data = b"% Version 1\n\x00\x08" + np.array([5, 300 | 200 << 9 | 1 << 17], "<u4").tobytes()
    assert_events(decoded(DatDecoder("a.dat"), data), [300], [200], [1], [5])


def test_damaged_dat_files_are_rejected():
    good = dat_bytes([1], [2], [1], [3], "% Version 2\n% Height 2\n% Width 9\n")
    with pytest.raises(ValueError, match=r"^a\.dat: byte 35: an event at x=1, y=2 is outside of the sensor of 9×2"):
        decoded(DatDecoder("a.dat"), good)
    with pytest.raises(ValueError, match=r"^a\.dat: byte 12: holds events of type 0x0E"):
        decoded(DatDecoder("a.dat"), dat_bytes([1], [1], [1], [3], kind=0x0E))
    with pytest.raises(ValueError, match=r"^a\.dat: byte 1: events of 0 bytes, expected 8"):
        decoded(DatDecoder("a.dat"), bytes(20))
    with pytest.raises(ValueError, match=r"^a\.dat: byte 20: cut off inside of an event"):
        decoded(DatDecoder("a.dat"), dat_bytes([1], [1], [1], [3])[:20])


def test_a_real_dat_file_is_read():
    events = Dat().read(real_file("event_files/sample_ncars.dat"))
    assert len(events) == 2009
    assert events.sensor is None
    assert (int(events.t[0]), int(events.t[-1])) == (0, 99952)
    assert events.x.max() < 120
    assert not len(events.jumps_back())
