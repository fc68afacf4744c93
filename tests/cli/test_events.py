"""`s7 events`."""

import json

import numpy as np
import pytest

import s7
from s7.cli.main import main
from s7.events.container import Events
from tests.events.streams import assert_same


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    t = np.sort(rng.integers(5_000, 105_000, 500))
    t[100] = t[99] - 3
    events = Events(rng.integers(0, 40, 500), rng.integers(0, 30, 500), t, rng.integers(0, 2, 500), (40, 30))
    return s7.write_events(tmp_path / "a.raw", events)


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_info_describes_a_file(file, capsys):
    assert main(["events", "info", str(file)]) == 0
    title, *rest = lines(capsys)
    about = dict(line.strip().split(maxsplit=1) for line in rest)
    assert title == str(file)
    assert about["format"] == "evt3 (Prophesee EVT 3.0 (.raw))"
    assert about["sensor"] == "40×30 pixels"
    assert about["events"] == "500"
    assert about["positions"] == "x up to 39, y up to 29"
    assert about["order"] == "time goes back once"
    assert main(["events", "info", str(file), "--json"]) == 0
    (line,) = lines(capsys)
    found = json.loads(line)
    events = s7.read_events(file, unordered="ignore")
    assert (found["format"], found["sensor"], found["events"], found["decreases"]) == ("evt3", [40, 30], 500, 1)
    assert found["brighter"] == events.p.mean()
    assert found["rate"] == pytest.approx(500 / found["seconds"])
    assert (found["start"], found["end"]) == (events.t.min(), events.t.max())


def test_a_file_without_events_is_described(tmp_path, capsys):
    path = s7.write_events(tmp_path / "a.dat", Events.empty((4, 5)))
    assert main(["events", "info", str(path)]) == 0
    assert lines(capsys)[-2:] == ["  sensor       4×5 pixels", "  events       0"]
    assert main(["events", "view", str(path)]) == 2


@pytest.mark.parametrize("ending", [".csv", ".npz", ".dat", ".evt2", ".aedat2"])
def test_files_are_converted(ending, file, tmp_path, capsys):
    out = tmp_path / f"b{ending}"
    assert main(["events", "convert", str(file), str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"500 events: {out}\n"
    assert printed.err.startswith(f"s7 events: {file}: time goes back once at event 100, from ")
    events = s7.read_events(file, unordered="ignore")
    sensor = (128, 128) if ending == ".aedat2" else (40, 30)
    assert_same(s7.read_events(out, unordered="ignore"), Events(events.x, events.y, events.t, events.p, sensor))


def test_times_can_start_at_zero_and_decreases_can_be_rejected(file, tmp_path, capsys):
    out = tmp_path / "b.txt"
    arguments = ["events", "convert", str(file), str(out)]
    assert main([*arguments, "--format", "dat", "--from-zero", "--sensor", "50x40", "--json"]) == 0
    assert json.loads(lines(capsys)[0]) == {
        "path": str(out),
        "bytes": out.stat().st_size,
        "events": 500,
        "decreases": 1,
    }
    found = s7.read_events(out, unordered="ignore")
    assert (found.t[0], found.sensor) == (0, (50, 40))
    out.unlink()
    assert main([*arguments, "--reject-unordered"]) == 2
    assert "time goes back at event 100" in capsys.readouterr().err
    assert not out.exists()


def test_pictures_are_drawn(file, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    assert main(["events", "view", str(file)]) == 0
    assert lines(capsys) == [f"500 events: {file}.png"]
    with image.open(f"{file}.png") as picture:
        assert min(picture.size) > 300
        colours = {colour for _, colour in picture.convert("RGB").getcolors(10**6)}
    assert len(colours) > 10
    out = tmp_path / "a.gif"
    assert main(["events", "view", str(file), "--out", str(out), "--every", "20", "--duration", "0.05", "--json"]) == 0
    assert json.loads(lines(capsys)[0]) == {"path": str(out), "images": 3}
    with image.open(out) as picture:
        assert picture.n_frames == 3


def test_channels_are_drawn_over_time(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = s7.write_events(tmp_path / "a.npz", Events([3, 600], [0, 0], [1, 2], [0, 0], (700, 1)))
    assert main(["events", "view", str(path), "--out", str(tmp_path / "a.png")]) == 0
    assert lines(capsys) == [f"2 events: {tmp_path / 'a.png'}"]
    assert main(["events", "view", str(path), "--out", str(tmp_path / "a.gif")]) == 2
    assert "are drawn over time; write a .png" in capsys.readouterr().err
    assert main(["events", "info", str(path)]) == 0
    assert not [line for line in lines(capsys) if "polarity" in line]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "none.raw"], "none.raw: No such file or directory"),
        (["info", "FOLDER"], "is a folder; give a file"),
        (["info", "FILE", "--input-format", "evt5"], "no event format 'evt5'; did you mean"),
        (["info", "FILE", "--recording", "1"], "holds 1 recording; there is no recording 1"),
        (["convert", "FILE", "a.jpg"], "a.jpg: no format is written under this name; use one of"),
        (["view", "FILE", "--out", "a.jpg"], "a.jpg: the name of a picture must end in .png or .gif"),
        (["view", "FILE", "--start", "5"], "--start: 5 s are after the last event, at 0.09"),
        (["view", "FILE", "--out", "a.gif", "--every", "0.001"], "--every: more than 2,000 images"),
        (["view", "FILE", "--sensor", "5"], "--sensor: expected a width and a height, such as 640x480, not '5'"),
    ],
)
def test_errors_are_one_line(arguments, message, file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [{"FILE": str(file), "FOLDER": str(tmp_path)}.get(word, word) for word in arguments]
    assert main(["events", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_damaged_file_names_the_position(file, capsys):
    file.write_bytes(file.read_bytes()[:-1])
    assert main(["events", "info", str(file)]) == 2
    assert (
        capsys.readouterr().err
        == f"s7 events: {file}: byte {file.stat().st_size}: cut off inside of an event; get it again\n"
    )
