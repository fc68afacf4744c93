"""Files are written whole or not at all, errors name the file, and equal contents give equal bytes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import s7
from s7.storage import is_temporary, read_arrays, tensors, write_arrays, write_atomically

ARRAYS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([1, -2]), "é": np.array(0.5)}
CONFIG = {"z": [1, None], "a": {"text": "é", "number": 0.1}}


def start(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run code in a new process."""
    paths = {"PYTHONPATH": str(Path(s7.__file__).parents[1])}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=os.environ | paths | environment, capture_output=True)


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_the_umask_decides_who_may_read_a_file(tmp_path):
    write_atomically(tmp_path / "file", b"")
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("function", ["fsync", "replace", "fdopen"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failed_write_names_the_file_and_leaves_the_old_one(function, number, tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        write_atomically(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_names_the_file(tmp_path):
    (tmp_path / "taken").write_text("a file")
    path = tmp_path / "taken" / "file.txt"
    with pytest.raises(OSError, match=r"taken.file\.txt"):
        write_atomically(path, b"")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write_atomically(tmp_path, b"")


def test_a_killed_process_leaves_the_old_file_and_a_temporary_one(tmp_path):
    path = tmp_path / "file.txt"
    write_atomically(path, b"old")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from s7.storage import write_atomically\n"
        "os.fsync = lambda handle: os._exit(9)\n"
        "write_atomically(Path(sys.argv[1]), b'new')\n"
    )
    assert start(code, str(path)).returncode == 9
    assert path.read_bytes() == b"old"
    (left,) = [other for other in tmp_path.iterdir() if other != path]
    assert is_temporary(left)


@pytest.mark.parametrize("name", ["file.txt", ".hidden", ".lock", ".file.txt.12", "file.txt.12.0123abcd", "..12.xyz"])
def test_other_files_are_not_taken_for_temporary_ones(name):
    assert not is_temporary(Path(name))


def test_arrays_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "file.safetensors"
    write_arrays(path, "model", ARRAYS, CONFIG)
    arrays, config = read_arrays(path, "model")
    assert config == CONFIG
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_equal_contents_give_equal_bytes(tmp_path):
    """In any order of the arrays, and in processes that hash differently."""
    paths = [tmp_path / f"{n}.safetensors" for n in range(3)]
    write_arrays(paths[0], "model", ARRAYS, CONFIG)
    write_arrays(paths[1], "model", dict(reversed(ARRAYS.items())), dict(reversed(CONFIG.items())))
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from s7.storage import read_arrays, write_arrays\n"
        "write_arrays(Path(sys.argv[2]), 'model', *read_arrays(Path(sys.argv[1]), 'model'))\n"
    )
    assert start(code, str(paths[0]), str(paths[2]), PYTHONHASHSEED="7").returncode == 0
    assert len({path.read_bytes() for path in paths}) == 1
    assert tensors(ARRAYS, {"b": "1", "a": "2"}) == tensors(ARRAYS, {"a": "2", "b": "1"})


@pytest.mark.parametrize(
    ("arrays", "config", "message"),
    [
        ({"a": np.array([[0.0, np.nan]])}, {}, r"not written, a\[0, 1\] is nan"),
        ({"a": np.array([np.inf])}, {}, r"not written, a\[0\] is inf"),
        ({}, {"a": {1, 2}}, "not written, the configuration is not JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused(arrays, config, message, tmp_path):
    path = tmp_path / "file.safetensors"
    with pytest.raises(ValueError, match=f"file.safetensors: {message}"):
        write_arrays(path, "model", arrays, config)
    assert not path.exists()


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "file.safetensors"
    write_arrays(path, "state", ARRAYS, CONFIG)
    with pytest.raises(ValueError, match=r"file.safetensors: holds a state, not a model"):
        read_arrays(path, "model")
    with pytest.raises(FileNotFoundError, match=r"none.safetensors: no such file"):
        read_arrays(tmp_path / "none.safetensors", "model")
