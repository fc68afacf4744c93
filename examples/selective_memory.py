"""Train a small S7 to remember marked events on an irregular time axis, and plot what its selection does.

Events arrive at random times. Each carries a value, and about one in eight is marked. The target at every event is the
value of the last marked event, decaying with the time since then. Solving this takes selection, to admit marked events
and ignore the others, and time gaps, to forget with elapsed time rather than with the number of events.

    python -m examples.selective_memory --out docs/figures/selective-memory.svg
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import s7

TIME_CONSTANT = 4.0
GREY, BLUE, VERMILION = "#9a9a9a", "#0072B2", "#D55E00"


def simulate(count: int, length: int, seed: int) -> s7.Samples:
    """Recordings of (value, mark) at each event, with the remembered value as target."""
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, (count, length))
    marked = rng.random((count, length)) < 1 / 8
    marked[:, 0] = True
    gaps = rng.exponential(0.3, (count, length)) * rng.choice([1, 8], (count, length), p=[0.9, 0.1])
    gaps[:, 0] = 0
    target, held = np.empty((count, length)), np.zeros(count)
    for k in range(length):
        held = np.where(marked[:, k], value[:, k], held * np.exp(-gaps[:, k] / TIME_CONSTANT))
        target[:, k] = held
    inputs = np.stack([value, marked], -1).astype(np.float32)
    return s7.Samples.of(inputs, target[..., None].astype(np.float32), gaps.astype(np.float32))


def train() -> s7.S7Model:
    """A model of two blocks, trained for about ten seconds."""
    samples = simulate(600, 80, seed=0)
    model = s7.S7Model(
        encoder=s7.LinearEncoder.of(samples),
        head=s7.PerStep(outputs=1),
        width=16,
        state=8,
        depth=2,
        form=s7.Factored(rank=8),
        key=jax.random.key(0),
    )
    trained = s7.train(model, samples, valid=simulate(100, 80, seed=1), epochs=30, learning_rate=1e-2)
    print(f"validation RMSE {trained.result['valid']['rmse']:.3f}")
    return trained.model


def admitted(model: s7.S7Model, inputs: Float[np.ndarray, "L I"], gaps: Float[np.ndarray, " L"]) -> np.ndarray:
    """|B_k u_k + b_k| of the first block's most selective state at every event."""
    signal = model.encode(inputs, gaps, None)
    block = model.blocks[0]
    normalise, _ = block.norm.prepare(signal.values, None, None)
    u = normalise(signal.values)
    assert isinstance(block.layer, s7.S7Layer)
    matrices = block.layer.matrices(u, signal.dt)
    size = np.abs(np.einsum("kph,kh->kp", matrices.B, u) + matrices.b)
    marked = inputs[:, 1] > 0.5
    return size[:, np.argmax(size[marked].mean(0) / size[~marked].mean(0))]


def plot(model: s7.S7Model, out: Path) -> None:
    """One recording: events, what the selection admits, target and output."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    samples = simulate(100, 80, seed=1).take([3])
    inputs, targets, gaps = samples.inputs, samples.targets[:, 0], samples.dt
    assert gaps is not None
    time, marked = np.cumsum(gaps), inputs[:, 1] > 0.5
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    with plt.rc_context(style | {"svg.hashsalt": "s7", "svg.fonttype": "none"}):
        figure, (events, selection, output) = plt.subplots(3, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
        for shown, colour, label in ((~marked, GREY, "event"), (marked, VERMILION, "marked event")):
            events.vlines(time[shown], 0, inputs[shown, 0], color=colour, linewidth=1.2)
            events.plot(time[shown], inputs[shown, 0], "o", color=colour, markersize=4, label=label)
        events.axhline(0, color="black", linewidth=0.5)
        events.set_ylabel("input")
        size = admitted(model, inputs, gaps)
        selection.vlines(time, 0, size, color=[VERMILION if mark else GREY for mark in marked], linewidth=2)
        selection.set_ylabel("input admitted\nto a state")
        output.plot(time, targets, color="black", linewidth=1, label="target")
        output.plot(time, model(inputs, gaps)[:, 0], "o", color=BLUE, markersize=3.5, label="S7")
        output.set(ylabel="output", xlabel="time")
        for axes in (events, output):
            axes.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.25))
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    print(f"figure: {out}")


def main() -> None:
    """Train and plot."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.selective_memory", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("selective-memory.svg"), help="the figure to write")
    options = parser.parse_args()
    plot(train(), options.out)


if __name__ == "__main__":
    main()
