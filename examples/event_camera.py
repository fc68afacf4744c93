"""Recognise the direction of a moving bar from the events of a simulated camera, and stream a recording.

python -m examples.event_camera
python -m examples.event_camera --out docs/figures/event-camera.svg
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import s7

SENSOR = (16, 16)
DIRECTIONS = ("right", "left", "down", "up")


def simulate(direction: str, rng: np.random.Generator, events: int = 300, noise: float = 0.3) -> s7.Events:
    """Events of a bar that moves by eight pixels in 100 to 200 ms, in noise: its front is bright, its back dark."""
    t = np.sort(rng.uniform(0, 1, events))
    bright = rng.random(events) < 0.5
    along = rng.uniform(2, 6) + 8 * t + np.where(bright, 1.5, -1.5) + rng.normal(0, 0.5, events)
    across = rng.integers(0, 16, events)
    stray = rng.random(events) < noise
    along = np.where(stray, rng.integers(0, 16, events), np.clip(along, 0, 15)).astype(int)
    if direction in ("left", "up"):
        along = 15 - along
    x, y = (along, across) if direction in ("left", "right") else (across, along)
    return s7.Events(x, y, (t * rng.uniform(1e5, 2e5)).astype(np.int64), bright.astype(int), SENSOR)


def tokens_and_gaps(events: s7.Events) -> tuple[np.ndarray, Float[np.ndarray, " E"]]:
    """What the model reads: tokens, and gaps in milliseconds."""
    return s7.tokenize(events.x, events.y, events.p, sensor=SENSOR), s7.gaps(events.t) / 1000


def train(recordings: int, epochs: int) -> s7.S7Model:
    """A model that pools windows of 8 events, and 4 of these."""
    rng = np.random.default_rng(0)
    labels = [DIRECTIONS[n % 4] for n in range(recordings)]
    inputs, gaps = zip(*(tokens_and_gaps(simulate(label, rng)) for label in labels), strict=True)
    model = s7.S7Model(
        encoder=s7.EventEncoder(SENSOR, token=False),  # a vector per pixel would overfit so few recordings
        head=s7.Mean(outputs=4),
        width=24,
        state=8,
        stages=[s7.Stage(depth=1, stride=8), s7.Stage(depth=1, stride=4)],
        form=s7.Factored(rank=8),
        key=jax.random.key(0),
    )
    data = s7.Samples.of(list(inputs), labels, list(gaps))
    settings: Any = {"epochs": epochs, "batch_size": 10, "learning_rate": 1e-2, "progress": False}
    trained = s7.train(model, data, valid=0.2, **settings)
    print(f"validation accuracy {trained.result['valid']['accuracy']:.2f}")
    return trained.model


def scores_over_time(model: s7.S7Model, events: s7.Events) -> Float[np.ndarray, "E C"]:
    """The probability of each class after every event."""
    stream, scores = s7.Stream(model), []
    for token, gap in zip(*tokens_and_gaps(events), strict=True):
        stream.push(token, gap)
        scores.append(stream.answer())
    exponentials = np.exp(np.array(scores) - np.max(scores, 1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def plot(model: s7.S7Model, events: s7.Events, scores: Float[np.ndarray, "E C"], out: Path) -> None:
    """Where events happen over time, how the stages pool them, and the scores."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    looks = {"right": ("#0072B2", "-"), "left": ("#D55E00", "--"), "down": ("#009E73", "-."), "up": ("#767676", ":")}
    with plt.rc_context(style | {"svg.hashsalt": "s7", "svg.fonttype": "none"}):
        shape: Any = {"figsize": (8, 5), "height_ratios": (4, 2, 4), "sharex": True, "layout": "constrained"}
        figure, (places, pooled, curves) = plt.subplots(3, 1, **shape)
        time = events.t / 1000
        for polarity, colour, label in ((1, "#D55E00", "brighter"), (0, "#0072B2", "darker")):
            shown = events.p == polarity
            places.plot(time[shown], events.x[shown], ".", color=colour, markersize=4, label=label)
        places.set(ylabel="column", ylim=(-1, 16))
        stride = 1
        for row in range(3):
            if row:
                stride *= model.config.stages[row - 1].stride
            steps = np.append(time[stride - 1 :: stride], time[-1:] if len(time) % stride else [])
            pooled.vlines(steps, -row - 0.35, -row + 0.35, color="black", linewidth=0.5 + 0.5 * row)
            pooled.annotate(f"{len(steps)}", (1.02, -row), xycoords=("axes fraction", "data"), va="center")
        pooled.set_yticks([0, -1, -2], ["events", "after stage 1", "after stage 2"])
        pooled.tick_params(length=0)
        names = model.config.classes
        for name in DIRECTIONS:
            colour, dashes = looks[name]
            curves.plot(time, scores[:, names.index(name)], dashes, color=colour, linewidth=1.6, label=name)
        curves.set(ylabel="probability", xlabel="time (ms)", ylim=(-0.02, 1.02))
        for axes in (places, curves):
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    print(out)


def main(arguments: list[str] | None = None) -> None:
    """Train, stream a new recording, and plot the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, help="write a figure to this file")
    options = parser.parse_args(arguments)
    model = train(options.recordings, options.epochs)
    events = simulate("right", np.random.default_rng(1))
    scores = scores_over_time(model, events)
    for share in (10, 25, 50, 100):
        at = len(events) * share // 100 - 1
        best = int(scores[at].argmax())
        print(f"after {events.t[at] / 1000:5.1f} ms: {model.config.classes[best]} {scores[at, best]:.2f}")
    if options.out is not None:
        plot(model, events, scores, options.out)


if __name__ == "__main__":
    main()
