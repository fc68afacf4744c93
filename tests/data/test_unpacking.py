"""Unpacking: the requested files are complete, and no others are written."""

import errno
import io
import tarfile
import zipfile

import pytest

from s7.data import unpacking
from s7.data.unpacking import forget, is_unpacked, stays_inside, unpack
from tests.listening import silent

MEMBERS = {"set/a/1.txt": b"one", "set/a/2.txt": b"two", "set/b/3.txt": b"three"}


def write_tar(path, members=MEMBERS, **links):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return path


def write_zip(path, members=MEMBERS):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("set/", b"")
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.txt")}


@pytest.fixture(params=[write_tar, write_zip], ids=["tar", "zip"])
def write(request):
    """Both kinds."""
    return request.param


def test_matching_members_are_extracted_once(write, tmp_path):
    path = write(tmp_path / "all.gz")
    said = []
    unpack(path, ("*/a/*",), said.append)
    assert files(tmp_path) == {name: MEMBERS[name] for name in ("set/a/1.txt", "set/a/2.txt")}
    assert is_unpacked(path, ("*/a/*",))
    assert not is_unpacked(path, ("*/a/*", "*/b/*"))
    (tmp_path / "set" / "a" / "1.txt").write_bytes(b"mine")
    unpack(path, ("*/a/*",), said.append)
    assert len(said) == 1
    # More of the same archive, into folders that are there.
    unpack(path, ("*/b/*",), said.append)
    assert files(tmp_path) == MEMBERS | {"set/a/1.txt": b"mine"}
    assert is_unpacked(path, ("*/a/*", "*/b/*"))
    forget(path)
    unpack(path, ("*",), said.append)
    assert files(tmp_path) == MEMBERS
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_an_unpacked_archive_is_not_unpacked_again(tmp_path):
    unpack(tmp_path / "absent", (), silent)
    assert is_unpacked(tmp_path / "absent", ())


@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt"])
def test_members_outside_of_the_folder_are_rejected(write, name, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    path = write(folder / "evil", MEMBERS | {name: b"evil"})
    with pytest.raises(ValueError, match=f"^{path}: '{name}' in it leads out of its folder; nothing was unpacked"):
        unpack(path, ("*",), silent)
    assert not files(tmp_path)
    assert not is_unpacked(path, ("*",))


def test_links_may_not_lead_out_of_the_folder(tmp_path):
    path = write_tar(tmp_path / "evil.tar.gz", link="../../etc")
    with pytest.raises(ValueError, match="'link' in it leads out of its folder"):
        unpack(path, ("*",), silent)
    assert not files(tmp_path)


def test_an_archive_without_matches_is_an_error(write, tmp_path):
    path = write(tmp_path / "all")
    with pytest.raises(ValueError, match=f"^{path}: nothing in it is called x or y"):
        unpack(path, ("x", "y"), silent)


def test_a_damaged_archive_is_rejected_and_leaves_no_files(write, tmp_path):
    path = write(tmp_path / "all", {f"{n}.txt": bytes(range(256)) * 40 for n in range(20)})
    data = bytearray(path.read_bytes())
    for damaged in (data[: len(data) // 2], b"no archive", data[:100] + b"\0" * 200 + data[300:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"^{path}: damaged, or not an archive .*; remove it and fetch it again"):
            unpack(path, ("*",), silent)
        assert not files(tmp_path)


def test_a_full_disk_is_a_one_line_error_and_leaves_no_files(write, tmp_path, monkeypatch):
    path = write(tmp_path / "all")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unpacking.os, "replace", full)
    with pytest.raises(OSError, match=f"^{path}: the disk is full, nothing was unpacked"):
        unpack(path, ("*",), silent)
    assert not files(tmp_path)


def test_names_that_stay_inside():
    assert all(map(stays_inside, ("a", "a/b.c", "./a", "a b/ü")))
    assert not any(map(stays_inside, ("", "/a", "../a", "a/../b", "a\\..\\b", "C:/a")))
