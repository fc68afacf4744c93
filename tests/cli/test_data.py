"""`s7 data`: fetching and checking, with messages for users and JSON for programs."""

import functools
import hashlib
import http.server
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from s7.cli import data as command
from s7.cli.main import main
from s7.data.download import Download
from s7.data.samples import Samples
from s7.tasks import walker2d
from s7.training.objectives import CrossEntropy, MeanSquared

NAME = "walker2d/rollouts.npz"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with a few short rollouts in it."""
    folder = tmp_path_factory.mktemp("published")
    lengths = np.random.default_rng(0).integers(130, 160, 20)
    obs = np.cumsum(np.random.default_rng(1).normal(size=(lengths.sum(), 17)), 0).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = np.array([f"rollout_{n:03d}.npy" for n in range(20)])
    (folder / "walker2d").mkdir()
    np.savez(folder / NAME, obs=obs, offsets=offsets, names=names)
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, *_):
        """Do not log."""


@pytest.fixture
def source(published, tmp_path, monkeypatch):
    """The rollouts at an address of this machine, as the official ones of walker2d; its checksum is known."""
    for name in ("http_proxy", "HTTP_PROXY", "NO_PROXY", "S7_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(published)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    digest = f"md5:{hashlib.md5((published / NAME).read_bytes()).hexdigest()}"
    download = Download(f"http://127.0.0.1:{server.server_port}/{NAME}", NAME, digest=digest)
    monkeypatch.setattr(walker2d.Walker2d, "downloads", (download,))
    yield download
    server.shutdown()
    server.server_close()


def refuse(capsys, *arguments):
    """The one line of an error."""
    assert main(["data", *map(str, arguments)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_fetched_then_checked(source, tmp_path, capsys):
    place = tmp_path / "data"
    assert main(["data", "fetch", "walker2d", "--data", str(place)]) == 0
    out = capsys.readouterr().out
    assert f"1 file into {place}" in out
    assert f"{place / NAME}  " in out
    assert f"{source.digest} (as published)" in out
    assert "Next: s7 data check walker2d" in out
    assert main(["data", "check", "walker2d", "--data", str(place)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(str(place / NAME))
    assert [line.split()[0] for line in lines[1::4]] == ["train", "valid", "test", "nothing"]
    assert "64 events each" in lines[1]
    assert lines[2].split()[1:5] == ["18", "numbers", "an", "event,"]
    assert "gaps     1 to " in lines[3]
    assert lines[-1] == "nothing wrong"


def test_json_lines(source, published, tmp_path, capsys):
    def run(*words):
        assert main(["data", *words, "--data", str(tmp_path / "data")]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    first, again = (run("fetch", "walker2d", "--json")[0] for _ in range(2))
    size = (published / NAME).stat().st_size
    about = {"bytes": size, "digest": source.digest, "against": "published", "url": source.url}
    assert first == about | {"path": str(tmp_path / "data" / NAME), "fetched": True}
    assert again == first | {"fetched": False}
    file, *splits, last = run("--json", "check", "walker2d")
    assert file["digest"] == source.digest
    assert [split["split"] for split in splits] == ["train", "valid", "test"]
    assert splits[0]["lengths"] == {"min": 64, "median": 64, "max": 64}
    assert splits[0]["targets"]["count"] == 64 * splits[0]["sequences"]
    assert last == {"task": "walker2d", "wrong": None}


def test_simulated_data_need_no_fetching(capsys):
    assert main(["data", "fetch", "pendulum"]) == 0
    said = capsys.readouterr().out
    assert said == "nothing to fetch: its data are simulated when it is trained\n"
    assert main(["data", "fetch", "pendulum", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"task": "pendulum", "files": 0}


def test_manually_downloaded_files_are_checked(source, published, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(walker2d.Walker2d, "manual_download", "Ask the author for it")
    place = tmp_path / "data"
    said = refuse(capsys, "fetch", "walker2d", "--data", place)
    assert said == f"s7 data: Ask the author for it. Put it at {place / NAME}, then repeat the command\n"
    (place / "walker2d").mkdir(parents=True)
    (place / NAME).write_bytes((published / NAME).read_bytes())
    assert main(["data", "fetch", "walker2d", "--data", str(place)]) == 0
    assert "as published" in capsys.readouterr().out
    (place / NAME).write_bytes(b"something else")
    assert f"expected {source.digest}" in refuse(capsys, "fetch", "walker2d", "--data", place)


def test_a_task_without_downloads_reports_its_files(source, published, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(walker2d.Walker2d, "downloads", ())
    said = refuse(capsys, "fetch", "walker2d", "--data", tmp_path)
    assert f"it has no known download address; {walker2d.FILES[0]} is not in {tmp_path}" in said
    own = "s7.tasks.walker2d:Walker2d"
    assert main(["data", "fetch", own, "--data", str(published)]) == 0
    assert capsys.readouterr().out == "nothing to fetch: its data are here\n"


def test_a_fetch_that_fails_is_one_line(source, tmp_path, monkeypatch, capsys):
    lost = Download(source.url + "x", NAME, page="https://example.org/rollouts")
    monkeypatch.setattr(walker2d.Walker2d, "downloads", (lost,))
    said = refuse(capsys, "fetch", "walker2d", "--data", tmp_path)
    assert "answered 404" in said
    assert f"from https://example.org/rollouts and put it at {tmp_path / NAME}" in said
    assert "did you mean 'walker2d'?" in refuse(capsys, "fetch", "walker2")


def test_a_check_reports_the_file_and_the_position_of_an_error(source, published, tmp_path, monkeypatch, capsys):
    assert f"{walker2d.FILES[0]} is not in {tmp_path}" in refuse(capsys, "check", "walker2d", "--data", tmp_path)
    path = tmp_path / NAME
    path.parent.mkdir()
    with np.load(published / NAME) as file:
        arrays = dict(file)
    arrays["obs"][7, 3] = np.nan
    np.savez(path, **arrays)
    assert f"{path}: its checksum is md5:" in refuse(capsys, "check", "walker2d", "--data", tmp_path)
    monkeypatch.setattr(walker2d.Walker2d, "downloads", ())
    assert f"{path}: obs[7, 3] is not finite (nan)" in refuse(capsys, "check", "walker2d", "--data", tmp_path)


def test_a_split_is_described():
    samples = Samples.of([[1, 2, 3], [9]], [0, 2], [[0.0, 1.5, 2.5], [0.0]], per_step=False)
    found = command.describe(samples, CrossEntropy(3, ("a", "b", "c")))
    assert found["lengths"] == {"min": 1, "median": 2, "max": 3}
    assert found["classes"] == {"a": 1, "b": 0, "c": 1}
    assert found["gaps"] == {"min": 0, "median": 0.75, "max": 2.5, "zero": 0.5}
    assert (found["inputs"]["min"], found["inputs"]["max"], found["inputs"]["shape"]) == (1, 9, [])
    text = "\n".join(command._lines("train", found))
    assert "2 sequences, 1 to 3 events" in text
    assert "a: 1, b: 0, c: 1" in text
    assert "50.0% are zero" in text


def test_only_targets_that_count_are_described():
    samples = Samples.of(np.zeros((1, 4, 2)), np.array([[0, 1, 1, 2]]), counts=[[True, True, True, False]])
    found = command.describe(samples, CrossEntropy(3))
    assert found["targets"]["count"] == 3
    assert found["classes"] == {"0": 1, "1": 2, "2": 0}
    numbers = Samples.of(np.zeros((2, 4, 2)), np.array([[1.0], [-5.0]]))
    found = command.describe(numbers, MeanSquared(1))
    assert (found["targets"]["min"], found["targets"]["max"]) == (-5, 1)
    assert "classes" not in found
    assert "gaps" not in found
    assert "2, -5 to 1" in "\n".join(command._lines("test", found))


def test_many_classes_are_summarized_and_missing_ones_listed():
    counts = {str(n): 5 + n for n in range(20)}
    assert command._class_counts(counts) == "20, with 5 to 24 each"
    assert command._class_counts(counts | {"3": 0}) == "20, with 0 to 24 each; none of 3"


def test_help_does_not_import_numpy_and_lists_the_tasks():
    program = "import sys; from s7.cli.main import main\ntry: main(['data', '--help'])\nexcept SystemExit: pass\n"
    check = "sys.exit('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(action in done.stdout for action in ("fetch", "check", "make"))


def test_missing_simulators_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert main(["data", "make", "walker2d", "--data", str(tmp_path)]) == 2
    assert "pip install 's7-ssm[walker]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["data", "make", "pendulum"]) == 2
    assert "nothing to make" in capsys.readouterr().err
