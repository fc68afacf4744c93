"""Augmentation: the effect of each setting, and properties that hold for all settings."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.data.batching import Buckets
from s7.data.loader import Loader
from s7.data.samples import Samples
from s7.events.augmentation import (
    EventAugmentation,
    EventAugmenter,
    Move,
    add_noise,
    draw_move,
    drop_chunk,
    drop_events,
    fade_events,
    jitter_events,
    jitter_time,
    mix,
    move_events,
    skew_time,
    trim_events,
    warp_events,
)
from s7.events.recordings import Recording, Sensor
from s7.settings import build, from_assignments, table_of

CAMERA = Sensor(16, 16)
CHANNELS = Sensor(700, 1, 1)
CLASSES = 5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def frozen(array):
    """An array that no part can write to."""
    array.flags.writeable = False
    return array


def recording(count, sensor=CAMERA, seed=0):
    """Events anywhere on a sensor; several have the same time."""
    rng = np.random.default_rng(seed)
    x, y, p = (rng.integers(limit, size=count) for limit in (sensor.width, sensor.height, sensor.polarities))
    return Recording(*map(frozen, (x, y, p, np.sort(rng.integers(count, size=count)) / 4)))


def tagged(count):
    """Events on a long row of channels, each on its own channel, which identifies it."""
    x, y = np.arange(count), np.zeros(count, int)
    return Recording(*map(frozen, (x, y, x % 2, np.linspace(0, 100, count))))


def at(x, y):
    """One event at each of some places."""
    x, y = np.asarray(x), np.asarray(y)
    return Recording(x, y, np.arange(len(x)) % 2, np.arange(len(x)) / 2)


def samples_of(sensor=CAMERA, counts=(40, 1, 300, 25, 120)):
    """Recordings of some lengths, the label of each its number."""
    tokens = [frozen(sensor.tokens_of(recording(count, sensor, n))) for n, count in enumerate(counts)]
    gaps = [np.diff(recording(count, sensor, n).t, prepend=0) for n, count in enumerate(counts)]
    for gap in gaps:
        gap[0] = 0
    made = Samples.of(tokens, np.arange(len(counts)) % CLASSES, gaps, per_step=False, name="train")
    for array in (made.inputs, made.targets, made.offsets, made.dt):
        frozen(array)
    return made


def recordings_in(samples):
    """Tokens and gaps of each recording."""
    inside = samples.offsets[1:-1]
    return list(zip(np.split(samples.inputs, inside), np.split(samples.dt, inside), strict=True))


def assert_same_events(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropped_events_are_gone_and_the_others_as_they_were(rng):
    events = tagged(10_000)
    left = drop_events(events, 0.3, rng)
    assert_same_events(left, Recording(*(q[left.x] for q in events)))
    assert len(left.t) / 10_000 == pytest.approx(0.7, abs=0.02)
    assert drop_events(events, 0.0, rng) is events
    assert drop_events(events, 1.0, rng) is events  # rather than none at all


def test_trimming_cuts_both_ends_by_time(rng):
    events = tagged(101)  # from 0 to 100 ms, 1 ms apart
    starts, ends = set(), set()
    for _ in range(250):
        left = trim_events(events, 0.25, rng)
        assert_same_events(left, Recording(*(q[left.x] for q in events)))
        np.testing.assert_array_equal(np.diff(left.x), 1)
        starts.add(int(left.x[0]))
        ends.add(int(left.x[-1]))
    assert (min(starts), max(starts), min(ends), max(ends)) == (1, 25, 75, 99)
    assert trim_events(events, 0.0, rng) is events
    # Both events would be cut off, so none is.
    two = Recording(*(q[[0, -1]] for q in events))
    assert trim_events(two, 0.5, rng) is two


def test_a_dropped_chunk_is_one_run_of_up_to_a_tenth(rng):
    events = tagged(50)
    sizes, starts = set(), set()
    for _ in range(250):
        left = drop_chunk(events, rng)
        assert_same_events(left, Recording(*(q[left.x] for q in events)))
        gone = np.setdiff1d(events.x, left.x)
        np.testing.assert_array_equal(np.diff(gone), 1)
        sizes.add(len(gone))
        starts.add(int(gone[0]))
    assert sizes == {1, 2, 3, 4, 5}
    assert starts == set(range(50))
    short = tagged(9)
    assert drop_chunk(short, rng) is short


def test_a_shift_moves_all_events_and_loses_those_that_leave():
    events = recording(500)
    moved = move_events(events, Move(x=3, y=-2), CAMERA)
    stay = (events.x + 3 < 16) & (events.y - 2 >= 0)
    assert 0 < stay.sum() < 500
    assert_same_events(moved, Recording(events.x[stay] + 3, events.y[stay] - 2, events.p[stay], events.t[stay]))
    assert move_events(events, Move(), CAMERA) is events
    assert move_events(events, Move(x=16), CAMERA) is events  # rather than none at all


@pytest.mark.parametrize("sensor", [Sensor(16, 16), Sensor(15, 15)])
@pytest.mark.parametrize("turns", [1, 2, 3, -1])
def test_right_angles_rotate_about_the_centre(sensor, turns):
    events = recording(500, sensor)
    picture = np.zeros((sensor.width, sensor.height), int)
    np.add.at(picture, (events.x, events.y), 1)
    turned = move_events(events, Move(degrees=90.0 * turns), sensor)
    expected = np.rot90(picture, turns)  # from the first axis to the second
    found = np.zeros_like(picture)
    np.add.at(found, (turned.x, turned.y), 1)
    np.testing.assert_array_equal(found, expected)
    assert turned.p is events.p
    assert turned.t is events.t


@settings(max_examples=40)
@given(degrees=st.floats(-180, 180), factor=st.floats(0.5, 2), seed=st.integers(0, 99))
def test_places_are_turned_and_scaled_to_the_nearest_pixel(degrees, factor, seed):
    sensor = Sensor(40, 24)
    events = recording(50, sensor, seed)
    middle = complex(19.5, 11.5)
    exact = (events.x + 1j * events.y - middle) * factor * np.exp(1j * np.radians(degrees)) + middle
    moved = move_events(events, Move(degrees, factor), sensor)
    margin = 1e-4  # of single precision, at the very edge
    sure = (np.abs(exact.real - 19.5) < 20 - margin) & (np.abs(exact.imag - 11.5) < 12 - margin)
    maybe = (np.abs(exact.real - 19.5) < 20 + margin) & (np.abs(exact.imag - 11.5) < 12 + margin)
    assert sure.sum() <= len(moved.t) <= maybe.sum() or moved is events
    if sure.any() and sure.sum() == maybe.sum():
        np.testing.assert_array_less(np.abs(moved.x - exact.real[sure]), 0.5 + margin)
        np.testing.assert_array_less(np.abs(moved.y - exact.imag[sure]), 0.5 + margin)
        np.testing.assert_array_equal(moved.p, events.p[sure])
        np.testing.assert_array_equal(moved.t, events.t[sure])


def test_a_warp_is_smooth_and_has_its_size(rng):
    """Every pixel of a camera, or every channel: neighbours move together, and the shift has the requested size."""
    for sensor in (Sensor(65, 33), CHANNELS):
        y, x = (q.ravel() for q in np.mgrid[: sensor.height, 20 : sensor.width - 20])
        away = np.full(y.shape, True) if sensor.height == 1 else abs(y - 16) < 6
        events = Recording(x[away], y[away], 0 * y[away], np.arange(float(away.sum())))
        shifts = []
        for _ in range(50):
            warped = warp_events(events, 2.0, sensor, rng)
            assert warped.t is events.t  # none is near an edge
            shifts.append(np.stack([warped.x - events.x, warped.y - events.y]))
            row = events.y[1:] == events.y[:-1]
            assert np.abs(np.diff(shifts[-1])[:, row]).max() <= 1
        # Interpolation between points makes the shift smaller than at the points.
        assert 1.2 < np.std(np.array(shifts)[:, 0]) < 2.2
        assert (np.array(shifts)[:, 1].any()) == (sensor.height > 1)
    assert warp_events(events, 0, CHANNELS, rng) is events


def test_a_fade_drops_neighbours_alike(rng):
    channels = np.repeat(np.arange(700), 100)
    events = Recording(channels, 0 * channels, 0 * channels, np.arange(70000.0))
    kept = [np.bincount(fade_events(events, 0.8, CHANNELS, rng).x, minlength=700) / 100 for _ in range(40)]
    assert np.mean(kept) == pytest.approx(0.6, abs=0.03)
    near, far = np.array(kept)[:, 300:310].std(1).mean(), np.array(kept)[:, ::175].std(1).mean()
    assert near < 0.06 < 0.15 < far
    assert fade_events(events, 0, CHANNELS, rng) is events


def test_moves_have_their_limits_and_probability():
    chosen = EventAugmentation(roll=4, rotate=10, scale=1.5, geometry=0.3)
    rng = np.random.default_rng(0)
    moves = [draw_move(chosen, CAMERA, rng) for _ in range(4000)]
    degrees, factors, x, y = map(np.array, zip(*moves, strict=True))
    assert set(x) == set(y) == set(range(-4, 5))
    assert 9.5 < np.abs(degrees).max() <= 10
    assert 1.49 < factors.max() <= 1.5
    assert 1 / 1.5 <= factors.min() < 1 / 1.49
    for active in (degrees != 0, factors != 1):
        assert active.mean() == pytest.approx(0.3, abs=0.03)
    assert ((x != 0) | (y != 0)).mean() == pytest.approx(0.3 * 80 / 81, abs=0.03)
    # As likely larger as smaller, by as much.
    assert np.log(factors[factors != 1]).mean() == pytest.approx(0, abs=0.02)
    assert {
        move.y for move in (draw_move(EventAugmentation(roll=4, geometry=1), CHANNELS, rng) for _ in range(50))
    } == {0}
    never = EventAugmentation(roll=4, rotate=10, scale=1.5, geometry=0)
    assert all(draw_move(never, CAMERA, rng) == Move() for _ in range(50))


def test_jitter_moves_each_event_on_its_own(rng):
    sensor = Sensor(100, 100)
    events = at(np.full(20_000, 50), np.full(20_000, 40))
    jittered = jitter_events(events, 2.0, sensor, rng)
    for found, middle in ((jittered.x, 50), (jittered.y, 40)):
        assert found.mean() == pytest.approx(middle, abs=0.05)
        assert found.std() == pytest.approx((4 + 1 / 12) ** 0.5, rel=0.02)  # rounding adds a twelfth
    assert abs(np.corrcoef(jittered.x, jittered.y)[0, 1]) < 0.03
    assert jittered.p is events.p
    assert jittered.t is events.t
    assert jitter_events(events, 0.0, sensor, rng) is events


def test_jitter_does_not_pile_up_events_at_the_edge(rng):
    events = at(np.zeros(20_000, int), np.full(20_000, 8))
    jittered = jitter_events(events, 3.0, Sensor(64, 1000), rng)
    inside, there = 0.5662, 0.1324  # P(z > -1/6), P(|z| < 1/6) of a normal z
    assert len(jittered.t) / 20_000 == pytest.approx(inside * 0.9977, abs=0.015)
    assert (jittered.x == 0).mean() * inside == pytest.approx(there, abs=0.015)


def test_jitter_of_channels_does_not_change_the_row(rng):
    events = recording(1000, CHANNELS)
    jittered = jitter_events(events, 0.55, CHANNELS, rng)
    CHANNELS.check(jittered, "jittered")
    assert len(jittered.t) > 990
    assert (jittered.y == 0).all()


def test_skew_changes_time_by_a_factor_and_nothing_else():
    events = recording(100)
    slower = skew_time(events, 1.5)
    np.testing.assert_array_equal(slower.t, events.t * 1.5)
    assert slower[:3] == events[:3]
    assert skew_time(events, 1.0) is events


def test_jitter_in_time_shifts_each_event_and_sorts_them_again(rng):
    events = tagged(20_000)
    jittered = jitter_time(events, 5.0, rng)
    assert (np.diff(jittered.t) >= 0).all()
    np.testing.assert_array_equal(np.sort(jittered.x), events.x)
    np.testing.assert_array_equal(jittered.p, jittered.x % 2)
    shift = jittered.t - events.t[jittered.x]
    assert shift.mean() == pytest.approx(0, abs=0.15)
    assert shift.std() == pytest.approx(5, rel=0.02)
    assert jitter_time(events, 0.0, rng) is events


def test_events_that_stay_in_order_are_not_sorted(rng):
    events = tagged(100)
    jittered = jitter_time(events, 0.01, rng)
    assert jittered[:3] == events[:3]
    assert not np.array_equal(jittered.t, events.t)


@pytest.mark.parametrize("sensor", [CAMERA, CHANNELS])
def test_noise_is_anywhere_at_any_time(sensor, rng):
    events = recording(50, sensor)
    noisy = add_noise(events, 20_000, sensor, rng)
    assert len(noisy.t) == 20_050
    sensor.check(noisy, "noisy")
    assert noisy.t[0] == events.t[0]
    assert noisy.t[-1] == events.t[-1]
    found = np.histogram(noisy.t, 10)[0]
    assert found.min() > 1800
    tokens = np.bincount(sensor.tokens_of(noisy), minlength=sensor.tokens)
    assert tokens.min() > 0
    assert tokens.max() < 3 * 20_000 / sensor.tokens
    assert add_noise(events, 0, sensor, rng) is events


def test_noise_leaves_the_events_and_their_order(rng):
    events = tagged(300)._replace(t=np.repeat([0.0, 1.0, 2.0], 100))
    row = Sensor(300, 1, 2)
    noisy = add_noise(events, 40, row, rng)
    # Those of the recording are at one of three times, noise is not.
    assert_same_events(Recording(*(q[np.isin(noisy.t, [0, 1, 2])] for q in noisy)), events)
    at_once = add_noise(events._replace(t=np.zeros(300)), 40, row, rng)
    assert_same_events(Recording(*(q[:300] for q in at_once))[:3], events[:3])


def test_cutmix_inserts_events_with_their_gaps(rng):
    events, partner = tagged(60), tagged(20)
    partner = partner._replace(x=partner.x + 1000, t=partner.t**2)
    counts = set()
    for _ in range(200):
        mixed, count = mix(events, partner, rng)
        counts.add(count)
        assert len(mixed.t) == 60
        theirs = mixed.x >= 1000
        assert theirs.sum() == count
        run = np.flatnonzero(theirs)
        np.testing.assert_array_equal(np.diff(run), 1)
        first = int(run[0])
        np.testing.assert_array_equal(mixed.x[~theirs], events.x[~theirs])
        taken = mixed.x[theirs] - 1000
        np.testing.assert_array_equal(np.diff(taken), 1)
        np.testing.assert_array_equal(mixed.p, mixed.x % 2)
        gaps = np.diff(events.t, prepend=0)
        gaps[first + 1 : first + count] = np.diff(partner.t[taken])
        np.testing.assert_allclose(np.diff(mixed.t, prepend=0), gaps, atol=1e-9)
        assert (np.diff(mixed.t) >= 0).all()
    assert counts == set(range(1, 21))


@pytest.mark.parametrize("crop", [1, 7, 25, 1000])
def test_crop_takes_a_run_of_at_most_so_many(crop):
    samples = samples_of()
    augmenter = EventAugmenter(EventAugmentation(crop=crop), CAMERA, CLASSES)
    starts = set()
    for epoch in range(12):
        cropped = augmenter(samples, np.arange(5), 0, epoch)
        np.testing.assert_array_equal(cropped.lengths, np.minimum(samples.lengths, crop))
        for (tokens, dt), (all_tokens, all_dt) in zip(recordings_in(cropped), recordings_in(samples), strict=True):
            count = len(tokens)
            places = [
                n
                for n in range(len(all_tokens) - count + 1)
                if np.array_equal(all_tokens[n : n + count], tokens)
                and np.array_equal(all_dt[n + 1 : n + count], dt[1:])
            ]
            assert places
            starts.add(places[0])
    assert len(starts) > 10 or crop == 1000


# All settings, and none.
everything = st.builds(
    EventAugmentation,
    crop=st.sampled_from([0, 1, 30, 1000]),
    drop=st.sampled_from([0, 0.3, 1]),
    drop_chunk=st.sampled_from([0, 0.5, 1]),
    trim=st.sampled_from([0, 0.2, 0.5]),
    jitter=st.sampled_from([0, 0.5, 30, 1e6]),
    roll=st.sampled_from([0, 3, 1000]),
    rotate=st.sampled_from([0, 10, 180]),
    scale=st.sampled_from([1, 1.2, 100]),
    fade=st.sampled_from([0, 0.5, 1]),
    warp=st.sampled_from([0, 2, 1e6]),
    geometry=st.sampled_from([0, 0.3, 1]),
    skew=st.sampled_from([1, 1.2, 100]),
    time_jitter=st.sampled_from([0, 0.1, 5, 1e6]),
    noise=st.sampled_from([0, 1, 50]),
    cutmix=st.sampled_from([0, 0.5, 1]),
)


def augmenter_of(chosen, flat):
    if flat:
        chosen = EventAugmentation(
            **{q.name: getattr(chosen, q.name) for q in fields(chosen)} | {"rotate": 0, "scale": 1}
        )
    sensor = CHANNELS if flat else CAMERA
    return EventAugmenter(chosen, sensor, CLASSES), samples_of(sensor)


@settings(max_examples=50)
@given(chosen=everything, flat=st.booleans(), seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_augmented_recordings_are_valid_for_all_settings(chosen, flat, seed, epoch):
    augmenter, samples = augmenter_of(chosen, flat)
    varied = augmenter(samples, np.arange(5), seed, epoch)
    varied.check()
    assert len(varied) == 5
    assert varied.inputs.dtype == samples.inputs.dtype
    assert varied.dt.dtype == samples.dt.dtype
    assert varied.inputs.max() < augmenter.sensor.tokens
    assert (varied.lengths >= 1).all()
    assert (varied.lengths <= augmenter.longest(samples.lengths)).all()
    assert (varied.dt[varied.offsets[:-1]] == 0).all()
    assert (varied.dt >= 0).all()
    if chosen.cutmix:
        assert varied.targets.dtype == np.float32
        assert varied.targets.shape == (5, CLASSES)
        assert varied.targets.min() >= 0
        np.testing.assert_allclose(varied.targets.sum(1), 1, rtol=1e-6)
    else:
        np.testing.assert_array_equal(varied.targets, samples.targets)
        assert varied.targets.dtype == samples.targets.dtype


@settings(max_examples=25)
@given(
    chosen=everything,
    flat=st.booleans(),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
    batch=st.lists(st.integers(0, 4), min_size=1, max_size=6),
)
def test_a_recording_depends_on_seed_epoch_and_its_number_only(chosen, flat, seed, epoch, batch):
    augmenter, samples = augmenter_of(chosen, flat)
    whole = augmenter(samples, np.arange(5), seed, epoch)
    batch = np.array(batch)
    assert augmenter(samples, batch, seed, epoch).digest() == whole.take(batch).digest()


def test_augmentation_differs_between_recordings_epochs_and_seeds():
    samples = samples_of(counts=(100,) * 3).take([1, 1, 1])  # one recording, three times
    augmenter = EventAugmenter(EventAugmentation(drop=0.5, time_jitter=1.0), CAMERA, CLASSES)
    found = [
        augmenter(samples, np.array([n]), seed, epoch) for n in range(3) for seed in range(2) for epoch in range(2)
    ]
    assert len({one.digest() for one in found}) == len(found)


@settings(max_examples=40)
@given(gaps=st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=20), data=st.data())
def test_without_augmentation_recordings_are_bit_equal(gaps, data):
    tokens = data.draw(st.lists(st.integers(0, CAMERA.tokens - 1), min_size=len(gaps), max_size=len(gaps)))
    samples = Samples.of([np.array(tokens, np.uint16)], np.array([3]), [[0, *gaps[1:]]], per_step=False)
    for chosen in (EventAugmentation(), EventAugmentation(crop=len(gaps), geometry=1)):
        same = EventAugmenter(chosen, CAMERA, CLASSES)(samples, np.array([0]), 0, 0)
        assert same.digest() == samples.digest()


def striped(counts=(50, 80, 200)):
    """Recordings of a sensor five wide, the events of each in the column that is its label."""
    sensor = Sensor(5, 8)
    tokens = []
    for label, count in enumerate(counts):
        events = recording(count, sensor, label)
        tokens.append(sensor.tokens_of(events._replace(x=np.full(count, label))))
    return sensor, Samples.of(tokens, np.arange(len(counts)), [np.ones(count) for count in counts], per_step=False)


def test_shares_of_labels_are_shares_of_events():
    sensor, samples = striped()
    augmenter = EventAugmenter(EventAugmentation(cutmix=0.5, drop=0.3, drop_chunk=0.5, crop=100), sensor, CLASSES)
    mixed, partners = 0, set()
    for epoch in range(60):
        varied = augmenter(samples, np.array([0]), 0, epoch)
        columns = sensor.events_of(varied.inputs, varied.dt).x
        np.testing.assert_allclose(varied.targets[0], np.bincount(columns, minlength=5) / len(columns), rtol=1e-6)
        partners |= set(columns.tolist())
        mixed += varied.targets[0, 0] < 1
    # A third of the partners are the recording itself.
    assert 10 <= mixed <= 30
    # Partners are from all recordings, not from the batch.
    assert partners == {0, 1, 2}


def test_a_partner_is_varied_too():
    sensor, samples = striped()
    augmenter = EventAugmenter(EventAugmentation(cutmix=1, skew=2), sensor, CLASSES)
    played = 0
    for epoch in range(20):
        varied = augmenter(samples, np.array([0]), 0, epoch)
        theirs = sensor.events_of(varied.inputs, varied.dt).x > 0
        inside = theirs[1:] & theirs[:-1]
        if inside.any():
            gaps, own = varied.dt[1:][inside], varied.dt[1:][~theirs[1:]]
            assert np.ptp(gaps) < 1e-4  # one factor for the partner
            assert abs(gaps[0] - 1) > 1e-4
            assert not own.size or abs(gaps[0] - own[0]) > 1e-4  # and not that of the recording
            played += 1
    assert played > 5


def test_batches_of_training_hold_varied_recordings():
    samples = samples_of()
    augmenter = EventAugmenter(EventAugmentation(crop=30, noise=5, cutmix=0.5), CAMERA, CLASSES)
    loader = Loader(samples, Buckets(2), 0, augmenter)
    batches = list(loader.batches(loader.plans(1), 1))
    assert sum(int(batch.weight.sum()) for batch in batches) == 5
    assert all(batch.length.max() <= 35 for batch in batches)
    assert all(batch.targets.shape == (2, CLASSES) for batch in batches)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"crop": -1}, "crop=-1 must be at least 0"),
        ({"noise": -3}, "noise=-3 must be at least 0"),
        ({"drop": 1.5}, "drop=1.5 must be from 0 to 1"),
        ({"cutmix": -0.1}, "cutmix=-0.1 must be from 0 to 1"),
        ({"geometry": 2.0}, "geometry=2.0 must be from 0 to 1"),
        ({"trim": 0.6}, "trim=0.6 must be from 0 to 0.5"),
        ({"drop_chunk": float("nan")}, "drop_chunk=nan must be from 0 to 1"),
        ({"jitter": float("inf")}, "jitter=inf must be from 0 to 1,000,000"),
        ({"rotate": 181.0}, "rotate=181.0 must be from 0 to 180"),
        ({"scale": 0.8}, "scale=0.8 must be from 1 to 100"),
        ({"skew": 0.0}, "skew=0.0 must be from 1 to 100"),
    ],
)
def test_settings_out_of_range_are_rejected(values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        EventAugmentation(**values)


def test_invalid_sensors_and_samples_are_rejected():
    for values, message in (({"rotate": 10.0}, "rotate=10.0 needs .* rotate=0$"), ({"scale": 1.2}, "scale=1.2 needs")):
        with pytest.raises(ValueError, match=message):
            EventAugmenter(EventAugmentation(**values), CHANNELS, CLASSES)
        EventAugmenter(EventAugmentation(**values), CAMERA, CLASSES)
    with pytest.raises(ValueError, match="classes=0 must be at least 1"):
        EventAugmenter(EventAugmentation(), CHANNELS, 0)

    def vary(samples, chosen=EventAugmentation(), sensor=CAMERA):  # noqa: B008  (frozen)
        EventAugmenter(chosen, sensor, 2)(samples, np.arange(len(samples)), 0, 0)

    tokens, dt = np.full((2, 3), 500), np.ones((2, 3))
    with pytest.raises(ValueError, match=r"train: recording 0 has tokens from 500 to 500, outside of 0 to 31 .* 4×4"):
        vary(Samples.of(tokens, [0, 1], dt, name="train"), sensor=Sensor(4, 4))
    with pytest.raises(ValueError, match="recording 0 has tokens from -500 to -500"):
        vary(Samples.of(-tokens, [0, 1], dt))
    with pytest.raises(ValueError, match="data: augmentation needs the gaps between events"):
        vary(Samples.of(tokens, [0, 1]))
    with pytest.raises(ValueError, match="data: inputs are not event tokens"):
        vary(Samples.of(dt, [0, 1], dt))
    with pytest.raises(ValueError, match="data: only recordings with one target each"):
        vary(Samples.of(tokens, tokens, dt))
    with pytest.raises(ValueError, match="label of sequence 1 is outside of 0 to 1"):
        vary(Samples.of(tokens, [0, 2], dt), EventAugmentation(cutmix=0.5))


def test_settings_are_read_from_tables_and_back():
    table = from_assignments(["augment.crop=1024", "augment.drop=0.1"])["augment"]
    chosen = build(EventAugmentation, table, "data.augment")
    assert chosen == EventAugmentation(crop=1024, drop=0.1)
    augmenter = EventAugmenter(chosen, CHANNELS, 20)
    assert build(EventAugmenter, table_of(augmenter), "augmenter") == augmenter
    with pytest.raises(ValueError, match=r"data.augment: drop=2.0 must be from 0 to 1"):
        build(EventAugmentation, {"drop": 2}, "data.augment")
