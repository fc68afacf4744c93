"""`s7 stream`."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import s7
from s7 import native
from s7.cli.main import main
from tests.live.conftest import make_lines, make_model

pytestmark = pytest.mark.skipif(not native.available(), reason="no native kernels")

ARGUMENTS = [sys.executable, "-W", "error", "-m", "s7", "stream"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and a recording of 500 events."""
    folder = tmp_path_factory.mktemp("stream")
    s7.save(make_model(), folder)
    (folder / "waving.txt").write_text("\n".join(make_lines(500)) + "\n")
    return folder


def stream(capsys, *arguments) -> tuple[int, list[dict], str]:
    status = main(["stream", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


def test_predictions_and_statistics(folder, capsys):
    status, lines, err = stream(capsys, folder, folder / "waving.txt", "--every", 100)
    assert (status, err) == (0, "")
    *predictions, last = lines
    assert [line["events"] for line in predictions] == [100, 200, 300, 400, 500]
    rows = np.loadtxt(folder / "waving.txt", dtype=np.int64)
    tokens = s7.tokenize(rows[:, 1], rows[:, 2], rows[:, 3], sensor=(12, 9))
    gaps = np.diff(rows[:, 0] / 1000, prepend=rows[0, 0] / 1000)
    alone = s7.Stream.load(folder)
    alone.push(tokens, gaps)
    odds = np.exp(alone.answer())
    np.testing.assert_allclose(predictions[-1]["scores"], odds / odds.sum(), atol=1e-5)
    assert last["summary"]["events"] == 500
    assert set(last["summary"]["latency_ms"]) == {"p50", "p95", "p99", "p99.9", "max"}


def test_text_for_people(folder, capsys):
    settings = ["--every", "5ms", "--realtime", "--max-lag", "60000"]
    assert main(["stream", str(folder), str(folder / "waving.txt"), *settings]) == 0
    out = capsys.readouterr().out
    assert "ms late" in out
    assert "500 events, " in out
    assert "lag     p50" in out
    assert "dropped 0 events" in out


def test_the_state_is_saved_and_continued(folder, capsys, tmp_path):
    lines = (folder / "waving.txt").read_text().splitlines()
    for name, part in (("a", lines[:200]), ("b", lines[200:])):
        (tmp_path / name).write_text("\n".join(part))
    state = tmp_path / "state.safetensors"
    for name in "ab":
        status, parts, _ = stream(capsys, folder, tmp_path / name, "--every", 300, "--state", state)
        assert status == 0
        assert parts[-1]["summary"]["state"] == str(state)
    _, whole, _ = stream(capsys, folder, folder / "waving.txt", "--every", 500)
    assert parts[-2]["events"] == 500
    np.testing.assert_allclose(parts[-2]["scores"], whole[-2]["scores"], atol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t x y p\n0 1 2 1\n5 99 2 1", "{path}: event 1: x=99 is outside of 0 to 11, the model's sensor is 12×9"),
        ("t x y p\n5 1 2 1\n0 1 2 1", "{path}: event 1: time goes back from 0.005 to 0 ms; sort the events"),
        ("t x y p\n5 1 2 1\noops", "{path}: byte 16: "),
    ],
)
def test_bad_input_is_one_line_with_its_place(folder, capsys, tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_text(content)
    status, _, err = stream(capsys, folder, path)
    assert status == 2
    assert err.startswith(f"s7 stream: {message.format(path=path)}")
    assert err.count("\n") == 1


def test_events_before_an_error_are_in_the_statistics_and_in_the_state(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("s7.live.sources.EVENTS", 4)
    lines = make_lines(10)
    (tmp_path / "cut.txt").write_text("\n".join(["t x y p", *lines[:8], "9000 99 1 1"]))
    state = tmp_path / "state.safetensors"
    status, found, err = stream(capsys, folder, tmp_path / "cut.txt", "--every", 4, "--state", state)
    assert (status, err.count("\n")) == (2, 1)
    assert [line.get("events") for line in found] == [4, 8, None]
    assert found[-1]["summary"]["events"] == 8
    assert s7.Stream.restore(s7.load(folder), state).events == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.raw"], "gone.raw: no such file"),
        (
            ["waving.txt", "--every", "soon"],
            "'soon' is neither a number of events, such as 1000, nor a time, such as 10ms",
        ),
    ],
)
def test_bad_arguments(folder, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    status, _, err = stream(capsys, ".", *arguments)
    assert (status, err) == (2, f"s7 stream: {message}\n")


def test_models_without_times_have_no_pace(capsys, tmp_path):
    s7.save(make_model(s7.LinearEncoder(2), time_unit=None, classes=()), tmp_path)
    (tmp_path / "in.txt").write_text("1 2\n3 4\n")
    status, lines, _ = stream(capsys, tmp_path, tmp_path / "in.txt")
    assert status == 0
    assert [line["events"] for line in lines[:-1]] == [1, 2]
    assert len(lines[0]["outputs"]) == 3
    status, _, err = stream(capsys, tmp_path, tmp_path / "in.txt", "--realtime")
    assert status == 2
    assert err == "s7 stream: --realtime: the model reads events without times; use --every N, a number of events\n"


def test_standard_input_is_read_as_it_arrives_and_ctrl_c_saves_the_state(folder, tmp_path):
    state = tmp_path / "state.safetensors"
    arguments = [*ARGUMENTS, folder, "-", "--every", "2", "--json", "--state", state]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(list(map(str, arguments)), text=True, **pipes) as process:
        process.stdin.write("0 1 1 1\n10 2 2 0\n20 3 3 1\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["events"] == 2
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    lines = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 130
    assert err == "stopping; interrupt again to stop at once\n"
    assert lines[0]["events"] == 3
    assert lines[1]["summary"]["events"] == 3
    assert s7.Stream.restore(s7.load(folder), state).events == 3
