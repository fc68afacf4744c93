"""Uploaded files."""

import zipfile

import pytest

from s7.live.protocol import Closing
from s7.live.upload import Upload


def test_parts_become_a_file(tmp_path):
    upload = Upload(tmp_path, "../../etc/evil name.RAW", 5, 100)
    assert not upload.write(b"he")
    assert upload.write(b"llo")
    assert upload.path.read_bytes() == b"hello"
    assert upload.path.parent == tmp_path
    assert upload.path.suffix == ".raw"
    assert upload.name == "evil name.RAW"


def test_a_file_must_not_be_larger_than_announced_or_allowed(tmp_path):
    with pytest.raises(Closing, match=r"^big: 101 bytes are more than the limit of 100$"):
        Upload(tmp_path, "big", 101, 100)
    upload = Upload(tmp_path, "a", 2, 100)
    with pytest.raises(Closing, match=r"^a: more bytes than the upload announced$"):
        upload.write(b"abc")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_must_not_unpack_to_far_more(tmp_path):
    archive = tmp_path / "bomb.npz"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", bytes(100_000))
    data = archive.read_bytes()
    folder = tmp_path / "uploads"
    folder.mkdir()
    upload = Upload(folder, "bomb.npz", len(data), 2000)
    with pytest.raises(Closing, match="100,000 bytes when unpacked are more than the limit"):
        upload.write(data)
    assert list(folder.iterdir()) == []


def test_a_damaged_archive_is_left_to_its_reader(tmp_path):
    archive = tmp_path / "a.npz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x.npy", bytes(100))
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02")] ^= 0xFF
    assert Upload(tmp_path, "a.npz", len(data), 2000).write(bytes(data))


def test_half_a_character_in_a_name_can_be_sent_back(tmp_path):
    assert Upload(tmp_path, "a\ud800.raw", 5, 100).name == "a?.raw"
    with pytest.raises(Closing, match=r"^a\?: 101 bytes"):
        Upload(tmp_path, "a\ud800", 101, 100)
