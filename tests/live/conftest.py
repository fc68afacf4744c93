"""A small model of a camera's events, recordings of it, and servers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import s7
from s7 import native
from s7.live.inputs import Inputs
from s7.live.limits import Limits

SENSOR = (12, 9)
CLASSES = ("left", "right", "still")


def pytest_collection_modifyitems(items):
    if not native.available():
        for item in items:
            if item.path.parent == Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason="no native kernels"))


def make_model(encoder: s7.Encoder | None = None, **changes: Any) -> s7.S7Model:
    encoder = encoder or s7.EventEncoder(SENSOR)
    settings: dict[str, Any] = {"classes": CLASSES, "time_unit": 1.0, "form": s7.Factored(rank=2)} | changes
    return s7.S7Model(encoder=encoder, head=s7.Mean(3), width=6, state=4, depth=1, key=jax.random.key(0), **settings)


def make_lines(count: int, seed: int = 0, microseconds: int = 50) -> list[str]:
    """Lines of the line protocol with random events."""
    random = np.random.default_rng(seed)
    t = np.cumsum(random.integers(0, 2 * microseconds, count))
    x, y, p = (random.integers(0, end, count) for end in (*SENSOR, 2))
    return [f"{a} {b} {c} {d}" for a, b, c, d in zip(t, x, y, p, strict=True)]


def make_records(count: int, start: int = 0, seed: int = 0) -> np.ndarray:
    """Binary records with random events, 50 µs apart."""
    random = np.random.default_rng(seed)
    records = np.zeros(count, Inputs.of(make_model().config).record)
    records["t"] = start + 50 * np.arange(count)
    for name, end in zip("xyp", (*SENSOR, 2), strict=True):
        records[name] = random.integers(0, end, count)
    return records


@pytest.fixture(scope="session")
def model() -> s7.S7Model:
    return make_model()


@pytest.fixture(scope="session")
def inputs(model) -> Inputs:
    return Inputs.of(model.config)


@pytest.fixture(scope="session")
def recording(tmp_path_factory) -> Path:
    """2,000 events in about 0.1 s."""
    path = tmp_path_factory.mktemp("recordings") / "waving.txt"
    path.write_text("\n".join(make_lines(2000)) + "\n")
    return path


@pytest.fixture(scope="session")
def served(model):
    pytest.importorskip("websockets", reason="the package websockets is not installed")
    from s7.live.session import Served

    return Served.of(model, "tiny")


class Running(NamedTuple):
    """A server in a thread."""

    server: object
    port: int

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def stream(self) -> str:
        return f"ws://127.0.0.1:{self.port}/stream"


@contextmanager
def running(served, limits: Limits | None = None, access=None, **options) -> Iterator[Running]:
    """Run a server in a thread."""
    from s7.live.server import Server

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()
    try:
        server = Server(served, limits, access, **options)
        port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(20)
        try:
            yield Running(server, port)
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
