"""Irregular time: the answers follow from the clock of the process, and only from it."""

import numpy as np
import pytest

from s7.data.folder import DataFolder
from s7.job import Job
from s7.tasks import irregular_time
from s7.tasks.irregular_time import EVENTS, FREQUENCY, IrregularTime, clock, draw_gaps
from tests.listening import silent

BOTH = pytest.mark.parametrize("informative", [True, False])


def make(kind: str, informative: bool, count: int = 200, seed: int = 3):
    return irregular_time.PROCESSES[kind](count, informative, np.random.default_rng(seed))


def test_gaps_are_exponential_with_a_mean_of_each_sequence():
    gaps = draw_gaps(4000, 4.0, np.random.default_rng(0))
    assert (gaps[:, 0] == 0).all()
    means = gaps[:, 1:].mean(1)
    assert np.exp(np.log(means).mean()) == pytest.approx(1, rel=0.05)
    assert 0.15 < means.min() < 0.35
    assert 3 < means.max() < 7
    relative = gaps[:, 1:] / means[:, None]
    assert np.mean(relative**2) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("kind", irregular_time.PROCESSES)
def test_gaps_do_not_depend_on_whether_they_are_informative(kind):
    with_time, without = make(kind, True), make(kind, False)
    assert with_time.gaps.tobytes() == without.gaps.tobytes()
    both = [(made.inputs.tobytes(), made.answers.tobytes()) for made in (with_time, without)]
    assert both[0] != both[1]


@BOTH
def test_a_sine_of_the_clock_has_the_phase(informative):
    made = make("phase", informative)
    errors = {}
    for by in (True, False):
        ticks = clock(made.gaps, by)
        angles = FREQUENCY * (ticks - ticks[:, -1:])
        # Least squares of a sin + b cos in each sequence.
        waves = np.stack([np.cos(angles), np.sin(angles)], -1)
        fits = np.stack([np.linalg.lstsq(w, x, rcond=None)[0] for w, x in zip(waves, made.inputs[..., 0], strict=True)])
        errors[by] = np.mean((fits - made.answers) ** 2)
    assert errors[informative] < 0.02
    assert errors[not informative] > 0.3


@BOTH
def test_delays_are_counted_by_the_clock(informative):
    made = make("delay", informative)
    ticks = clock(made.gaps, informative)
    assert (made.inputs.sum(-1) == 1).all()
    assert (made.inputs[..., 1:].sum(1) == 1).all()
    places = made.inputs[..., 1:].argmax(1)
    a, b = np.take_along_axis(ticks, places, 1).T
    delays = np.abs(a - b)
    expected = 2 * (places[:, 1] < places[:, 0]) + (delays > np.median(delays))
    assert made.answers.tolist() == expected.tolist()
    assert set(made.answers.tolist()) == {0, 1, 2, 3}


@BOTH
def test_a_decay_has_the_time_constant(informative):
    made = make("decay", informative)
    logs = np.linspace(*np.log(irregular_time.TAU), 40)
    errors = {}
    for by in (True, False):
        # The best of forty time constants, each with its best amplitude.
        curves = np.exp(-clock(made.gaps, by)[:, None] / np.exp(logs)[:, None])
        seen = made.inputs[:, None, :, 0]
        amplitude = (curves * seen).sum(-1, keepdims=True) / (curves**2).sum(-1, keepdims=True)
        best = logs[((seen - amplitude * curves) ** 2).sum(-1).argmin(1)]
        errors[by] = np.mean((best - made.answers[:, 0]) ** 2)
    assert errors[informative] < 0.03
    assert errors[not informative] > 5 * errors[informative]


@pytest.mark.parametrize("kind", irregular_time.PROCESSES)
def test_the_task_is_loaded_and_depends_on_the_seed(kind, monkeypatch):
    monkeypatch.setattr(irregular_time, "SIZES", {"train": 20, "valid": 10, "test": 12})
    problem = IrregularTime(kind, elapsed=True).load(DataFolder(), "strict", silent)
    assert [len(q) for q in (problem.train, problem.valid, problem.test)] == [20, 10, 12]
    assert problem.train.event_shape == problem.encoder.event_shape
    np.testing.assert_allclose(problem.train.inputs[:, -1], np.log1p(problem.train.dt), rtol=1e-5)
    plain = IrregularTime(kind).load(DataFolder(), "strict", silent)
    assert plain.train.event_shape[0] == problem.train.event_shape[0] - 1
    assert plain.train.inputs.tobytes() == problem.train.inputs[:, :-1].tobytes()
    other = IrregularTime(kind, seed=1).load(DataFolder(), "strict", silent)
    assert other.train.digest() != plain.train.digest()
    assert plain.train.lengths.tolist() == [EVENTS] * 20
    problem.objective.check(problem.test)
    assert problem.head.outputs == problem.objective.outputs
    (values,) = problem.baselines.values()
    assert values.keys() <= {"accuracy", "mse", "rmse"}


def test_an_unknown_process_is_refused():
    with pytest.raises(ValueError, match=r"data\.kind='spin' is not one of 'phase', 'delay', 'decay'"):
        Job("irregular-time", settings={"data": {"kind": "spin"}}).check()
