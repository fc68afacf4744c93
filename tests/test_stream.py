"""`s7.Stream` gives the outputs of its model, rejects invalid events, and can be copied, saved and restored."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import native
from s7.baselines.lstm import Lstm
from s7.export.edge import in_double
from s7.stream import Stream

pytestmark = pytest.mark.skipif(not native.available(), reason="no native kernels")

TOLERANCE = 1e-5
TOKENS = s7.TokenEncoder(30)
MEAN = s7.Mean(3)
POOLED = (s7.Stage(1, 4), s7.Stage(1, 1, width=6), s7.Stage(2, 3, pool="time"))


def make_model(seed=0, encoder=TOKENS, head=MEAN, width=8, state=4, **settings) -> s7.S7Model:
    settings.setdefault("form", s7.Factored(rank=3))
    return s7.S7Model(encoder=encoder, head=head, width=width, state=state, key=jax.random.key(seed), **settings)


def random_events(encoder, length: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if hasattr(encoder, "size"):
        return random.integers(0, encoder.size, length).astype(np.int32)
    return random.standard_normal((length, *encoder.event_shape)).astype(np.float32)


def random_gaps(length: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed + 1)
    return (random.exponential(1, length) * (random.random(length) < 0.8)).astype(np.float32)


# Compiling a whole model takes a tenth of the time of compiling its operations one by one.
call = eqx.filter_jit(lambda model, events, dt: model(events, dt))


def expected(model: s7.S7Model, events, dt=None) -> np.ndarray:
    answer = np.asarray(call(model, events, dt))
    return answer[-1] if model.config.head.per_step else answer


def push_in_parts(stream: Stream, events, dt, cuts=(0.3, 0.4)) -> None:
    """A third in an array, a few one by one, the rest in an array."""
    first, second = (int(len(events) * cut) for cut in cuts)
    gaps = [None] * len(events) if dt is None else dt
    part = lambda a, b: None if dt is None else dt[a:b]  # noqa: E731
    stream.push(events[:first], part(0, first))
    for event, gap in zip(events[first:second], gaps[first:second], strict=True):
        stream.push(event, gap)
    stream.push(events[second:], part(second, None))


def assert_close(answer, wanted, tolerance=TOLERANCE) -> None:
    np.testing.assert_allclose(answer, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def check(model: s7.S7Model, length: int = 41, timed: bool = True) -> None:
    events = random_events(model.config.encoder, length)
    dt = random_gaps(length) if timed else None
    stream = Stream(model)
    push_in_parts(stream, events, dt)
    assert stream.events == length
    assert_close(stream.answer(), expected(model, events, dt))


TRANSITIONS = [
    *(s7.Stable(gain=gain, oscillate=oscillate) for gain in (None, "rate", "variance") for oscillate in (False, True)),
    s7.Stable(a=2.0, b=0.75, selective=False),
    *(s7.Plain(gain=gain, selective=False) for gain in (None, "rate", "variance")),
    *(s7.Step(held=held, selective=selective) for held in (False, True) for selective in (False, True)),
    s7.Ring(),
    s7.Ring(selective=True),
]
FORMS = [
    s7.Full(D="full"),
    s7.Full(D="static", selective="B"),
    s7.Full(selective="C", bias=False),
    s7.Factored(rank=5, D="full"),
    s7.Factored(rank=17, D="static", selective="C"),
    s7.Factored(rank=5, selective="B"),
    s7.Static(),
    s7.Static(D="diagonal"),
    s7.Static(D="full"),
]
ENCODERS = [
    TOKENS,
    s7.EventEncoder((5, 4)),
    s7.EventEncoder((4, 5), token=False),
    s7.LinearEncoder(3, mean=(1.0, 0.0, -2.0), scale=2.0),
    s7.DenseEncoder((3, 2), hidden=5, scale=2.0),
    s7.ImageEncoder((9, 11, 2), channels=3, scale=2.0),
]
HEADS = [s7.Mean(3), s7.TimeMean(2, mean=1.0, scale=(2.0, 3.0)), s7.Last(18), s7.PerStep(1)]


@pytest.mark.parametrize("transition", TRANSITIONS, ids=str)
def test_every_transition(transition):
    check(make_model(transition=transition, stages=POOLED), timed=True)


@pytest.mark.parametrize("transition", [s7.Stable(), s7.Stable(oscillate=True), s7.Step(), s7.Ring()], ids=str)
def test_regular_time(transition):
    check(make_model(transition=transition, stages=POOLED), timed=False)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form(form):
    check(make_model(form=form, width=11, state=5, depth=2, transition=s7.Stable(oscillate=form.bias)))


@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
def test_every_encoder(encoder):
    check(make_model(encoder=encoder, depth=1))


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_every_head(head):
    check(make_model(head=head, stages=POOLED))
    check(make_model(head=head, depth=1), timed=False)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch", "none"])
def test_every_norm(norm, place):
    model = make_model(norm=norm, norm_place=place, depth=2, width=18)
    if norm == "batch":
        random = jax.random.split(jax.random.key(3))
        mean, spread = (jax.random.normal(key, (18,), jnp.float32) for key in random)
        model = model.with_moments(tuple(type(m)(mean, spread**2 + 0.1) for m in model.moments))
    check(model)


@settings(max_examples=12)
@given(
    st.sampled_from(TRANSITIONS),
    st.sampled_from(FORMS),
    st.sampled_from(["layer", "rms", "none"]),
    st.sampled_from(["before", "after"]),
    st.booleans(),
    st.booleans(),
    st.lists(
        st.builds(
            s7.Stage,
            depth=st.integers(1, 2),
            stride=st.integers(1, 5),
            width=st.sampled_from([None, 5, 20]),
            pool=st.sampled_from(["last", "mean", "time"]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(HEADS),
    st.booleans(),
    st.integers(1, 40),
)
def test_any_combination(transition, form, norm, place, gate, skip, stages, head, timed, length):
    model = make_model(
        transition=transition,
        form=form,
        norm=norm,
        norm_place=place,
        gate=gate,
        skip=skip,
        stages=tuple(stages),
        head=head,
    )
    check(model, length, timed)


@pytest.mark.parametrize(
    "settings",
    [
        {"stages": (s7.Stage(1, 16, pool="time"), s7.Stage(1, 4)), "transition": s7.Stable(tau=(1.0, 200.0))},
        {"depth": 2, "transition": s7.Stable(oscillate=True), "form": s7.Full()},
        {"depth": 2, "transition": s7.Step(held=True), "head": s7.TimeMean(3)},
    ],
)
def test_long_streams_do_not_drift(settings):
    model = make_model(**settings)
    length = 20_000
    events, dt = random_events(TOKENS, length), random_gaps(length)
    stream = Stream(model)
    push_in_parts(stream, events, dt, cuts=(0.5, 0.51))
    answer = stream.answer()
    assert_close(answer, expected(model, events, dt))
    assert_close(answer, expected(in_double(model), events, dt))


@pytest.mark.parametrize("together", [16, 1])
def test_sums_of_many_products_are_exact(together):
    """Each output of this layer is the sum of two thousand products. Added one after the other, they lose a digit."""
    model = make_model(encoder=s7.LinearEncoder(8), head=s7.PerStep(16), width=48, state=16, form=s7.Full(D="full"))
    events = random_events(model.config.encoder, 16)
    stream = Stream(model)
    for first in range(0, 16, together):
        stream.push(events[first : first + together])
    wanted = expected(in_double(model), events)
    assert np.linalg.norm(stream.answer() - wanted) <= 3e-7 * np.linalg.norm(wanted)


def test_step_and_chunk_give_the_same():
    model = make_model(stages=POOLED)
    events, dt = random_events(TOKENS, 12), random_gaps(12)
    stream, state = Stream(model), model.init_state()
    step = jax.jit(lambda event, state, gap: model.step(event, state, gap))
    for event, gap in zip(events, dt, strict=True):
        stream.push(event, gap)
        answer, state = step(event, state, gap)
        assert_close(stream.answer(), answer)
    answer, _ = eqx.filter_jit(lambda: model.chunk(events, state, dt))()
    stream.push(events, dt)
    assert_close(stream.answer(), answer)


def test_answers_do_not_change_the_state():
    model = make_model(stages=POOLED)
    events, dt = random_events(TOKENS, 60), random_gaps(60)
    whole, parts = Stream(model), Stream(model)
    for event, gap in zip(events, dt, strict=True):
        whole.push(event, gap)
        parts.push(event, gap)
        parts.answer()
    np.testing.assert_array_equal(whole.answer(), parts.answer())
    np.testing.assert_array_equal(whole.answer(), whole.answer())


@pytest.mark.parametrize("width", [5, 32, 100])
@pytest.mark.parametrize("form", [s7.Full(D="full"), s7.Factored(rank=20)], ids=str)
def test_arrays_and_single_events_give_the_same(form, width):
    """Arrays are computed in tiles of events, whatever is left over in smaller ones."""
    model = make_model(form=form, width=width, state=20, depth=2, head=s7.PerStep(3))
    events, dt = random_events(TOKENS, 45), random_gaps(45)
    single, several = Stream(model), Stream(model)
    for event, gap in zip(events, dt, strict=True):
        single.push(event, gap)
    for first, last in ((0, 2), (2, 5), (5, 20), (20, 45)):
        several.push(events[first:last], dt[first:last])
    assert_close(several.answer(), single.answer())


def test_the_answer_before_the_first_event_is_that_of_an_empty_state():
    for model in (make_model(depth=1), make_model(stages=POOLED)):
        assert_close(Stream(model).answer() + 1, np.asarray(eqx.filter_jit(model.readout)(model.init_state())) + 1)


@pytest.mark.parametrize("settings", [{"dt": 0.5}, {"gaps": "ignored"}, {"gaps": "ignored", "dt": 2.0}])
def test_gaps_that_are_assumed_or_ignored(settings):
    model = make_model(depth=1, **settings)
    events, dt = random_events(TOKENS, 20), random_gaps(20)
    for gaps in (None, dt):
        stream = Stream(model)
        stream.push(events, gaps)
        assert_close(stream.answer(), expected(model, events, gaps))


def test_the_unit_of_time():
    model = make_model(stages=POOLED, time_unit=250.0)
    events, dt = random_events(TOKENS, 300), 250 * random_gaps(300)
    stream = Stream(model)
    push_in_parts(stream, events, dt)
    assert_close(stream.answer(), expected(model, events, dt))


def test_a_large_vocabulary_is_computed_event_by_event(monkeypatch):
    """A table of 300,000 tokens would take more than 64 MB; the numbers are the same without it."""
    model = make_model(encoder=s7.EventEncoder((500, 300), token=False), width=48, depth=1)
    stream = Stream(model)
    assert stream._packed.library.s7_model_table_rows(stream._packed.handle) == 0
    events = random_events(model.config.encoder, 9)
    stream.push(events)
    assert_close(stream.answer(), expected(model, events))
    small = Stream(make_model())
    assert small._packed.library.s7_model_table_rows(small._packed.handle) == 30


# Rejected inputs.


@cache
def token_model() -> s7.S7Model:
    return make_model(encoder=s7.EventEncoder((5, 4)), stages=(s7.Stage(1, 3),))


@cache
def vector_model() -> s7.S7Model:
    return make_model(encoder=s7.LinearEncoder(2), depth=1)


@pytest.mark.parametrize(
    ("make", "events", "dt", "error", "message"),
    [
        (token_model, 40, 1.0, ValueError, r"event = 40 is outside of 0 to 39, a sensor of 5×4"),
        (token_model, -1, 1.0, ValueError, r"event = -1 is outside"),
        (token_model, 2**70, 1.0, ValueError, r"is outside of 0 to 39"),
        (token_model, np.array([1, 40, 2]), np.ones(3), ValueError, r"events\[1\] = 40 is outside of 0 to 39"),
        (token_model, np.array([1, 2, 40], np.uint8), np.ones(3), ValueError, r"events\[2\] = 40 is outside"),
        (token_model, np.array([1, 2**33], np.int64), np.ones(2), ValueError, r"events\[1\] = 8589934592 is outside"),
        (token_model, 3, -0.5, ValueError, r"dt = -0.5 is negative"),
        (token_model, 3, np.float32("nan"), ValueError, r"dt = nan is not finite"),
        (token_model, [3, 4], [0.0, np.inf], ValueError, r"dt\[1\] = inf is not finite"),
        (token_model, [3, 4], [0.0, 1e300], ValueError, r"dt\[1\] = 1e\+300 is not finite"),
        (token_model, [3, 4], [-1.0, 0.0], ValueError, r"dt\[0\] = -1.0 is negative"),
        (token_model, [3, 4], [1.0], ValueError, r"dt has shape \(1,\), expected \(2,\)"),
        (token_model, [3, 4], 1.0, ValueError, r"dt has shape \(\), expected \(2,\)"),
        (token_model, 3, np.ones(2), ValueError, r"dt has shape \(2,\), expected one gap"),
        (token_model, 3, None, ValueError, r"dt is missing: the earlier events"),
        (token_model, 1.5, 1.0, ValueError, r"events have shape \(\), expected \(\) for one token or \(length,\)"),
        (token_model, [1.5], [1.0], TypeError, r"tokens must be whole numbers, not float64"),
        (token_model, [[1], [2]], [1.0, 1.0], ValueError, r"events have shape \(2, 1\)"),
        (vector_model, [1.0, np.nan], 1.0, ValueError, r"event is not finite: nan at \[1\]"),
        (vector_model, [[1.0, 2.0], [np.inf, 3.0]], [1.0, 1.0], ValueError, r"events\[1\] is not finite: inf at \[0\]"),
        (vector_model, [1.0, 2.0, 3.0], 1.0, ValueError, r"events have shape \(3,\), expected \(2,\) for one event or"),
        (vector_model, [1.0, 2.0], -1.0, ValueError, r"dt = -1.0 is negative"),
    ],
)
def test_invalid_events_do_not_change_the_state(make, events, dt, error, message):
    model = make()
    stream = Stream(model)
    good = random_events(model.config.encoder, 4)
    stream.push(good, random_gaps(4))
    before, count = stream.answer(), stream.events
    with pytest.raises(error, match=message):
        stream.push(events, dt)
    assert stream.events == count
    np.testing.assert_array_equal(stream.answer(), before)
    stream.push(good, random_gaps(4))
    twice = Stream(model)
    for _ in range(2):
        twice.push(good, random_gaps(4))
    np.testing.assert_array_equal(stream.answer(), twice.answer())


def test_a_stream_without_gaps_stays_without():
    stream = Stream(token_model())
    stream.push(1)
    with pytest.raises(ValueError, match="dt is given, but the earlier events of this stream had no gaps"):
        stream.push(1, 1.0)
    stream.push([])
    stream.push(np.array(2))
    assert stream.events == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bidirectional": True}, "cannot run a bidirectional model"),
        ({"layer": Lstm()}, "runs S7 layers, not Lstm; model.step"),
        ({"head": s7.Retrieval()}, "reads one sequence, the Retrieval head compares two"),
        ({"dtype": "float64"}, "computes in float32, the model is float64; model.step"),
    ],
)
def test_models_that_cannot_stream_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        Stream(make_model(depth=1, **settings))


def test_other_objects_are_rejected(as_users_see_it):
    with pytest.raises(TypeError, match=r"takes an S7Model, not a str; s7.Stream.load"):
        Stream("runs/gesture")


def test_a_subclass_of_a_transition_is_not_treated_as_its_base():
    class Faster(s7.Stable):
        def rate(self, w):
            return 2 * super().rate(w)

    with pytest.raises(ValueError, match=r"has no transition Faster \(it has Stable, Plain, Step, Ring\)"):
        Stream(make_model(depth=1, transition=Faster()))


# Copies and files.


def test_a_copy_is_independent():
    model = make_model(stages=POOLED)
    events, dt = random_events(TOKENS, 30), random_gaps(30)
    stream = Stream(model)
    stream.push(events[:10], dt[:10])
    twin = stream.copy()
    before = twin.answer()
    stream.push(events[10:], dt[10:])
    np.testing.assert_array_equal(twin.answer(), before)
    twin.push(events[10:], dt[10:])
    np.testing.assert_array_equal(twin.answer(), stream.answer())
    twin.reset()
    assert twin.events == 0
    np.testing.assert_array_equal(twin.answer(), Stream(model).answer())


@pytest.mark.parametrize("head", [s7.TimeMean(3), s7.PerStep(3)])
@pytest.mark.parametrize("transition", [s7.Stable(), s7.Step()])
def test_a_saved_stream_continues_bit_equal(tmp_path, head, transition):
    model = make_model(stages=POOLED, head=head, transition=transition)
    events, dt = random_events(TOKENS, 50), random_gaps(50)
    stream = Stream(model)
    stream.push(events[:23], dt[:23])
    path = stream.save(tmp_path / "stream.safetensors")
    again = Stream.restore(model, path)
    assert again.events == 23
    for one in (stream, again):
        one.push(events[23:], dt[23:])
    np.testing.assert_array_equal(again.answer(), stream.answer())
    with pytest.raises(ValueError, match="dt is missing"):
        again.push(1)


def test_a_stream_can_be_saved_and_copied_between_any_two_events(tmp_path):
    """Also between the end of a window and the events at which the blocks above it are computed."""
    model = make_model(stages=(s7.Stage(1, 2), s7.Stage(3), s7.Stage(1, 3)))
    events, dt = random_events(TOKENS, 17), random_gaps(17)
    undisturbed, saved, copied = Stream(model), Stream(model), Stream(model)
    for event, gap in zip(events, dt, strict=True):
        saved = Stream.restore(model, saved.save(tmp_path / "stream.safetensors"))
        copied = copied.copy()
        for stream in (undisturbed, saved, copied):
            stream.push(event, gap)
    assert_close(undisturbed.answer(), expected(model, events, dt))
    np.testing.assert_array_equal(saved.answer(), undisturbed.answer())
    np.testing.assert_array_equal(copied.answer(), undisturbed.answer())


def test_a_stream_of_another_model_is_rejected(tmp_path):
    model = make_model(depth=1)
    stream = Stream(model)
    stream.push([1, 2, 3])
    path = stream.save(tmp_path / "stream.safetensors")
    with pytest.raises(ValueError, match=r"stream.safetensors: the stream is of a model with another configuration"):
        Stream.restore(make_model(depth=2), path)
    with pytest.raises(ValueError, match=r"stream.safetensors: the stream is of a model with other parameters"):
        Stream.restore(make_model(seed=1, depth=1), path)
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        Stream.restore(model, tmp_path / "elsewhere")


def test_a_stream_of_a_saved_model(tmp_path):
    model = make_model(depth=1)
    s7.save(model, tmp_path)
    stream = s7.Stream.load(tmp_path)
    events = random_events(TOKENS, 10)
    stream.push(events)
    assert_close(stream.answer(), expected(model, events))


def test_streams_in_many_threads_share_a_model():
    model = make_model(stages=POOLED)
    first = Stream(model)
    streams = [first, *(first.copy() for _ in range(7))]

    def run(number: int) -> np.ndarray:
        events, dt = random_events(TOKENS, 3000, number), random_gaps(3000, number)
        streams[number].push(events, dt)
        for event, gap in zip(events[:200], dt[:200], strict=True):
            streams[number].push(event, gap)
        return streams[number].answer()

    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(run, range(8)))
    streams = [Stream(model) for _ in range(8)]
    for number, answer in enumerate(together):
        np.testing.assert_array_equal(answer, run(number))


def test_a_timedelta_as_gap_is_rejected():
    stream = Stream(make_model(stages=POOLED))
    with pytest.raises(TypeError, match=r"dt is .*expected a number; convert times with s7\.gaps"):
        stream.push(1, np.timedelta64(1, "s"))
    assert stream.events == 0
