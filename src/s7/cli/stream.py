"""Print a model's predictions as events arrive from a file or from standard input.

The input is an event file of any format, or lines of numbers: `t x y p` (microseconds, column, row, polarity) for
models of event cameras, `[t] v1 … vn` for models of numbers, `[t] token` for models of tokens. A line starts with a
time t if the model uses time gaps.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s7.cli.options import duration

if TYPE_CHECKING:
    from s7.live.inputs import Inputs
    from s7.live.runner import Outputs
    from s7.live.schedule import Every
    from s7.live.streaming import Prediction, Streaming

# How many classes a line names.
SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", type=Path, metavar="RUN", help="run folder or model file")
    parser.add_argument("file", metavar="FILE", help="event file, or - for standard input")
    parser.add_argument(
        "--every",
        metavar="N|TIME",
        help="interval between predictions: a number of events, or a time such as 10ms "
        "(default: 10ms, or every event if the model does not use time gaps)",
    )
    parser.add_argument(
        "--clip",
        action="store_true",
        help="treat events that go back in time as simultaneous with the event before them instead of failing",
    )
    parser.add_argument(
        "--recording", type=int, metavar="N", help="recording to read, from 0, if the file holds several"
    )
    parser.add_argument("--realtime", action="store_true", help="pace events by their timestamps")
    parser.add_argument(
        "--speed", type=duration, default=1.0, metavar="X", help="speed of --realtime (default 1; 0.5 is half speed)"
    )
    parser.add_argument(
        "--max-lag",
        type=duration,
        default=100.0,
        metavar="MS",
        help="with --realtime, drop events that are more than this many milliseconds late (default 100)",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="restore the state from this file if it exists, and save the state there on exit",
    )
    parser.add_argument(
        "--time-unit",
        metavar="UNIT",
        help="unit of the time gaps that the model was trained with: ns, us, ms, s, min, h or D (default: ms for "
        "events and tokens, s for numbers)",
    )


def run(options: argparse.Namespace) -> int:
    """Stream, print the statistics and save the state."""
    from s7.interrupts import STATUS, Interrupts
    from s7.live.schedule import Every

    interrupts = Interrupts(early_exit="stopped before the first event", finishing="stopping")
    with interrupts.installed():
        every = None if options.every is None else Every.parse(options.every)
        streaming, outputs = _prepare(options, every, lambda: interrupts.requested)
        interrupts.early_exit = None
        try:
            for prediction in _predictions(options, streaming):
                _print_prediction(options, prediction, streaming.live.inputs, outputs)
        except (ValueError, OSError):
            if streaming.statistics.events:
                _finish(options, streaming)
            raise
        _finish(options, streaming)
    return STATUS if interrupts.requested else 0


def _finish(options: argparse.Namespace, streaming: "Streaming") -> None:
    """Save the state and print the statistics."""
    streaming.feed.close()
    state = None
    try:
        if options.state is not None:
            streaming.live.save(options.state)
            state = str(options.state)
    finally:
        _print_summary(options, streaming, state)


def _prepare(options: argparse.Namespace, every: "Every | None", stop: Any) -> "tuple[Streaming, Outputs]":
    from s7.live.feed import Feed
    from s7.live.inputs import Inputs
    from s7.live.runner import LiveStream, Outputs, load_model
    from s7.live.schedule import Every, Schedule
    from s7.live.sources import open_source
    from s7.live.streaming import Streaming
    from s7.stream import Stream

    model = load_model(options.model)
    inputs = Inputs.of(model.config, options.time_unit)
    if not inputs.timed and (options.realtime or (every is not None and every.seconds is not None)):
        needed = "--realtime" if options.realtime else f"--every {options.every}"
        raise ValueError(f"{needed}: the model reads events without times; use --every N, a number of events")
    source = open_source(options.file, inputs, recording=options.recording, clip=options.clip)
    if options.state is not None and options.state.exists():
        live = LiveStream.restore(model, inputs, options.state)
    else:
        live = LiveStream(Stream(model), inputs)
    every = every or (Every(seconds=0.01) if inputs.timed else Every(events=1))
    return Streaming(live, Feed(source), Schedule(every, inputs.seconds), stop), Outputs(model.config)


def _predictions(options: argparse.Namespace, streaming: "Streaming") -> "Iterator[Prediction]":
    from s7.live.pacing import Pacer

    if not options.realtime:
        return streaming.predictions()
    return streaming.paced(Pacer(streaming.live.inputs.seconds, options.speed), options.max_lag / 1e3)


def _print_prediction(
    options: argparse.Namespace, prediction: "Prediction", inputs: "Inputs", outputs: "Outputs"
) -> None:
    about: dict[str, Any] = {"events": prediction.events}
    if prediction.time is not None:
        about["seconds"] = round(prediction.time * inputs.seconds, 9)
    if prediction.lag is not None:
        about["lag_ms"] = round(prediction.lag * 1e3, 3)
    if options.json:
        print(json.dumps(about | outputs.describe(prediction.answer)), flush=True)
        return
    words = [f"{about['seconds']:12.6f} s"] if "seconds" in about else []
    words += [f"{prediction.events:>11,} events", *_score_words(prediction, outputs)]
    if prediction.lag is not None:
        words.append(f"{about['lag_ms']:8.2f} ms late")
    print("  ".join(words), flush=True)


def _score_words(prediction: "Prediction", outputs: "Outputs") -> list[str]:
    from s7.publishing.text import number

    scores = outputs.scores(prediction.answer).tolist()
    if not outputs.is_classifier:
        return [number(score) for score in scores]
    width = max(map(len, outputs.names))
    best = sorted(range(len(scores)), key=lambda n: -scores[n])[:SHOWN]
    return [f"{outputs.names[n]:>{width}} {100 * scores[n]:5.1f} %" for n in best]


def _print_summary(options: argparse.Namespace, streaming: "Streaming", state: str | None) -> None:
    about = streaming.statistics.summary()
    if options.json:
        print(json.dumps({"summary": about | {"state": state}}), flush=True)
        return
    from s7.publishing.text import count

    statistics = streaming.statistics
    print(
        f"\n{count(statistics.events, 'event')}, {count(statistics.predictions, 'prediction')} in "
        f"{statistics.seconds:.3f} s; the model was busy for {statistics.busy:.3f} s "
        f"({about['events_per_busy_second']:,} events/s)"
    )
    for name, title in (("latency_ms", "latency"), ("lag_ms", "lag")):
        if about.get(name):
            print(f"{title:<8}" + "  ".join(f"{key} {value:.3f} ms" for key, value in about[name].items()))
    if options.realtime:
        print(f"dropped {count(statistics.dropped, 'event')} that were more than {options.max_lag:g} ms late")
    if state:
        print(f"state saved in {state}")
