"""The encoder of patches."""

import jax
import numpy as np
import pytest

import s7


def test_a_patch_is_one_event_of_a_linear_map(key):
    encoder = s7.PatchEncoder(4, 2, mean=(1.0, 2.0), scale=(2.0, 4.0))
    parameters = encoder.init(8, key=key, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(5, 4, 2))
    u = ((x - [1, 2]) / [2, 4]).reshape(5, 8)
    found = encoder(parameters, jax.numpy.asarray(x))
    np.testing.assert_allclose(found, u @ np.asarray(parameters["W"]).T + np.asarray(parameters["c"]))


def test_a_model_with_patches_is_saved_and_streams(key, tmp_path):
    x = np.random.default_rng(0).normal(size=(3, 10, 4, 2))
    model = s7.S7Model(encoder=s7.PatchEncoder.of(x.reshape(3, 40, 2), 4), head=s7.Mean(2), width=6, state=4, key=key)
    again = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again(x[0]), model(x[0]))
    output, _ = model.chunk(x[0][6:], model.chunk(x[0][:6], model.init_state())[1])
    np.testing.assert_allclose(output, model(x[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_sizes_are_positive(sizes):
    with pytest.raises(ValueError, match="must be at least 1"):
        s7.PatchEncoder(*sizes)
