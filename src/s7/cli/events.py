"""Describe, convert or draw event files.

The format of a file is recognized by its content. `info` describes a file, `convert` writes it in another format, and
`view` draws accumulated events as a PNG image or a GIF animation.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s7.cli.options import add_json, count, duration

if TYPE_CHECKING:
    from s7.events.container import Events, Size
    from s7.events.formats import EventFormat
    from s7.events.statistics import Summary

SUMMARIES = {
    "info": "Describe an event file: format, sensor, number of events, duration, rate, polarities and order.",
    "convert": "Write an event file in another format.",
    "view": "Draw accumulated events as a PNG image or a GIF animation.",
}
# Images of an animation if its interval is not given.
FRAMES = 60
MOST_FRAMES = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one subcommand per action, with its options."""
    actions = parser.add_subparsers(metavar="action", dest="action", required=True)
    parsers = {name: actions.add_parser(name, help=text, description=text) for name, text in SUMMARIES.items()}
    for name, one in parsers.items():
        one.add_argument("file", type=Path, metavar="FILE" if name != "convert" else "IN", help="event file")
        if name == "convert":
            one.add_argument("out", type=Path, metavar="OUT", help="new file; its extension chooses the format")
            one.add_argument("--format", metavar="NAME", help="format of the new file, regardless of its extension")
            one.add_argument("--from-zero", action="store_true", help="subtract the time of the first event")
            one.add_argument("--reject-unordered", action="store_true", help="fail if timestamps decrease")
        one.add_argument("--input-format", metavar="NAME", help="format of the file, if it is not recognized")
        one.add_argument("--recording", type=int, metavar="N", help="recording to read, if the file holds several")
        one.add_argument(
            "--sensor", type=_size, metavar="WxH", help="size of the sensor, if the file does not record it"
        )
        add_json(one, nested=True)
    view = parsers["view"]
    view.add_argument("--out", type=Path, metavar="FILE", help=".png or .gif file (default: FILE.png)")
    view.add_argument("--start", type=float, default=0.0, metavar="S", help="seconds after the first event (default 0)")
    view.add_argument("--duration", type=duration, metavar="S", help="seconds to draw (default: up to the end)")
    view.add_argument("--every", type=duration, metavar="MS", help=f"milliseconds per image (default: {FRAMES} images)")
    view.add_argument("--fps", type=count, default=20, metavar="N", help="images per second (default 20)")


def _size(text: str) -> "Size":
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) < 2**16 and 0 < int(height) < 2**16):
        raise argparse.ArgumentTypeError(f"expected a width and a height, such as 640x480, not {text!r}")
    return int(width), int(height)


def run(options: argparse.Namespace) -> None:
    """Run the action."""
    {"info": _info, "convert": _convert, "view": _view}[options.action](options)


def _open(options: argparse.Namespace) -> "EventFormat":
    from s7.events.formats import find_format, format_named

    if options.file.is_dir():
        raise IsADirectoryError(f"{options.file}: is a folder; give a file")
    return format_named(options.input_format) if options.input_format else find_format(options.file)


def _blocks(options: argparse.Namespace, form: "EventFormat", text: str) -> "Iterator[Events]":
    """The events of the file, while a progress bar is shown."""
    from s7 import progress
    from s7.events.container import Events
    from s7.events.formats import ByteFormat
    from s7.events.reading import blocks_of

    # The position in the file is known only if it is decoded from its bytes. Otherwise the events are counted.
    streamed = form if isinstance(form, ByteFormat) and not options.recording else None
    total = options.file.stat().st_size if streamed else None
    with progress.bar(text, total, unit="bytes" if streamed else "items") as bar:
        if streamed:
            blocks = streamed.blocks(options.file, bar.advance)
        else:
            blocks = blocks_of(options.file, form, options.recording)
        for block in blocks:
            if not streamed:
                bar.advance(len(block))
            if options.sensor is not None:
                block = Events(block.x, block.y, block.t, block.p, options.sensor)
            yield block


def _describe(options: argparse.Namespace, form: "EventFormat", text: str) -> "Summary":
    from s7.events.statistics import Statistics

    statistics = Statistics(str(options.file))
    for block in _blocks(options, form, text):
        statistics.watch(block)
    return statistics.summary()


def _info(options: argparse.Namespace) -> None:
    form = _open(options)
    found = _describe(options, form, "reading")
    name = form.registry.name_of(type(form))
    if options.json:
        about = {"file": str(options.file), "format": name, "bytes": options.file.stat().st_size}
        print(json.dumps(about | found.to_json()))
        return
    from s7.registry import summary

    print(f"{options.file}")
    for title, text in _lines(found, f"{name} ({summary(type(form))})", options.file.stat().st_size):
        print(f"  {title:<12} {text}")


def _lines(found: "Summary", form: str, size: int) -> list[tuple[str, str]]:
    from s7.data.download import amount

    sensor = "unknown" if found.sensor is None else f"{found.sensor[0]}×{found.sensor[1]} pixels"
    lines = [("format", form), ("size", amount(size)), ("sensor", sensor), ("events", f"{found.events:,}")]
    if found.seconds is not None and found.brighter is not None and found.largest is not None:
        rate = f"{found.rate:,.0f} events per second" if found.rate else "all events at the same time"
        lines += [
            ("time", f"{found.start} to {found.end} µs"),
            ("duration", f"{found.seconds:,.6f} s"),
            ("rate", rate),
            ("positions", f"x up to {found.largest[0]}, y up to {found.largest[1]}"),
        ]
        if found.sensor is None or found.sensor[1] > 1:  # a row of channels has no polarities
            lines.append(("polarity", f"{found.brighter:.1%} brighter, {1 - found.brighter:.1%} darker"))
        back = "once" if found.decreases == 1 else f"{found.decreases:,} times"
        lines.append(("order", f"time goes back {back}" if found.decreases else "time never goes back"))
    return lines


def _convert(options: argparse.Namespace) -> None:
    from s7.events.order import Order
    from s7.events.writing import write_events

    form = _open(options)
    order = Order(str(options.file))
    watch = order.require if options.reject_unordered else order.watch

    def events() -> "Iterator[Events]":
        first = None
        for block in _blocks(options, form, "converting"):
            watch(block)
            if options.from_zero and len(block):
                first = int(block.t[0]) if first is None else first
                block = type(block)(block.x, block.y, block.t - first, block.p, block.sensor)
            yield block

    path = write_events(options.out, events(), format=options.format, sensor=options.sensor)
    if order.count:
        print(f"s7 events: {order.report()}", file=sys.stderr)
    if options.json:
        about = {"path": str(path), "bytes": path.stat().st_size, "events": order.events, "decreases": order.count}
        print(json.dumps(about))
    else:
        print(f"{order.events:,} events: {path}")


def _view(options: argparse.Namespace) -> None:
    from s7.events import pictures

    out = options.out or options.file.with_name(f"{options.file.name}.png")
    kind = out.suffix.lower()
    if kind not in pictures.IMAGES + pictures.ANIMATIONS:
        raise ValueError(f"{out}: the name of a picture must end in .png or .gif")
    form = _open(options)
    found = _describe(options, form, "reading")
    if found.start is None or found.end is None or found.largest is None:
        raise ValueError(f"{options.file}: has no events to draw")
    size = found.sensor or (found.largest[0] + 1, found.largest[1] + 1)
    start = found.start + round(options.start * 1e6)
    end = found.end if options.duration is None else min(start + round(options.duration * 1e6), found.end)
    if start > end:
        raise ValueError(f"--start: {options.start:g} s are after the last event, at {found.seconds:g} s")
    blocks = _blocks(options, form, "drawing")
    about: dict[str, Any]
    if kind in pictures.ANIMATIONS:
        if size[1] == 1:
            raise ValueError(f"{out}: events of one row of channels are drawn over time; write a .png")
        every = round(options.every * 1e3) if options.every else -(-(end - start + 1) // FRAMES)
        if (end - start) // max(every, 1) >= MOST_FRAMES:
            raise ValueError(f"--every: more than {MOST_FRAMES:,} images; choose a longer interval or --duration")
        images = pictures.write_animation(
            out, blocks, size, start, end, max(every, 1), options.file.name, fps=options.fps
        )
        about, text = {"images": images}, f"{images} images"
    else:
        drawn = pictures.write_image(out, blocks, size, start, end, options.file.name)
        about, text = {"events": drawn}, f"{drawn:,} events"
    print(json.dumps({"path": str(out)} | about) if options.json else f"{text}: {out}")
