"""Event formats are recognized by content, then by extension."""

import numpy as np
import pytest

from s7.events.formats import EventFormat, find_format
from s7.events.formats.aedat3 import FIRST, Aedat3
from s7.events.formats.nmnist import NMnist


def test_formats_register_themselves():
    assert {"aedat3", "nmnist"} <= set(EventFormat.registry.builtin)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [("a.aedat", b"", Aedat3), ("a.bin", FIRST + b"\r\n", Aedat3), ("a.BIN", bytes(5), NMnist)],
)
def test_the_content_decides_before_the_extension(name, content, kind, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    assert type(find_format(path)) is kind


def test_a_format_reads_events(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes([3, 4, 0x80, 0, 100]))
    events = find_format(path).read(path)
    np.testing.assert_array_equal([events.x, events.y, events.p, events.t], [[3], [4], [1], [100]])


@pytest.mark.usefixtures("as_users_see_it")
def test_an_unknown_format_is_rejected(tmp_path):
    path = tmp_path / "a.unknown"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"a\.unknown: byte 0: not the start of a known event format \(.*aedat3"):
        find_format(path)
