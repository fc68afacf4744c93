"""Serve a model over HTTP and WebSocket, with a page that shows events, scores and the selection live.

Each connection has its own stream. A token is required unless the host is a loopback address: it is taken from --token
or $S7_TOKEN, or generated and printed. Metrics are at /metrics.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s7.cli.options import count, duration, names

if TYPE_CHECKING:
    from s7.live.server import Server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", type=Path, metavar="RUN", help="run folder or model file")
    parser.add_argument("--file", type=Path, metavar="FILE", help="event file to play on every connection")
    parser.add_argument(
        "--clip",
        action="store_true",
        help="treat events that go back in time as simultaneous with the event before them instead of failing",
    )
    parser.add_argument(
        "--recording", type=int, metavar="N", help="recording to play, from 0, if the file holds several"
    )
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="pace the file by its timestamps instead of playing it as fast as possible",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8077, help="port to listen on (default 8077; 0 for a free one)")
    parser.add_argument("--token", metavar="TEXT", help="token that clients must present (default: $S7_TOKEN)")
    parser.add_argument(
        "--origins", type=names, default=[], metavar="URL,URL", help="other origins whose pages may connect"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-connections", type=count, default=32, metavar="N", help="number of connections (default 32)"
    )
    limits.add_argument(
        "--max-rate", type=duration, default=1e6, metavar="N", help="events per second and connection (default 1e6)"
    )
    limits.add_argument(
        "--max-message", type=count, default=1 << 20, metavar="BYTES", help="size of a message (default 1048576)"
    )
    limits.add_argument(
        "--max-upload",
        type=count,
        default=64 << 20,
        metavar="BYTES",
        help="size of an uploaded file (default 67108864)",
    )
    limits.add_argument(
        "--idle", type=duration, default=300.0, metavar="S", help="seconds before idle connections close (default 300)"
    )
    parser.add_argument(
        "--time-unit",
        metavar="UNIT",
        help="unit of the time gaps that the model was trained with: ns, us, ms, s, min, h or D (default: ms for "
        "events and tokens, s for numbers)",
    )


def run(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    try:
        import websockets  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError("s7 serve needs the package websockets: pip install 's7-ssm[serve]'") from None
    from s7.live.access import Access, is_loopback
    from s7.live.limits import Limits
    from s7.live.runner import load_model
    from s7.live.server import Server
    from s7.live.session import Served

    if options.file is not None and not options.file.is_file():
        raise FileNotFoundError(f"{options.file}: no such file")
    if not 0 <= options.port < 2**16:
        raise ValueError(f"--port {options.port}: expected 0 to 65535")
    token = options.token or os.environ.get("S7_TOKEN") or None
    if token is None and not is_loopback(options.host):
        token = secrets.token_urlsafe(24)
    limits = Limits(
        connections=options.max_connections,
        rate=options.max_rate,
        message=options.max_message,
        upload=options.max_upload,
        idle=options.idle,
    )
    served = Served.of(load_model(options.model), options.model.resolve().name, options.time_unit)
    speed = 1.0 if options.realtime else None
    access = Access(token, options.origins)
    playback = {"file": options.file, "recording": options.recording, "clip": options.clip, "speed": speed}
    server = Server(served, limits, access, **playback)
    asyncio.run(_serve(server, options, token))


async def _serve(server: "Server", options: argparse.Namespace, token: str | None) -> None:
    try:
        port = await server.start(options.host, options.port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            f"{options.host}, port {options.port}: cannot listen ({reason}); choose another --host or --port"
        ) from None
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{host}:{port}/" + ("" if token is None else f"?token={token}")
    print(json.dumps({"url": url}) if options.json else f"serving {options.model} at {url} (Ctrl-C stops)", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()
    metrics = server.metrics
    about: dict[str, Any] = {"connections": metrics.connections, "events": metrics.events, "dropped": metrics.dropped}
    about |= {"latency_ms": metrics.latency.summary()}
    if options.json:
        print(json.dumps({"summary": about}))
    else:
        print(f"served {metrics.connections:,} connections, {metrics.events:,} events, {metrics.dropped:,} dropped")
