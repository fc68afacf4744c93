"""Spike encoding: frequencies map to channels, loudness has little effect, and the encoder is causal."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events.spikes import SpikeEncoder
from s7.settings import build, table_of

RATE = 8000
ENCODER = SpikeEncoder(channels=64, peak=100.0)
MS = RATE // 1000


def tone(hertz, ms=300, amplitude=0.5):
    """A pure tone."""
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(ms * MS) / RATE)


def babble(ms=300, seed=0):
    """Noise that swells and fades, with a note in it."""
    rng = np.random.default_rng(seed)
    swell = np.sin(np.pi * np.arange(ms * MS) / (ms * MS))
    return swell * (0.02 * rng.standard_normal(ms * MS) + tone(rng.uniform(200, 3000), ms, 0.2))


def in_order(spikes):
    """(channel, time) of each, those of the same channel together."""
    order = np.lexsort((spikes.t, spikes.x))
    return spikes.x[order], spikes.t[order]


@pytest.mark.parametrize("rate", [8000, 11025, 48000])
@pytest.mark.parametrize("channel", [3, 20, 40, 60])
def test_a_tone_spikes_most_in_the_channel_of_its_note(channel, rate):
    audio = np.sin(2 * np.pi * ENCODER.notes[channel] * np.arange(rate // 3) / rate)
    spikes = ENCODER(audio, rate)
    steady = spikes.x[spikes.t > 50]
    counts = np.bincount(steady, minlength=64)
    assert abs(np.average(np.arange(64), weights=counts.astype(float) ** 4) - channel) < 1.5
    assert counts[channel] >= counts.max() - 1
    assert counts[np.abs(np.arange(64) - channel) > 20].sum() < 0.05 * counts.sum()


def test_channel_frequencies_are_evenly_spaced_in_mels():
    notes = ENCODER.notes
    assert notes[0] == pytest.approx(100)
    assert notes[-1] == pytest.approx(3800)
    steps = np.diff(np.log(700 + notes))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


def test_the_loudest_channel_fires_at_the_peak_rate():
    spikes = ENCODER(tone(ENCODER.notes[30], ms=1000), RATE)
    counts = np.bincount(spikes.x, minlength=64)
    assert counts.max() <= 101
    assert counts[30] >= 95


@settings(max_examples=15)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 3, 7, 40]))
def test_spikes_are_in_order_on_the_sensor_and_within_the_sound(seed, ms):
    spikes = ENCODER(babble(ms, seed), RATE)
    ENCODER.sensor.check(spikes, "spikes")
    assert ENCODER.sensor.tokens == 64
    assert (spikes.t > 0).all()
    assert (spikes.t <= ms).all()
    assert not spikes.y.any()
    assert not spikes.p.any()


def test_times_fall_between_the_hops():
    t = ENCODER(babble(), RATE).t
    assert len(np.unique(np.round(t % ENCODER.hop, 3))) > 0.5 * len(t)


@settings(max_examples=15)
@given(st.floats(0.05, 4.0), st.integers(0, 100))
def test_loudness_has_little_effect(factor, seed):
    one, other = (ENCODER(q * babble(seed=seed), RATE) for q in (1, factor))
    assert len(one.t) == pytest.approx(len(other.t), rel=0.06)
    # All that may differ is the first moment, which is below `quiet` in one and not in the other.
    counts = [np.bincount(q.x[q.t > 30], minlength=64) for q in (one, other)]
    assert np.abs(counts[0] - counts[1]).max() <= 1


def test_a_faint_sound_makes_fewer_spikes_and_silence_none():
    counts = [len(ENCODER(tone(500, amplitude=a), RATE).t) for a in (0.1, 1e-2, 1e-3, 3e-4, 1e-4, 1e-6, 0.0)]
    assert counts[0] == pytest.approx(counts[1], rel=0.06)
    assert (np.diff(counts[1:6]) < 0).all()
    assert counts[5:] == [0, 0]


@pytest.mark.parametrize(("release", "hushed"), [(0.05, True), (1.0, False)])
def test_a_loud_sound_suppresses_later_spikes_until_the_peak_decays(release, hushed):
    encoder = replace(ENCODER, release=release)
    loud, faint = tone(500, 200, 0.5), tone(500, 1800, 0.005)
    after, alone = (encoder(np.concatenate([q, faint]), RATE).t for q in (loud, 0 * loud))
    early, late = (
        np.count_nonzero((after > start) & (after < start + 300))
        / np.count_nonzero((alone > start) & (alone < start + 300))
        for start in (300, 1500)
    )
    assert (early < 0.5) == hushed
    assert late == pytest.approx(1, abs=0.05)


@settings(max_examples=15)
@given(st.integers(0, 30))
def test_a_later_sound_spikes_later(hops):
    audio = babble()
    silence = np.zeros(round(hops * ENCODER.hop) * MS)
    one, other = ENCODER(audio, RATE), ENCODER(np.concatenate([silence, audio]), RATE)
    assert (one.x == other.x).all()
    np.testing.assert_allclose(other.t, one.t + hops * ENCODER.hop, atol=1e-3)


def test_a_sound_later_by_part_of_a_hop_spikes_later_by_a_hop_at_most():
    audio = babble()
    one, other = (in_order(ENCODER(np.concatenate([np.zeros(n), audio]), RATE)) for n in (0, 5))
    assert len(one[0]) == pytest.approx(len(other[0]), rel=0.03)
    firsts = [q[1][np.unique(q[0], return_index=True)[1]] for q in (one, other)]
    assert abs(np.mean(firsts[1]) - np.mean(firsts[0]) - 5 / MS) < ENCODER.hop


@settings(max_examples=15)
@given(st.integers(1, 299), st.integers(0, 50))
def test_the_spike_encoder_is_causal(ms, seed):
    audio = babble()
    other = audio.copy()
    other[ms * MS :] = babble(seed=seed + 1)[ms * MS :] * 3
    one, two = ENCODER(audio, RATE), ENCODER(other, RATE)
    known = ms - ms % ENCODER.hop
    before, after = ([q[spikes.t <= known] for q in (spikes.x, spikes.t)] for spikes in (one, two))
    assert np.array_equal(before[0], after[0])
    np.testing.assert_allclose(before[1], after[1], atol=1e-4)


def test_integer_audio_is_relative_to_full_scale():
    audio = babble()
    whole = np.round(audio * 32768).astype(np.int16)
    one, other = ENCODER(whole, RATE), ENCODER(whole / 32768, RATE)
    assert (one.x == other.x).all()
    assert (one.t == other.t).all()
    wide = ENCODER(whole.astype(np.int32) << 16, RATE)
    assert (one.x == wide.x).all()


def test_more_channels_give_proportionally_more_spikes():
    few, many = (SpikeEncoder(channels=n)(babble(), RATE) for n in (50, 200))
    assert len(many.t) == pytest.approx(4 * len(few.t), rel=0.05)


def test_equal_channels_do_not_fire_in_synchrony():
    clicks = np.zeros(400 * MS)
    clicks[:: 100 * MS] = 0.5
    spikes = ENCODER(clicks, RATE)
    _, together = np.unique(np.round(spikes.t, 2), return_counts=True)
    assert together.max() <= 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"channels": 0}, "channels=0 must be at least 1"),
        ({"hop": 0.0}, "hop=0.0 must be positive"),
        ({"peak": float("inf")}, "peak=inf must be positive"),
        ({"range": float("nan")}, "range=nan must be positive"),
        ({"release": -1.0}, "release=-1.0 must not be negative"),
        ({"low": 4000.0}, "high=3800.0 must be above low=4000.0"),
        ({"quiet": 3.0}, "quiet=3.0 must be from -120 to 0"),
        ({"hop": 30.0}, "hop=30.0 must not be longer than window=20.0"),
    ],
)
def test_invalid_settings_are_rejected(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SpikeEncoder(**given)


def test_settings_round_trip_through_a_table():
    encoder = SpikeEncoder(channels=80, tilt=1.5)
    assert build(SpikeEncoder, table_of(encoder), "data.spikes") == encoder


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("audio", "rate", "message"),
    [
        (np.zeros(100), 6000, "high=3800.0 Hz must be below half of the 6000 samples a second"),
        (np.array([0.0, 1.0, np.nan]), RATE, "audio: sample 2 is nan, expected -1 to 1"),
        (np.array([0.0, 1e30]), RATE, r"audio: sample 1 is 1e\+30, expected -1 to 1"),
        (np.zeros(100, np.uint8), RATE, "audio of uint8 is neither signed whole numbers nor floating point"),
        (np.zeros((100, 2)), RATE, r"audio has shape \(100, 2\), expected one channel of sound"),
    ],
)
def test_invalid_audio_is_rejected(audio, rate, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SpikeEncoder()(audio, rate)


@pytest.mark.parametrize("samples", [0, 1, 15])
def test_sound_shorter_than_a_hop_makes_no_spike(samples):
    assert len(ENCODER(np.ones(samples), RATE).t) == 0


def test_channels_too_narrow_to_hear_anything_are_rejected():
    with pytest.raises(ValueError, match=r"^width=5\.0 mels is too narrow for the frequency resolution"):
        SpikeEncoder(width=5.0)(babble(), RATE)
