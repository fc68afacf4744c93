"""ONNX files: onnxruntime gives the answers of the model, event by event."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7 import native
from s7.bench.problems import KINDS, train_case
from s7.export.onnx import NEXT, write_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

needs_kernels = pytest.mark.skipif(not native.available(), reason="no native kernels")
POOLED = (s7.Stage(1, 4), s7.Stage(1, 1, width=6), s7.Stage(2, 3, pool="time"), s7.Stage(1, 2, pool="last"))
PRESETS = [*((task, "ours") for task in KINDS), ("dvs-gesture", "paper")]
# Tasks whose models read the whole sequence before the first answer, or compare two sequences.
WITHOUT_STEP = {(task, "ours") for task in ("human-activity", "image", "pathfinder", "path-x", "retrieval")}


def make_model(encoder=s7.TokenEncoder(30), head=s7.Mean(3), width=8, state=4, **settings) -> s7.S7Model:  # noqa: B008
    settings.setdefault("form", s7.Factored(rank=3))
    return s7.S7Model(encoder=encoder, head=head, width=width, state=state, key=jax.random.key(0), **settings)


def data(model: s7.S7Model, length: int) -> tuple[np.ndarray, np.ndarray]:
    random, encoder = np.random.default_rng(0), model.config.encoder
    gaps = (random.exponential(1, length) * (random.random(length) < 0.8)).astype(np.float32)
    if hasattr(encoder, "size"):
        return random.integers(0, encoder.size, length), gaps
    return random.standard_normal((length, *encoder.event_shape), np.float32), gaps


def run(path: Path, events: np.ndarray, gaps: np.ndarray | None) -> np.ndarray:
    """The answers of onnxruntime, one per event."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    shapes = {q.name: q.shape for q in session.get_inputs()}
    assert ("dt" in shapes) == (gaps is not None)
    state = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if name not in ("event", "dt")}
    outputs = ["answer", *(NEXT + name for name in state)]
    answers = []
    for k, event in enumerate(events[:, None] if events.ndim == 1 else events):
        feed = {"event": event, **state} | ({} if gaps is None else {"dt": gaps[k : k + 1]})
        answer, *after = session.run(outputs, feed)
        state = dict(zip(state, after, strict=True))
        answers.append(answer)
    return np.stack(answers)


def steps(model: s7.S7Model, events: np.ndarray, gaps: np.ndarray | None) -> np.ndarray:
    """The answers of `model.step`."""

    @eqx.filter_jit
    def scan(model, events, gaps):
        def step(state, now):
            answer, state = model.step(now[0], state, now[1])
            return state, answer

        return jax.lax.scan(step, model.init_state(), (events, gaps))[1]

    return np.asarray(scan(model, jnp.asarray(events), gaps))


def streamed(model: s7.S7Model, events: np.ndarray, gaps: np.ndarray | None) -> np.ndarray:
    """The answers of `s7.Stream`, which compiles nothing."""
    stream = s7.Stream(model)
    answers = []
    for k, event in enumerate(events):
        stream.push(event, None if gaps is None else gaps[k])
        answers.append(stream.answer())
    return np.stack(answers)


def check(model: s7.S7Model, tmp_path: Path, length: int = 30, timed: bool = True, expect=streamed) -> None:
    write_onnx(model, tmp_path / "step.onnx", gaps=timed)
    events, gaps = data(model, length)
    expected = expect(model, events, gaps if timed else None)
    answers = run(tmp_path / "step.onnx", events, gaps if timed else None)
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("timed", [True, False])
def test_the_answers_are_those_of_the_models_step(timed, tmp_path):
    check(make_model(stages=POOLED), tmp_path, timed=timed, expect=steps)


@needs_kernels
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(
    "transition",
    [
        s7.Stable(gain="variance"),
        s7.Stable(oscillate=True, a=2.0, b=0.75, gain="variance"),
        s7.Plain(gain="variance", selective=False),
        s7.Step(selective=False),
        s7.Step(held=True),
        s7.Ring(selective=True),
    ],
    ids=str,
)
def test_every_transition(transition, timed, tmp_path):
    check(make_model(transition=transition, depth=1), tmp_path, 12, timed)


@needs_kernels
@pytest.mark.parametrize(
    "settings",
    [
        {"form": s7.Full(D="full"), "norm": "rms", "transition": s7.Stable(oscillate=True)},
        {"form": s7.Full(selective="C", bias=False), "norm": "none", "gate": False},
        {"form": s7.Static(D="diagonal"), "norm_place": "after", "head": s7.Last(2)},
        {"form": s7.Factored(rank=3, D="static"), "skip": False, "head": s7.PerStep(1)},
        {"stages": POOLED, "head": s7.TimeMean(2, mean=1.0, scale=(2.0, 3.0)), "time_unit": 2.0},
        {"stages": POOLED, "gaps": "mixed", "time_unit": 2.0},
        {"encoder": s7.EventEncoder((5, 4)), "depth": 1},
        {"encoder": s7.LinearEncoder(3, mean=(1.0, 0.0, -2.0), scale=2.0), "depth": 1},
        {"encoder": s7.DenseEncoder((3, 2), hidden=5, scale=2.0), "depth": 1},
        {"encoder": s7.ImageEncoder((9, 11, 2), channels=3, scale=2.0), "depth": 1},
    ],
    ids=str,
)
def test_every_part(settings, tmp_path):
    check(make_model(**settings), tmp_path)


@needs_kernels
def test_batch_norm_uses_its_running_statistics(tmp_path):
    model = make_model(norm="batch", depth=1)
    mean, spread = (jax.random.normal(key, (8,), jnp.float32) for key in jax.random.split(jax.random.key(3)))
    check(model.with_moments(tuple(type(m)(mean, spread**2 + 0.1) for m in model.moments if m)), tmp_path)


@pytest.mark.parametrize(("task", "preset"), PRESETS)
def test_every_preset_that_can_stream_has_a_file(task, preset, tmp_path):
    model = s7.S7Model(train_case(task, preset).config, key=jax.random.key(0))
    path = tmp_path / "step.onnx"
    if (task, preset) in WITHOUT_STEP:
        with pytest.raises(ValueError, match=r"has no step|cannot be exported"):
            write_onnx(model, path)
        assert not path.exists()
        return
    write_onnx(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].name == "answer"
    assert ("dt" in [q.name for q in session.get_inputs()]) == (model.config.time_unit is not None)


@needs_kernels
@pytest.mark.parametrize("task", ["nmnist", "fitzhugh-nagumo"])
def test_ten_thousand_events_of_a_preset(task, tmp_path):
    model = s7.S7Model(train_case(task, "ours").config, key=jax.random.key(0))
    write_onnx(model, tmp_path / "step.onnx")
    events, gaps = data(model, 10_000)
    gaps = None if model.config.time_unit is None else gaps
    stream = s7.Stream(model)
    stream.push(events, gaps)
    answers = run(tmp_path / "step.onnx", events, gaps)
    np.testing.assert_allclose(answers[-1], stream.answer(), rtol=0, atol=1e-5 * np.abs(answers).max())


def test_gaps_follow_from_the_model(tmp_path):
    path = tmp_path / "step.onnx"

    def inputs(**settings):
        gaps = settings.pop("asked", None)
        write_onnx(make_model(depth=1, **settings), path, gaps=gaps)
        return [q.name for q in onnx.load(path).graph.input]

    assert "dt" not in inputs()
    assert "dt" in inputs(time_unit=2.0)
    assert "dt" in inputs(asked=True)
    assert "dt" not in inputs(time_unit=2.0, asked=False)
    assert "dt" not in inputs(gaps="ignored", asked=True)
    model = make_model(depth=1, gaps="ignored", dt=0.5, time_unit=2.0)
    write_onnx(model, path)
    events, _ = data(model, 9)
    np.testing.assert_allclose(run(path, events, None), steps(model, events, None), rtol=0, atol=1e-5)


def test_names_of_classes_are_in_the_file(tmp_path):
    write_onnx(make_model(depth=1).with_classes(["a", "b", "c"]), tmp_path / "step.onnx")
    found = {q.key: json.loads(q.value) for q in onnx.load(tmp_path / "step.onnx").metadata_props}
    assert found["classes"] == ["a", "b", "c"]
    assert found["state"] == ["blocks.0.x", "head.mean", "head.weight", "head.number"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bidirectional": True}, "a bidirectional model has no step"),
        ({"head": s7.Retrieval()}, "the Retrieval head compares two sequences"),
        ({"dtype": "float64"}, "written for float32 models, this one is float64"),
    ],
)
def test_models_without_a_step_are_rejected(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_onnx(make_model(depth=1, **settings), tmp_path / "step.onnx")
    assert not list(tmp_path.iterdir())


def test_parts_from_elsewhere_are_rejected(tmp_path):
    class Faster(s7.Stable):
        pass

    with pytest.raises(ValueError, match="the transition Faster cannot be written as ONNX"):
        write_onnx(make_model(depth=1, transition=Faster()), tmp_path / "step.onnx")
