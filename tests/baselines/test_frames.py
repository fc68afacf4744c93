"""Models of frames: frames, convolutions and patches against loops in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s7.baselines.bet import BinaryPatches
from s7.baselines.cnn_s5 import FrameCnn
from s7.baselines.frames import FrameKind
from s7.config import build_config
from s7.encoders import EventEncoder, LinearEncoder, TokenEncoder
from s7.frame_encoder import FrameEncoder
from s7.heads import Mean
from s7.job import Job
from s7.model import S7Model
from s7.settings import convert
from s7.tokens import tokenize

LENGTH, WIDTH = 11, 4


def frames_of(kind: FrameKind, tokens) -> list[np.ndarray]:
    """The frame after each event, from the coordinates of the pixels."""
    columns, rows, channels = kind.shape
    square = -(-max(columns, rows) // (kind.cells if columns > 1 else 4 * kind.cells))
    found, frame = [], np.zeros(kind.grid)
    for n, token in enumerate(tokens):
        frame = np.zeros(kind.grid) if n % kind.events == 0 else frame.copy()
        pixel, channel = divmod(int(token), channels)
        x, y = divmod(pixel, rows)
        frame[x // square, y // square, channel] += 1
        found.append(frame)
    return found


def convolved(frame, kernel, stride):
    """A convolution with zeros around the picture, centred on every `stride`-th cell."""
    high, wide, _, outputs = kernel.shape
    size = [-(-side // stride) for side in frame.shape[:2]]
    before = [
        max((n - 1) * stride + k - side, 0) // 2 for n, k, side in zip(size, (high, wide), frame.shape, strict=False)
    ]
    result = np.zeros((*size, outputs))
    for x, y in np.ndindex(*size):
        for a, b in np.ndindex(high, wide):
            i, j = x * stride + a - before[0], y * stride + b - before[1]
            if 0 <= i < frame.shape[0] and 0 <= j < frame.shape[1]:
                result[x, y] += frame[i, j] @ kernel[a, b]
    return result


def pooled(z):
    size = [-(-side // 2) for side in z.shape[:2]]
    return np.array(
        [[z[2 * x : 2 * x + 2, 2 * y : 2 * y + 2].max((0, 1)) for y in range(size[1])] for x in range(size[0])]
    )


def cnn(kind, p, frame):
    z = np.maximum(pooled(convolved(frame, p["conv1"], 1)) + p["c1"], 0)
    z = np.maximum(pooled(convolved(z, p["conv2"], 2)) + p["c2"], 0)
    return p["W"] @ z.ravel() + p["c"]


def norm(u):
    return (u - u.mean()) / np.sqrt(u.var() + 1e-5)


def patches(kind, p, frame):
    columns, rows, channels = kind.grid
    wide, high = min(kind.patch, columns), min(kind.patch, rows)
    cells = []
    for x in range(0, columns, wide):
        for y in range(0, rows, high):
            patch = np.zeros((wide, high, channels))
            part = np.minimum(frame[x : x + wide, y : y + high], 1)
            patch[: part.shape[0], : part.shape[1]] = part
            cells.append(p["W_p"] @ patch.ravel())
    places = np.array(cells) + p["place"]
    u = np.array([norm(one) for one in places])
    q, k, v = np.split(u @ p["W_qkv"].T, 3, axis=1)
    outputs = []
    for i, one in enumerate(places):
        found = []
        for head in np.split(np.arange(WIDTH), kind.heads):
            scores = np.array([q[i, head] @ key[head] / np.sqrt(len(head)) for key in k])
            weights = np.exp(scores - scores.max())
            found.append(weights / weights.sum() @ v[:, head])
        z = p["W_o"] @ np.concatenate(found)
        units = p["W_1"] @ norm(u[i] + z) + p["b_1"]
        units = 0.5 * units * (1 + np.tanh(np.sqrt(2 / np.pi) * (units + 0.044715 * units**3)))
        outputs.append(one + z + p["W_2"] @ units + p["b_2"])
    return np.mean(outputs, axis=0)


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        (FrameCnn(shape=(9, 11, 2), events=5, channels=3), cnn),
        (FrameCnn(shape=(1, 40, 1), events=4, cells=5, channels=2), cnn),  # pairs of 40 channels along a line
        (BinaryPatches(shape=(9, 11, 2), events=5, cells=6, patch=4, heads=2), patches),
        (BinaryPatches(shape=(1, 12, 1), events=4, patch=5, heads=1), patches),
    ],
)
def test_features_of_frames(kind, features):
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, np.prod(kind.shape), LENGTH)
    with jax.enable_x64(True):
        layer = kind.layer(WIDTH, 1, key=jax.random.key(1), dtype=jnp.float64)
        layer = jax.tree.map(lambda q: q + 0.3 * rng.standard_normal(q.shape), layer)
        u = np.zeros((LENGTH, WIDTH))
        u[:, 0] = tokens
        parameters = {name: np.asarray(q) for name, q in layer.parameters.items()}
        wanted = [features(kind, parameters, frame) for frame in frames_of(kind, tokens)]
        found = jax.jit(lambda layer, u: layer(u)[0])(layer, u)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_cells_of_a_sensor_are_those_of_its_tokens():
    kind = FrameCnn(shape=(128, 96, 2))
    assert kind.grid == (32, 24, 2)
    tokens = tokenize([0, 127, 4], [0, 95, 3], [0, 1, 1], sensor=(128, 96))
    cells = kind.cell_of_token()[tokens]
    np.testing.assert_array_equal(np.unravel_index(cells, kind.grid), [[0, 31, 1], [0, 23, 0], [0, 1, 1]])
    assert FrameCnn(shape=(1, 700, 1)).grid == (1, 140, 1)


def test_a_frame_is_a_multiple_of_the_stride():
    layer = FrameCnn(events=6).layer(WIDTH, 1, key=jax.random.key(0), dtype=jnp.float32)
    with pytest.raises(ValueError, match="a stride of 4 does not divide frames of 6 events"):
        layer.states(jnp.zeros(8, int), stride=4)
    with pytest.raises(ValueError, match="bidirectional"):
        layer.states(jnp.zeros(6, int), reverse=True)


def test_the_encoder_takes_its_shape_from_that_of_the_data():
    table = {"kind": "FrameEncoder", "layer": {"kind": "FrameCnn"}}
    shapes = {}
    for given in (EventEncoder((34, 30)), TokenEncoder(200)):
        encoder = convert(FrameEncoder.completed(table, given), FrameEncoder, "encoder")
        shapes[type(given).__name__] = encoder.layer.shape
        assert encoder.size == given.size
    assert shapes == {"EventEncoder": (34, 30, 2), "TokenEncoder": (1, 200, 1)}
    with pytest.raises(ValueError, match="the inputs of this task are not tokens"):
        FrameEncoder.completed(table, LinearEncoder(3))


def test_the_first_block_has_no_gate_and_the_others_are_those_of_s5():
    table = Job("nmnist", model="cnn-s5").tables["model"]
    given = {"encoder": FrameEncoder(FrameCnn(shape=(34, 34, 2))), "head": Mean(10)}
    table = {name: value for name, value in table.items() if name != "encoder"}
    model = S7Model(build_config(table, "model", given), key=jax.random.key(0))
    assert model.blocks[0].gate is None
    assert model.blocks[1].gate is not None
    assert type(model.blocks[1].layer).__name__ == "S7Layer"
    assert model.stride == 128
