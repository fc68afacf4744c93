"""Load on the server of `s7 serve`: `python -m benchmarks.serve`.

Many clients on the loopback interface send events to one server, which runs in a process of its own. First each client
sends at the pace of a camera; then each sends as fast as it gets answers. Latencies are those that clients see, from
sending a message to receiving its answer. Clients and server share the processor.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import numpy as np

from s7.live.latency import Latencies

SUBSCRIBE = json.dumps({"type": "subscribe", "frames": False, "answers": True})
MESSAGE_SECONDS = 0.05


@dataclass
class Load:
    """What the clients did."""

    events: int = 0
    latency: Latencies = field(default_factory=Latencies)
    # Seconds of processor time of the server.
    server: float = 0.0


def main() -> None:
    """Measure and print both kinds of load."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=100, help="connections at the same time (default 100)")
    parser.add_argument("--rate", type=int, default=2000, help="events per second of a paced stream (default 2000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sensor = _save_model(folder)
        arguments = ["serve", folder, "--port", "0", "--max-connections", str(options.streams), "--json"]
        process = subprocess.Popen([sys.executable, "-m", "s7", *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            page = json.loads(process.stdout.readline())["url"]
            url = page.replace("http", "ws", 1) + "stream"
            for rate in (options.rate, None):
                before = _processor_seconds(page)
                load, seconds = asyncio.run(_measure(url, sensor, options.streams, rate, options.seconds))
                load.server = _processor_seconds(page) - before
                _print(options, rate, load, seconds)
        finally:
            process.terminate()
            process.communicate(timeout=20)


def _processor_seconds(page: str) -> float:
    with urlopen(f"{page}metrics") as response:
        lines = response.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("s7_cpu_seconds_total "))


def _save_model(folder: str) -> tuple[int, int]:
    """Save an untrained model of N-MNIST, of the size of its preset; returns the size of its sensor."""
    import jax

    import s7
    from s7.bench.cases import ours_config

    model = s7.S7Model(ours_config("nmnist"), key=jax.random.key(0))
    s7.save(model, folder)
    return model.config.encoder.sensor  # type: ignore[attr-defined]


async def _measure(
    url: str, sensor: tuple[int, int], streams: int, rate: int | None, seconds: float
) -> tuple[Load, float]:
    load, ready, start = Load(), asyncio.Barrier(streams + 1), asyncio.Event()
    tasks = [asyncio.create_task(_client(url, sensor, n, rate, seconds, load, ready, start)) for n in range(streams)]
    async with asyncio.timeout(60):
        await ready.wait()
    began = time.perf_counter()
    start.set()
    await asyncio.gather(*tasks)
    return load, time.perf_counter() - began


async def _client(
    url: str,
    sensor: tuple[int, int],
    number: int,
    rate: int | None,
    seconds: float,
    load: Load,
    ready: asyncio.Barrier,
    start: asyncio.Event,
) -> None:
    from websockets.asyncio.client import connect

    random = np.random.default_rng(number)
    size = 200 if rate is None else max(1, round(rate * MESSAGE_SECONDS))
    async with connect(url, compression=None) as socket:
        hello = json.loads(await socket.recv())
        records = np.zeros(size, np.dtype([tuple(part) for part in hello["model"]["record"]]))
        records["x"], records["y"] = (random.integers(0, side, size) for side in sensor)
        await socket.send(SUBSCRIBE)
        await ready.wait()
        await start.wait()
        # Not all at the same moment.
        due = time.perf_counter() + random.uniform(0, MESSAGE_SECONDS)
        end, sent = due + seconds, 0
        while time.perf_counter() < end:
            if rate is not None:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            records["t"] = 50 * np.arange(sent, sent + size)
            then = time.perf_counter() if rate is None else due
            await socket.send(records.tobytes())
            await _answer(socket)
            now = time.perf_counter()
            load.latency.add(now - then)
            load.events += size
            sent += size
            due = now if rate is None else due + MESSAGE_SECONDS


async def _answer(socket: Any) -> None:
    while not isinstance(await socket.recv(), str):
        pass  # a frame from before the subscription


def _print(options: argparse.Namespace, rate: int | None, load: Load, seconds: float) -> None:
    about = {"streams": options.streams, "paced": rate, "cores": os.cpu_count(), "seconds": round(seconds, 2)}
    about |= {"events_per_second": round(load.events / seconds), "latency_ms": load.latency.summary()}
    about |= {"server_us_per_message": round(1e6 * load.server / max(1, len(load.latency)))}
    if options.json:
        print(json.dumps(about), flush=True)
        return
    kind = "as fast as answered" if rate is None else f"{rate:,} events/s each"
    numbers = "  ".join(f"{name} {value:.1f} ms" for name, value in load.latency.summary().items())
    size = load.events // max(1, len(load.latency))
    print(f"{options.streams} streams, {kind}, {size} per message: {about['events_per_second']:,} events/s; {numbers}")
    print(f"  processor time of the server: {about['server_us_per_message']} µs per message", flush=True)


if __name__ == "__main__":
    main()
