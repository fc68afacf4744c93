"""Random states: the recurrence in plain NumPy, padding, gaps and saving."""

import equinox as eqx
import numpy as np
import pytest

import s7
from s7.estimation.random_states import features_of, outputs_of, random_states, with_thresholds

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 30, 2)).astype(np.float32)
DT = RNG.exponential(size=(5, 30)).astype(np.float32)


def model(seed=0):
    rng = np.random.default_rng(seed)
    drawn = random_states(2, 30.0, rng, banks=3, states=2, kernels=4, thresholds=2, outputs=3)
    return with_thresholds(drawn, list(X), list(DT), rng)


def test_responses_are_those_of_the_recurrence():
    one = model()
    u, dt = X[0].astype(float) @ np.asarray(one.channels, float).T, DT[0].astype(float)
    assert one.differences.tolist() == [0, 1, 0]
    u[:, 1] = np.diff(u[:, 1], prepend=u[0, 1])
    spectrum = -np.asarray(one.rate, float) + 1j * np.asarray(one.omega, float)
    x, rows = np.zeros_like(spectrum), []
    for k in range(len(u)):
        a = np.exp(spectrum * dt[k])
        x = a * x + (a - 1) / spectrum * u[k][:, None]
        scaled = x * np.asarray(one.rate)
        rows.append(np.einsum("mr,mrk->mk", np.concatenate([scaled.real, scaled.imag], 1), one.kernels[0]))
    np.testing.assert_allclose(one.responses(X[0], DT[0])[0][0], rows, rtol=1e-3, atol=1e-4)


def test_kernels_do_not_respond_to_a_constant():
    responses, _ = model().responses(np.ones((4000, 2)))
    np.testing.assert_allclose(responses[0, -1], 0, atol=1e-3)
    np.testing.assert_allclose(responses[1, 0], 0, atol=1e-3)


@pytest.mark.parametrize("dt", [None, DT])
def test_padding_has_no_effect(dt):
    one = model()
    padded = np.concatenate([X[0], np.full((9, 2), 5, np.float32)])
    gaps = None if dt is None else np.concatenate([dt[0], np.full(9, 3, np.float32)])
    np.testing.assert_array_equal(one(X[0], None if dt is None else dt[0]), one(padded, gaps, 30))


def test_features_of_samples_are_in_their_order():
    one = model()
    ragged = s7.Samples.of([part[: 10 + 4 * n] for n, part in enumerate(X)], np.zeros(5, int))
    found = features_of(one, ragged)
    for n in (1, 4):
        np.testing.assert_allclose(found[n], one.features(X[n][: 10 + 4 * n]), atol=1e-6)


def test_features_are_fractions_of_the_steps_and_longest_runs():
    one = model()
    responses = np.moveaxis(np.asarray(one.responses(X[0], DT[0])[0]), 1, -1)[..., None, :]
    above = np.moveaxis(responses > np.asarray(one.thresholds)[..., None], 3, 0)
    runs = np.zeros(above.shape[:-1])
    longest = runs
    for step in np.moveaxis(above, -1, 0):
        runs = (runs + 1) * step
        longest = np.maximum(longest, runs)
    expected = np.stack([above.mean(-1), longest / above.shape[-1]])
    np.testing.assert_allclose(one.features(X[0], DT[0]), expected.ravel(), atol=1e-6)


def test_models_of_an_earlier_version_have_fewer_features():
    one = model()
    old = eqx.tree_at(lambda q: (q.W, q.differences), one, (one.W[:, : one.thresholds.size], None))
    assert old.features(X[0]).shape == (one.thresholds.size,)


def test_outputs_do_not_depend_on_the_batch():
    rng = np.random.default_rng(1)
    one = eqx.tree_at(lambda q: q.W, model(), rng.normal(size=model().W.shape).astype(np.float32))
    some = s7.Samples.of(list(X), np.zeros(5, int))
    together = outputs_of(one, some)
    np.testing.assert_array_equal(together[2:3], outputs_of(one, some.take([2])))
    np.testing.assert_allclose(together[2], one(X[2]), rtol=1e-4)


def test_saved_and_loaded(tmp_path):
    one = model()
    again = s7.load(s7.save(one, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again(X[0]), one(X[0]))
