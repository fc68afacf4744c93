"""Blocks that are computed again in the backward pass: the same gradients, with less memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.data.batching import Batch
from s7.training import CrossEntropy, TrainConfig
from s7.training.optimizer import AdamW
from s7.training.parameters import flatten
from s7.training.steps import TrainState, TrainStep, arrays_of, planned_bytes

BLOCKS = TrainConfig(remat="blocks")
SHORT = TrainConfig(remat="blocks", precision="bfloat16")


@pytest.fixture(scope="module")
def problem():
    """A model with batch norm and dropout, and a batch with padding."""
    rng = np.random.default_rng(0)
    options = {"width": 8, "state": 4, "depth": 2, "form": s7.Factored(rank=2), "norm": "batch", "dropout": 0.1}
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), **options, key=jax.random.key(0))
    x = rng.normal(size=(2, 512, 1)).astype(np.float32)
    dt = rng.exponential(size=(2, 512)).astype(np.float32)
    return model, Batch(x, dt, np.array([512, 300], np.int32), None, np.array([0, 1]), np.ones(2, np.float32))


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_recomputed_blocks_have_the_same_gradients_and_less_memory(problem, backend):
    model, batch = problem
    layout, trained, carried = flatten(model)
    optimizer = AdamW.of(TrainConfig(clip_norm=0), layout, 10)
    results, planned = [], []
    for config in (TrainConfig(), BLOCKS, SHORT):
        state = TrainState(*jax.tree.map(jnp.array, (trained, carried, optimizer.init(trained))), jnp.asarray(True))
        arguments = (arrays_of(optimizer), state, batch, jax.random.key(1))
        with s7.backend(backend):
            step = TrainStep(layout, CrossEntropy(2), optimizer, config=config).compiled.lower(*arguments).compile()
        new, outcome = step(*arguments)
        results.append((new.memory, new.carried, outcome.sums))
        planned.append(planned_bytes(step))
    whole, again, rounded = results
    assert relative(again, whole) < 1e-5
    assert 1e-5 < relative(rounded, whole) < 0.05
    assert relative(rounded[2], whole[2]) < 2e-3  # the loss
    assert planned[2] <= planned[1] < 0.85 * planned[0]


def relative(found, expected) -> float:
    """The largest difference between two trees, relative to the largest value of each array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-6)) for one, other in pairs if one.size)


def test_training_with_bfloat16_is_close_and_resumes(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 64, 1)).astype(np.float32)
    data = s7.Samples.of(x, (x.mean((1, 2)) > 0).astype(int))
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=4, state=3, key=jax.random.key(0))
    short = {"remat": "blocks", "precision": "bfloat16"}
    shared = {"batch_size": 8, "epochs": 3, "progress": False}
    whole = s7.train(model, data, data, **shared)
    rounded = s7.train(model, data, data, **shared, **short, out=tmp_path / "run")
    for one, other in zip(rounded.history, whole.history, strict=True):
        assert one["valid"]["loss"] == pytest.approx(other["valid"]["loss"], rel=0.02)
    assert rounded.model.head["W"].dtype == jnp.float32
    # How much is computed twice does not matter to a run; the precision does.
    with pytest.raises(ValueError, match=r"it was started with train.precision='bfloat16', not None"):
        s7.train(model, data, data, **shared, out=tmp_path / "run", resume=True)


def test_settings_that_exclude_each_other():
    with pytest.raises(ValueError, match="precision='bfloat16' is the type of what remat='blocks' keeps"):
        TrainConfig(precision="bfloat16")
