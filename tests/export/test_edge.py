"""Exported models in the C library give the outputs of JAX, and damaged files are refused with their position."""

import json
import zlib
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import s7
from s7 import native
from s7.export.edge import GOLDEN, MODEL, README, answer_points, random_events, write_edge
from s7.export.runtime import EdgeModel, EdgeStream
from tests.edge import fixtures

pytestmark = pytest.mark.skipif(not native.available(), reason="no native kernels")

TOLERANCE = 1e-5


def camera_model(**settings) -> s7.S7Model:
    stages = (s7.Stage(1, 4), s7.Stage(1, 2, pool="time"))
    defaults: dict[str, Any] = {"encoder": s7.EventEncoder((7, 5)), "head": s7.Mean(3), "width": 8, "state": 4}
    return s7.S7Model(stages=stages, form=s7.Factored(rank=3), key=jax.random.key(0), **(defaults | settings))


@pytest.fixture(scope="module")
def camera(tmp_path_factory):
    """A model and the folder it is exported to, with gaps in milliseconds."""
    model = camera_model(time_unit=0.25).with_classes(["a", "ß", "c"])
    folder = tmp_path_factory.mktemp("camera")
    write_edge(model, folder)
    return model, folder


def test_the_files(camera):
    _, folder = camera
    assert sorted(path.name for path in folder.iterdir()) == sorted([MODEL, GOLDEN, README])
    edge = EdgeModel(folder / MODEL)
    assert (edge.outputs, edge.inputs, edge.sensor, edge.classes) == (3, 0, (7, 5), ["a", "ß", "c"])
    assert edge.check(folder / GOLDEN) < TOLERANCE
    readme = (folder / README).read_text()
    assert "7 × 5" in readme
    assert "a, ß, c" in readme
    golden = load_file(folder / GOLDEN)
    assert golden["outputs"].shape == golden["outputs_without_gaps"].shape == (len(golden["at"]), 3)


@pytest.mark.parametrize("name", sorted(path.name for path in fixtures.FOLDER.iterdir()))
def test_models_of_the_repository(name):
    """Model files of earlier versions stay readable."""
    folder = fixtures.FOLDER / name
    assert EdgeModel(folder / MODEL).check(folder / GOLDEN) < TOLERANCE


def test_an_export_is_the_stream(camera):
    model, folder = camera
    events, gaps = random_events(model, 5000, seed=1)
    ours, theirs = EdgeStream(EdgeModel(folder / MODEL)), s7.Stream(model)
    for stream in (ours, theirs):
        stream.push(events, gaps)
    assert ours.events == 5000
    np.testing.assert_array_equal(ours.answer(), theirs.answer())


@pytest.mark.parametrize(("unit", "microseconds"), [("us", 1), ("ms", 1000), ("s", 1_000_000)])
def test_camera_events_are_tokens_and_gaps(tmp_path, unit, microseconds):
    model = camera_model(time_unit=0.25)
    write_edge(model, tmp_path, unit=unit)
    edge = EdgeModel(tmp_path / MODEL)
    random = np.random.default_rng(0)
    x, y = (random.integers(0, side, 700).astype(np.uint16) for side in (7, 5))
    p = random.choice([-1, 0, 1], 700).astype(np.int8)
    t = 1_700_000_000_000_000 + np.cumsum(random.integers(0, 900, 700))
    pixels, tokens = EdgeStream(edge), s7.Stream(model)
    gaps = (np.diff(t, prepend=t[:1]) / microseconds).astype(np.float32)
    for part in (slice(400), slice(400, None)):
        pixels.push_events(x[part], y[part], p[part], t[part])
        tokens.push(s7.tokenize(x[part], y[part], p[part], (7, 5)), gaps[part])
    np.testing.assert_array_equal(pixels.answer(), tokens.answer())


@given(st.integers(1, 300), st.integers(0, 40), st.booleans())
def test_a_restored_stream_continues(cut, rest, timed):
    model, edge = small_model()
    events, gaps = random_events(model, cut + rest)
    whole, first, second = (EdgeStream(edge) for _ in range(3))
    part = lambda start, end: (events[start:end], gaps[start:end] if timed else None)  # noqa: E731
    whole.push(*part(0, None))
    first.push(*part(0, cut))
    second.restore(first.save())
    for stream in (first, second):
        stream.push(*part(cut, None))
    np.testing.assert_array_equal(second.answer(), first.answer())
    np.testing.assert_allclose(second.answer(), whole.answer(), rtol=0, atol=TOLERANCE * np.abs(whole.answer()).max())


@cache
def small_model():
    """The model and the export of the folder with the small models."""
    return fixtures.models()["camera"], EdgeModel(fixtures.FOLDER / "camera" / MODEL)


def rewritten(data: bytes, change=lambda header: None, arrays: bytes | None = None, *, sum_up: bool = True) -> bytes:
    """A file with another header, and a checksum that fits."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    data = len(text).to_bytes(8, "little") + text + (data[8 + size :] if arrays is None else arrays)
    if not sum_up:
        return data
    digits = header["__metadata__"]["crc32"]
    data = data.replace(f'"crc32":"{digits}"'.encode(), b'"crc32":"00000000"')
    return data.replace(b'"crc32":"00000000"', f'"crc32":"{zlib.crc32(data):08x}"'.encode())


def metadata(**entries):
    """A change of the metadata; None removes an entry."""

    def change(header):
        for name, value in entries.items():
            header["__metadata__"].pop(name)
            if value is not None:
                header["__metadata__"][name] = value

    return change


def weights(**entries):
    return lambda header: header["weights"].update(entries)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (metadata(format="s7-golden"), "the format is not s7-edge"),
        (metadata(version="2"), "version 2, this library reads versions up to 1"),
        (metadata(version=None), "the metadata have no version"),
        (metadata(gap_microseconds="-1"), "gap_microseconds is not a positive number"),
        (metadata(gap_microseconds="ten"), "gap_microseconds is not a positive number"),
        (metadata(classes="one\ntwo"), "not one class for each output"),
        (metadata(classes=None), "the metadata have no classes"),
        (weights(dtype="I32"), "weights is I32, expected F32"),
        (weights(shape=[3]), "an array whose size does not fit its shape"),
        (weights(dtype="F16"), "an array of an unknown type"),
        (weights(shape=[2**62, 2**62]), "an array that is larger than the file"),
        (weights(shape=[3.5]), "expected ','"),
        (weights(shape=[-3]), "expected a whole number"),
        (weights(data_offsets=[0, 10**30]), "a number that is too large"),
        (weights(data_offsets=[0, 10**12]), "an array beyond the end"),
        (weights(extra=1), "an unexpected entry of an array"),
        (lambda header: header.pop("settings"), "arrays that overlap or leave a gap"),
        (lambda header: header.update(weight=header.pop("weights")), "there is no array weights"),
        (lambda header: header.update(more={"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}), "overlap"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, change, message):
    data = (fixtures.FOLDER / "camera" / MODEL).read_bytes()
    path = tmp_path / "model"
    path.write_bytes(rewritten(data, change))
    with pytest.raises(ValueError, match=rf"model: byte \d+: .*{message}"):
        EdgeModel(path)


def test_wrong_settings_and_weights_are_refused(tmp_path):
    data = (fixtures.FOLDER / "camera" / MODEL).read_bytes()
    size = int.from_bytes(data[:8], "little")
    path = tmp_path / "model"
    arrays = bytearray(data[8 + size :])
    arrays[8:16] = (0).to_bytes(8, "little")  # the width
    path.write_bytes(rewritten(data, arrays=bytes(arrays)))
    with pytest.raises(ValueError, match=r"model: byte \d+: settings\[1\] or its weights do not fit"):
        EdgeModel(path)
    arrays = bytearray(data[8 + size :])
    arrays[-4:] = np.float32("nan").tobytes()
    path.write_bytes(rewritten(data, arrays=bytes(arrays)))
    with pytest.raises(ValueError, match=r"weights\[\d+\] is not finite"):
        EdgeModel(path)
    path.write_bytes(rewritten(data, arrays=data[8 + size : -1], sum_up=False))
    with pytest.raises(ValueError, match="an array beyond the end"):
        EdgeModel(path)
    with pytest.raises(ValueError, match=r"absent: No such file"):
        EdgeModel(tmp_path / "absent")


def test_what_cannot_be_exported_leaves_no_files(tmp_path):
    with pytest.raises(ValueError, match="bidirectional"):
        write_edge(camera_model(bidirectional=True), tmp_path / "folder")
    with pytest.raises(ValueError, match="line break"):
        write_edge(camera_model().with_classes(["a\nb", "c", "d"]), tmp_path / "folder")
    with pytest.raises(ValueError, match="unit='week' is not one of ns, us"):
        write_edge(camera_model(), tmp_path / "folder", unit="week")
    assert not (tmp_path / "folder").exists()


@given(st.integers(1, 10**6))
def test_answer_points(count):
    points = answer_points(count)
    assert points[0] == 1
    assert points[-1] == count
    assert (np.diff(points) > 0).all()
