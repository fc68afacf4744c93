"""Encoders and heads: fast convolution and pooling match plain ones, and standardization is applied and inverted."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from jax import lax

import s7
from s7.image_network import convolve, max_pool
from s7.signal import Signal
from s7.standardization import units_of

RNG = np.random.default_rng(0)


def plain_convolution(pictures, kernel, stride):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(pictures, kernel, (stride, stride), "SAME", dimension_numbers=layout)


@partial(jax.jit, static_argnames=("convolve", "stride"))
def value_and_gradients(convolve, pictures, kernel, stride, pull):
    value, back = jax.vjp(lambda *q: convolve(*q, stride), pictures, kernel)
    return value, *back(pull)


@pytest.mark.parametrize(
    ("picture", "kernel", "stride"),
    [
        ((2, 8, 8, 1), (5, 5, 1, 3), 1),
        ((1, 7, 10, 2), (3, 3, 2, 4), 2),
        ((2, 5, 9, 3), (3, 5, 3, 2), 3),
        ((1, 3, 4, 1), (5, 5, 1, 1), 1),
        ((1, 6, 5, 2), (2, 4, 2, 3), 2),
        ((1, 7, 7, 1), (1, 1, 1, 2), 3),
    ],
)
def test_the_convolution_is_that_of_jax(picture, kernel, stride):
    pictures, weights = (jnp.asarray(RNG.normal(size=shape)) for shape in (picture, kernel))
    size = [-(-side // stride) for side in picture[1:3]]
    pull = jnp.asarray(RNG.normal(size=(picture[0], *size, kernel[3])))
    found = value_and_gradients(convolve, pictures, weights, stride, pull)
    plain = value_and_gradients(plain_convolution, pictures, weights, stride, pull)
    for mine, theirs in zip(found, plain, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def squares(rows, columns):
    """The pixels of each 2×2."""
    for y in range(0, rows, 2):
        for x in range(0, columns, 2):
            yield y // 2, x // 2, np.s_[y : y + 2, x : x + 2]


@jax.jit
def pooled_and_gradient(pictures, pull):
    value, back = jax.vjp(max_pool, pictures)
    return value, *back(pull)


@pytest.mark.parametrize("shape", [(2, 4, 6, 3), (1, 5, 4, 2), (2, 3, 5, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("levels", [None, 2])
def test_pooling_takes_the_largest_and_shares_the_gradient_among_equals(shape, levels):
    # Of two levels most squares have several that are largest.
    pictures = RNG.normal(size=shape) if levels is None else RNG.integers(0, levels, shape).astype(float)
    pull = RNG.normal(size=(shape[0], -(-shape[1] // 2), -(-shape[2] // 2), shape[3]))
    value, gradient = pooled_and_gradient(pictures, pull)
    expected, shared = np.zeros(pull.shape), np.zeros(shape)
    for n in range(shape[0]):
        for channel in range(shape[3]):
            for row, column, here in squares(*shape[1:3]):
                square = pictures[n, :, :, channel][here]
                largest = square == square.max()
                expected[n, row, column, channel] = square.max()
                shared[n, :, :, channel][here] = largest * pull[n, row, column, channel] / largest.sum()
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_allclose(gradient, shared, rtol=1e-12)
    assert gradient.sum() == pytest.approx(pull.sum())


def test_the_gradient_of_pooling_is_that_of_jnp_max():
    pictures = jnp.asarray(RNG.integers(0, 3, (2, 4, 6, 2)).astype(float))
    pull = RNG.normal(size=(2, 2, 3, 2))
    mine = pooled_and_gradient(pictures, pull)[1]
    plain = jax.jit(jax.grad(lambda q: jnp.sum(q.reshape(2, 2, 2, 3, 2, 2).max((2, 4)) * pull)))(pictures)
    np.testing.assert_allclose(mine, plain, rtol=1e-12)


def encode(encoder, inputs):
    """The outputs of an encoder with its initial parameters."""
    parameters = encoder.init(4, key=jax.random.key(0), dtype=jnp.float64)
    return jax.jit(encoder)(parameters, jnp.asarray(inputs))


@pytest.mark.parametrize(("mean", "scale"), [(0.5, 2.0), ((1.0, -1.0, 3.0), (2.0, 0.1, 5.0)), (2.0, (1.0, 2.0, 3.0))])
def test_a_linear_encoder_standardizes_inputs(mean, scale):
    inputs = RNG.normal(size=(5, 3))
    plain = encode(s7.LinearEncoder(3), (inputs - np.array(mean)) / np.array(scale))
    np.testing.assert_allclose(encode(s7.LinearEncoder(3, mean=mean, scale=scale), inputs), plain, rtol=1e-12)


def test_the_units_of_data_are_their_mean_and_spread():
    inputs = RNG.normal(3, 2, (4, 50, 2)) * [1, 100]
    inputs[..., 0] = 7
    encoder = s7.LinearEncoder.of(inputs, bias=0.1)
    assert (encoder.inputs, encoder.bias) == (2, 0.1)
    assert encoder.mean == pytest.approx((7, inputs[..., 1].mean()))
    # Constant features have scale 1.
    assert encoder.scale == pytest.approx((1, inputs[..., 1].std()))
    assert hash(encoder) == hash(s7.LinearEncoder.of(inputs, bias=0.1))


def test_mean_and_scale_are_computed_from_arrays_lists_frames_and_samples():
    inputs = RNG.normal(3, 2, (4, 50, 2))
    expected = s7.LinearEncoder.of(inputs)
    ragged = [inputs[0], inputs[1], np.concatenate([inputs[2], inputs[3]])]
    frames = [pandas.DataFrame(part, columns=["a", "b"]) for part in ragged]
    samples = s7.Samples.of(ragged, np.zeros(3, int))
    for given in (ragged, tuple(ragged), frames, pandas.concat(frames), samples):
        encoder = s7.LinearEncoder.of(given)
        assert encoder.inputs == 2
        assert encoder.mean == pytest.approx(expected.mean)
        assert encoder.scale == pytest.approx(expected.scale)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((3, 7)), r"inputs have shape \(3, 7\), .* one number per event use x\[\.\.\., None\]"),
        ([np.zeros(3), np.zeros(4)], r"sequence 0 has shape \(3,\), .* one number per event use x\[:, None\]"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], r"sequence 1 has shape \(3, 1\), expected \(length, 2\)"),
        (pandas.DataFrame({"a": [1.0], "name": ["x"]}), "column 'name' holds .*, expected numbers; leave it out"),
        ([], "there are no sequences"),
        (np.zeros((0, 3, 2)), "there are no events"),
        (np.array([[[0.0, 1], [0, np.nan]]]), "feature 1 of event 1, .* is nan; missing values are not supported"),
        (np.array([[["a"]]]), "inputs hold <U1, expected numbers"),
    ],
)
def test_data_without_features_are_an_error(inputs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        s7.LinearEncoder.of(inputs)


def test_the_last_head_is_not_constant_folded():
    # XLA evaluates a reduction of a constant when it compiles, which takes seconds on long sequences.
    head, values = s7.Last(2), np.zeros((9, 3))

    def absorb(values, mask=None):
        return head.absorb(head.start(3, values.dtype), Signal(values, mask=mask))

    operations = {str(equation.primitive) for equation in jax.make_jaxpr(absorb)(values).eqns}
    assert not operations & {"argmax", "rev", "reduce_or", "reduce_max"}
    rows = np.arange(27.0).reshape(9, 3)
    for mask, expected in ((None, rows[8]), (np.arange(9) < 4, rows[3]), (np.zeros(9, bool), np.zeros(3))):
        np.testing.assert_array_equal(jax.jit(absorb)(rows, mask).last, expected)


def test_units_of_whole_numbers_do_not_overflow():
    mean, scale = units_of(np.array([[250], [251], [252], [253]], np.uint8))
    assert (mean, scale) == ((251.5,), pytest.approx((np.sqrt(1.25),)))


@pytest.mark.parametrize(("kind", "settings"), [(s7.ImageEncoder, {"channels": 3}), (s7.DenseEncoder, {"hidden": 5})])
def test_pictures_are_divided_by_their_scale(kind, settings):
    pictures = RNG.integers(0, 256, (3, 9, 8, 2)).astype(float)
    plain, scaled = kind((9, 8, 2), **settings), kind((9, 8, 2), scale=255, **settings)
    np.testing.assert_allclose(encode(scaled, pictures), encode(plain, pictures / 255), rtol=1e-12)


def test_an_image_encoder_is_two_convolutions_and_a_linear_map():
    encoder = s7.ImageEncoder((9, 12, 2), channels=3)
    drawn = encoder.init(4, key=jax.random.key(1), dtype=jnp.float64)
    parameters = {name: jnp.asarray(RNG.normal(size=q.shape)) for name, q in drawn.items()}
    pictures = jnp.asarray(RNG.normal(size=(2, 9, 12, 2)))

    @jax.jit
    def plain(parameters, z):
        for n, stride in ((1, 1), (2, 2)):
            z = jax.nn.relu(plain_convolution(z, parameters[f"conv{n}"], stride) + parameters[f"c{n}"])
            z = lax.reduce_window(z, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        return z.reshape(2, -1) @ parameters["W"].T + parameters["c"]

    np.testing.assert_allclose(jax.jit(encoder)(parameters, pictures), plain(parameters, pictures), rtol=1e-12)


@pytest.mark.parametrize(("mean", "scale"), [(0.5, 2.0), ((1.0, -1.0), (2.0, 0.1))])
def test_a_head_answers_in_the_units_of_its_targets(mean, scale):
    features = jnp.asarray(RNG.normal(size=(5, 4)))
    parameters = s7.PerStep(2).init(4, key=jax.random.key(0), dtype=jnp.float64)
    plain = np.asarray(s7.PerStep(2).decode(parameters, features))
    found = s7.PerStep(2, mean, scale).decode(parameters, features)
    np.testing.assert_allclose(found, plain * np.array(scale) + np.array(mean), rtol=1e-12)


def test_a_head_starts_at_the_mean_of_its_targets():
    head = s7.Mean(2, (10.0, -10.0), 3.0)
    parameters = head.init(4, key=jax.random.key(0), dtype=jnp.float64)
    np.testing.assert_array_equal(head.read(parameters, head.start(4, jnp.float64)), [10, -10])


@pytest.mark.parametrize("kind", [s7.LinearEncoder, s7.Mean, s7.PerStep, s7.Retrieval])
@pytest.mark.parametrize(
    ("units", "message"),
    [
        ({"mean": (1.0, 2.0, 3.0)}, "mean has 3 entries, expected one or 2"),
        ({"scale": (1.0,)}, "scale has 1 entries, expected one or 2"),
        ({"mean": float("nan")}, "mean=nan must be finite"),
        ({"mean": (0.0, float("inf"))}, "mean=.* must be finite"),
        ({"scale": 0.0}, "scale=0.0 must be positive"),
        ({"scale": (1.0, -1.0)}, "scale=.* must be positive"),
    ],
    ids=str,
)
def test_invalid_mean_or_scale_is_rejected(kind, units, message):
    with pytest.raises(ValueError, match=f"{kind.__name__}: {message}"):
        kind(2, **units)


@pytest.mark.parametrize("kind", [s7.ImageEncoder, s7.DenseEncoder])
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_an_invalid_scale_is_rejected(kind, scale):
    with pytest.raises(ValueError, match=f"scale={scale}"):
        kind((8, 8, 1), scale=scale)


@pytest.mark.parametrize("shape", [(8, 7, 1), (8, 8)])
@pytest.mark.usefixtures("as_users_see_it")
def test_a_too_small_image_is_rejected(shape):
    with pytest.raises(ValueError, match=r"must be \(height, width, channels\), at least 8×8"):
        s7.ImageEncoder(shape)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: s7.TokenEncoder(0), "TokenEncoder: tokens=0 must be at least 1"),
        (lambda: s7.LinearEncoder(0), "LinearEncoder: inputs=0 must be at least 1"),
    ],
)
def test_encoders_of_nothing_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "table"), [(partial(s7.TokenEncoder, 30), "token"), (partial(s7.EventEncoder, (30, 9)), "x")]
)
def test_initial_vectors_of_neighbours_are_alike_on_request(make, table, key):
    before, independent, smooth = (
        one.init(16, key=key, dtype=jnp.float32)[table] for one in (make(), make(smooth=0.0), make(smooth=2.0))
    )
    assert np.array_equal(before, independent)
    assert np.abs(np.diff(smooth, axis=0)).mean() < 0.5 * np.abs(np.diff(independent, axis=0)).mean()
    with pytest.raises(ValueError, match="smooth=-1 must be finite and not negative"):
        make(smooth=-1)
