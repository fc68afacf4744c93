"""Augmentation of sequences of tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7 import Samples, TokenAugmentation

RNG = np.random.default_rng(0)
LENGTHS = (40, 1, 300)
SAMPLES = Samples.of([np.arange(n) for n in LENGTHS], [0, 1, 2])
CHOSEN = np.array([2, 1, 0])


@given(st.floats(0.1, 1), st.floats(0, 0.9), st.integers(1, 50))
def test_what_is_left_is_in_order_and_depends_on_seed_epoch_and_index_alone(window, drop, span):
    vary = TokenAugmentation(window=window, drop=drop, span=span)
    every, last = vary(SAMPLES, CHOSEN, 5, 2), vary(SAMPLES, CHOSEN[2:], 5, 2)
    np.testing.assert_array_equal(every.inputs[every.offsets[2] :], last.inputs)
    assert every.targets.tolist() == [2, 1, 0]
    for start, stop, length in zip(every.offsets, every.offsets[1:], np.array(LENGTHS)[CHOSEN], strict=False):
        tokens = every.inputs[start:stop]
        assert (np.diff(tokens) > 0).all()
        assert len(tokens) >= max(1, (1 - drop) * round(window * length) - 1)
    every.check()


def test_all_off_changes_nothing():
    same = TokenAugmentation()(SAMPLES, CHOSEN, 0, 0)
    np.testing.assert_array_equal(same.inputs, SAMPLES.take(CHOSEN).inputs)


def test_windows_are_contiguous_and_spans_leave_gaps_of_their_length():
    window = TokenAugmentation(window=0.2)(SAMPLES, np.array([2]), 0, 1).inputs
    assert 60 <= len(window) < 300
    assert (np.diff(window) == 1).all()
    gaps = np.diff(TokenAugmentation(drop=0.3, span=7)(SAMPLES, np.array([2]), 0, 1).inputs)
    assert gaps.max() >= 8
    assert ((gaps == 1) | (gaps >= 8)).all()


def test_epochs_differ():
    vary = TokenAugmentation(drop=0.5)
    assert len(vary(SAMPLES, CHOSEN, 0, 0).inputs) != len(vary(SAMPLES, CHOSEN, 0, 1).inputs)


@pytest.mark.parametrize(
    ("settings", "said"), [({"window": 0}, "window=0"), ({"drop": 1.0}, r"drop=1\.0"), ({"span": 0}, "span=0")]
)
def test_settings_out_of_range(settings, said):
    with pytest.raises(ValueError, match=said):
        TokenAugmentation(**settings)


def test_numbers_and_gaps_are_refused():
    vary = TokenAugmentation(drop=0.1)
    with pytest.raises(ValueError, match="data: inputs are not tokens"):
        vary(Samples.of(RNG.normal(size=(2, 5, 1)), [0, 1]), np.array([0]), 0, 0)
    with pytest.raises(ValueError, match="only tokens in regular time"):
        vary(Samples.of(np.ones((2, 5), int), [0, 1], np.ones((2, 5))), np.array([0]), 0, 0)


def test_training_with_it(key):
    model = s7.S7Model(encoder=s7.TokenEncoder(300), head=s7.Mean(3), width=4, state=2, depth=1, key=key)
    trained = s7.train(
        model, SAMPLES, valid=SAMPLES, epochs=1, augmentation=TokenAugmentation(drop=0.2), progress=False
    )
    assert np.isfinite(trained.history[0]["train"]["loss"])
