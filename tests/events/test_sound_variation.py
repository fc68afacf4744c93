"""Variants of sound: what speed and filters do, and that they are off by default."""

import numpy as np
import pytest

from s7.events.sound_variation import SoundVariation

RATE = 8000
SOUND = (20_000 * np.sin(2 * np.pi * 500 * np.arange(4000) / RATE)).astype(np.int16)


def frequency(sound):
    """The strongest frequency, in Hz."""
    return np.abs(np.fft.rfft(sound)).argmax() * RATE / len(sound)


def power(sound, low, high):
    """The power between two frequencies."""
    hertz = np.fft.rfftfreq(len(sound), 1 / RATE)
    return float((np.abs(np.fft.rfft(sound)) ** 2)[(hertz >= low) & (hertz < high)].sum())


def test_without_settings_a_sound_stays_the_same():
    np.testing.assert_allclose(SoundVariation()(SOUND, RATE, np.random.default_rng(0)), SOUND, atol=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_speed_changes_pitch_and_duration_together(seed):
    made = SoundVariation(speed=1.3)(SOUND, RATE, np.random.default_rng(seed))
    assert len(SOUND) / 1.3 - 1 <= len(made) <= len(SOUND) * 1.3 + 1
    assert frequency(made) == pytest.approx(500 * len(SOUND) / len(made), rel=0.01)
    assert np.abs(made).max() == pytest.approx(np.abs(SOUND).max(), rel=1e-6)


def test_a_slope_is_in_decibels_per_octave():
    noise = np.random.default_rng(0).normal(0, 3000, 40_000)

    class Two:
        """The random numbers of a slope of two standard deviations without anything else."""

        def uniform(self, low, high):
            return 0.0

        def normal(self, mean, deviation, size=None):
            return 2 * deviation if size is None else np.zeros(size)

    made = SoundVariation(tilt=3)(noise, RATE, Two())
    gains = [power(made, low, 1.01 * low) / power(noise, low, 1.01 * low) for low in (500, 1000, 2000)]
    np.testing.assert_allclose(np.diff(10 * np.log10(gains)), 6, atol=0.1)


def test_a_curve_filters_without_moving_frequencies():
    made = SoundVariation(ripple=6)(SOUND, RATE, np.random.default_rng(1))
    assert len(made) == len(SOUND)
    assert frequency(made) == 500


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_as_loud_as_asked_for_or_up_to_60_db_quieter(seed):
    made = SoundVariation(noise=0.1)(SOUND, RATE, np.random.default_rng(seed))
    assert 1e-4 * 0.99 <= (made - SOUND).std() / 20_000 <= 0.1
    again = SoundVariation(noise=0.1)(SOUND, RATE, np.random.default_rng(seed))
    np.testing.assert_array_equal(made, again)


def test_silence_and_nothing_stay():
    vary = SoundVariation(speed=2, tilt=3, ripple=3, noise=0.1)
    assert not vary(np.zeros(100, np.int16), RATE, np.random.default_rng(0)).any()
    assert len(vary(np.zeros(0, np.int16), RATE, np.random.default_rng(0))) == 0


@pytest.mark.parametrize(
    "settings", [{"copies": -1}, {"speed": 0.5}, {"tilt": -1.0}, {"ripple": float("nan")}, {"noise": 2.0}]
)
def test_settings_out_of_range_are_rejected(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{name}="):
        SoundVariation(**settings)
