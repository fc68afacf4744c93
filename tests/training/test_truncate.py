"""Truncated backpropagation: segments give the outputs of whole sequences, and a run in segments resumes bit-equal."""

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import s7
from s7 import segments
from s7.data.batching import Segments
from s7.training import Interrupted

from .test_training import StopAt, classifier, lines, sums

PER_STEP = s7.PerStep(1)


def streams(lengths, seed=0):
    """Recordings whose target at each step is the sum of the last two values."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, 1)).astype(np.float32) for n in lengths]
    return x, [one + np.concatenate([[[0]], one[:-1]]) for one in x], [rng.uniform(0.1, 2, n) for n in lengths]


@pytest.mark.parametrize("head", [s7.TimeMean(2), s7.PerStep(2)])
def test_segments_give_the_outputs_of_the_whole_sequence(head, key):
    stages = (s7.Stage(1, stride=2), s7.Stage(1))
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=head, width=4, state=3, stages=stages, key=key)
    length, ((x,), _, (dt,)) = 13, streams([16])
    run = jax.jit(lambda *arguments: segments.run(model, *arguments, key=None, batch_axis=None))
    carried, outputs = segments.start(model), []
    for first in range(0, 20, 4):
        part = slice(first, first + 4)
        inputs, gaps = (
            np.resize(q[part], (4, *q.shape[1:])) if first < 16 else np.zeros((4, *q.shape[1:])) for q in (x, dt)
        )
        out, _, carried = run(inputs, gaps, np.clip(length - first, 0, 4), carried)
        outputs.append(out)
    whole = model(x, dt, length)
    if head.per_step:
        outputs, whole = [np.concatenate(outputs)[:7]], whole[:7]
    np.testing.assert_allclose(outputs[-1], whole, rtol=1e-5, atol=1e-6)


def test_segments_of_an_epoch_follow_each_other():
    samples = s7.Samples.of(*streams([7, 5, 7, 6, 5]), per_step=True)
    batching = Segments(2, buckets=1, longest=3)
    plans = batching.epoch(samples.lengths, 0, 0)
    assert [plan.first for plan in plans] == [0, 3, 6] * 3
    batches = [batching.assemble(samples, plan) for plan in plans]
    assert {batch.inputs.shape for batch in batches} == {(2, 3, 1)}
    assert [batch.starts.tolist() for batch in batches[:3]] == [[True] * 2, [False] * 2, [False] * 2]
    assert sum(batch.weight.sum() for batch in batches) == samples.lengths.sum()
    for row, sample in enumerate(np.concatenate(plans[0].rows).tolist()):
        seen = [batch.inputs[row, : batch.length[row]] for batch in batches[:3]]
        np.testing.assert_array_equal(np.concatenate(seen), samples.take([sample]).inputs)


def test_segments_as_long_as_the_sequences_change_nothing():
    settings = {"epochs": 1, "batch_size": 7, "learning_rate": 0.05}
    whole, cut = (
        s7.train(classifier(dropout=0.2), sums(), sums(8, 1), **settings, **more) for more in ({}, {"truncate": 10})
    )
    for mine, theirs in zip(cut.history, whole.history, strict=True):
        assert mine["train"] == pytest.approx(theirs["train"], rel=1e-6)
        assert mine["valid"] == pytest.approx(theirs["valid"], rel=1e-6)


def test_a_run_in_segments_learns_and_resumes_bit_equal(tmp_path):
    data = streams(np.arange(20, 32))
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=PER_STEP, width=4, state=3, depth=1, key=jax.random.key(0))
    arguments = (model, data, streams([20, 30], 1))
    settings = {"epochs": 2, "batch_size": 4, "truncate": 8, "learning_rate": 0.03}
    whole = s7.train(*arguments, **settings, out=tmp_path / "whole")
    assert whole.history[-1]["valid"]["mse"] < 1.2  # the variance of the targets is 2
    with pytest.raises(Interrupted):  # between two segments
        s7.train(*arguments, **settings, out=tmp_path / "run", callbacks=[StopAt(6)])
    stored = load_file(tmp_path / "run" / "last.safetensors")
    assert any(name.startswith("stream.") and np.any(array) for name, array in stored.items())
    s7.train(*arguments, **settings, out=tmp_path / "run", resume=True)
    assert lines(tmp_path / "run") == lines(tmp_path / "whole")
    for name in ("best.safetensors", "last.safetensors"):
        mine, theirs = (load_file(tmp_path / folder / name) for folder in ("run", "whole"))
        assert all(np.array_equal(mine[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize(
    ("changes", "truncate", "message"),
    [
        ({"bidirectional": True}, 4, "bidirectional model reads a sequence from its end"),
        (
            {"stages": (s7.Stage(1, stride=4),)},
            6,
            "truncate=6 is not a multiple of the model's stride, 4",
        ),
        ({}, 0, "truncate=0 must be at least 1"),
    ],
)
def test_what_cannot_be_cut_is_an_error(changes, truncate, message):
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=4, state=3, key=jax.random.key(0), **changes)
    with pytest.raises(ValueError, match=message):
        s7.train(model, sums(), sums(8, 1), truncate=truncate)
