"""Files of all formats, and standard input."""

import os
from contextlib import ExitStack

import numpy as np
import pytest

import s7
from s7.live import sources
from s7.live.inputs import Inputs
from s7.live.sources import open_source

from .conftest import SENSOR, make_lines, make_model, make_records

FORMATS = ("recording.raw", "recording.dat", "recording.csv", "recording.npz", "recording.aedat")


@pytest.fixture
def pipe(monkeypatch):
    """Puts bytes into standard input."""

    with ExitStack() as stack:

        def fill(*parts: bytes) -> None:
            reader, writer = os.pipe()
            with os.fdopen(writer, "wb") as file:
                file.write(b"".join(parts))
            monkeypatch.setattr("sys.stdin", stack.enter_context(os.fdopen(reader)))

        yield fill


def tokens_and_times(batches) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches)
    return np.concatenate([batch.events for batch in batches]), np.concatenate([batch.times for batch in batches])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("piped", [False, True], ids=["file", "standard input"])
def test_every_format_is_read_from_files_and_standard_input(inputs, tmp_path, pipe, name, piped):
    records = make_records(500)
    path = tmp_path / name
    s7.write_events(path, s7.Events(records["x"], records["y"], records["t"], records["p"], sensor=SENSOR))
    if piped:
        pipe(path.read_bytes())
    tokens, times = tokens_and_times(open_source("-" if piped else str(path), inputs))
    expected = inputs.of_records(records, str)
    np.testing.assert_array_equal(tokens, expected.events)
    np.testing.assert_array_equal(times, expected.times)


def test_lines_on_standard_input(inputs, pipe):
    lines = make_lines(30)
    pipe(b"# t x y p\n", "\n".join(lines).encode())
    tokens, times = tokens_and_times(open_source("-", inputs))
    rows = np.array([line.split() for line in lines], np.int64)
    np.testing.assert_array_equal(tokens, s7.tokenize(rows[:, 1], rows[:, 2], rows[:, 3], sensor=SENSOR))
    np.testing.assert_array_equal(times, rows[:, 0] / 1000)


def test_channels_of_a_cochlea_are_tokens(tmp_path):
    inputs = Inputs.of(make_model(s7.TokenEncoder(40)).config)
    path = tmp_path / "spikes.npz"
    s7.write_events(path, s7.Events([3, 39], [0, 0], [10, 2000], [1, 1], sensor=(40, 1)))
    tokens, times = tokens_and_times(open_source(str(path), inputs))
    assert (tokens.tolist(), times.tolist()) == ([3, 39], [0.01, 2.0])
    path = tmp_path / "lines"
    path.write_text("0.5 3\n0.75 39\n")
    tokens, times = tokens_and_times(open_source(str(path), inputs))
    assert (tokens.tolist(), times.tolist()) == ([3, 39], [0.5, 0.75])


def test_events_are_counted_over_batches(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "EVENTS", 10)
    records = make_records(25)
    records["x"][17] = 12
    path = tmp_path / "recording.raw"
    s7.write_events(path, s7.Events(records["x"], records["y"], records["t"], records["p"], sensor=(20, 20)))
    with pytest.raises(ValueError, match=r"^client\.raw: event 17: x=12 is outside of 0 to 11, the model's sensor is"):
        list(open_source(str(path), inputs, "client.raw"))


def test_times_that_go_back_can_be_clipped(inputs, pipe):
    pipe(b"5 1 1 1\n3 1 1 1\n4 1 1 1\n9 1 1 1\n8 1 1 1\n")
    _, times = tokens_and_times(open_source("-", inputs, clip=True))
    np.testing.assert_allclose(times, [0.005, 0.005, 0.005, 0.009, 0.009])


@pytest.mark.parametrize("content", [b"", b"\x00\x01garbage", b"% Prophesee"])
def test_damaged_input_is_an_error_of_one_line(inputs, tmp_path, pipe, content):
    pipe(content)
    with pytest.raises(ValueError, match=r"^standard input: ") as error:
        list(open_source("-", inputs))
    assert "\n" not in str(error.value)
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"/x: ") as error:
        list(open_source(str(path), inputs))
    assert "\n" not in str(error.value)


def test_models_of_numbers_read_lines_only(tmp_path):
    inputs = Inputs.of(make_model(s7.LinearEncoder(2), time_unit=None).config)
    path = tmp_path / "in.csv"
    path.write_text("1,2\n3,4\n")
    (batch,) = open_source(str(path), inputs)
    np.testing.assert_array_equal(batch.events, [[1, 2], [3, 4]])
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_source(str(tmp_path / "gone"), inputs)
