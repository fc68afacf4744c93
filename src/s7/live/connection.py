"""One WebSocket connection: a receiver, a player and a sender around a session."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from s7.live.limits import Limits
from s7.live.metrics import Metrics
from s7.live.protocol import GOING_AWAY, NORMAL, POLICY, Closing, dumps, read_command, short_reason
from s7.live.session import Session
from s7.live.upload import Upload
from s7.version import __version__

# Seconds between two frames.
FRAME = 1 / 30

T = TypeVar("T")


class Connection:
    """Serves one client.

    Args:
        socket: The WebSocket.
        session: The stream of the client.
        limits: The limits of the server.
        metrics: The counters of the server.
        workers: Threads for everything that computes.
        folder: A folder for uploaded files.
    """

    def __init__(
        self,
        socket: ServerConnection,
        session: Session,
        limits: Limits,
        metrics: Metrics,
        workers: Executor,
        folder: Path,
    ):
        self.session = session
        self._socket, self._limits, self._metrics = socket, limits, metrics
        self._workers, self._folder = workers, folder
        # A stream is used by one thread at a time.
        self._lock = asyncio.Lock()
        self._playing, self._changed = asyncio.Event(), asyncio.Event()
        self._last_message = time.monotonic()
        self._upload: Upload | None = None
        self._wants_answers = False
        session.has_viewer = True

    async def serve(self, *, resumed: bool) -> None:
        """Serve until the client leaves or must leave."""
        hello = {"type": "hello", "version": __version__, "session": self.session.identity, "resumed": resumed}
        hello |= {"model": self.session.served.describe(), "events": self.session.live.events}
        limits = {"rate": self._limits.rate, "message": self._limits.message, "upload": self._limits.upload}
        hello |= {"limits": limits, "playback": self.session.describe_playback()}
        self._notice_playback()
        self._changed.set()
        try:
            await self._send(dumps(hello))
            await self._first_to_end(self._receive(), self._play(), self._show(), self._watch())
        except Closing as closing:
            await self._socket.close(closing.code, closing.reason)
        except ConnectionClosed:
            pass
        finally:
            if self._upload is not None:
                self._upload.discard()
            async with self._lock:
                if self.session.playback is not None:
                    self.session.playback.pause()

    async def close(self, code: int = GOING_AWAY, reason: str = "") -> None:
        """Close the connection."""
        await self._socket.close(code, short_reason(reason))

    async def _first_to_end(self, *parts: Any) -> None:
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._lock:
            work = asyncio.get_running_loop().run_in_executor(self._workers, function, *arguments)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # The thread cannot be stopped. Nobody else may use the stream until it is done.
                with suppress(Exception):
                    await work
                raise

    async def _send(self, message: str | bytes) -> None:
        # Not asyncio.wait_for, which may return instead of being cancelled.
        try:
            async with asyncio.timeout(self._limits.send):
                await self._socket.send(message)
        except TimeoutError:
            self._socket.transport.abort()
            raise Closing(POLICY, f"no message was read for {self._limits.send:g} s") from None

    async def _receive(self) -> None:
        async for message in self._socket:
            arrived = self._last_message = time.monotonic()
            self._metrics.messages += 1
            self._metrics.bytes += len(message)
            if isinstance(message, str) and message.startswith("{"):
                await self._obey(read_command(message))
            elif isinstance(message, bytes) and self._upload is not None:
                await self._receive_part(self._upload, message)
            else:
                answer = await self._run(self.session.push, message, arrived)
                if self._wants_answers:
                    await self._send(dumps(answer))
            self._changed.set()

    async def _receive_part(self, upload: Upload, data: bytes) -> None:
        if await self._run(upload.write, data):
            self._upload = None
            before = self.session.playback
            await self._run(self._open_upload, upload, None if before is None else before.speed)
            self._notice_playback()

    def _open_upload(self, upload: Upload, speed: float | None) -> None:
        had = self.session.playback
        self.session.open(str(upload.path), upload.name, speed=1.0 if had is None else speed)
        assert self.session.playback is not None
        if had is not None:
            self.session.playback.repeats = had.repeats
            if Path(had.path).parent == self._folder:
                Path(had.path).unlink(missing_ok=True)
        self.session.playback.play()

    async def _obey(self, command: dict[str, Any]) -> None:
        kind, session = command["type"], self.session
        if kind == "subscribe":
            session.has_viewer, self._wants_answers = command["frames"], command["answers"]
        elif kind == "reset":
            await self._run(session.reset)
        elif kind == "upload":
            if self._upload is not None:
                raise Closing(POLICY, "an upload is not finished yet")
            self._upload = Upload(self._folder, command["name"], command["size"], self._limits.upload)
        elif session.playback is None:
            await self._send(dumps({"type": "error", "message": "there is no recording to play; upload one first"}))
        else:
            await self._run(self._control, kind, command)
        self._notice_playback()

    def _control(self, kind: str, command: dict[str, Any]) -> None:
        playback = self.session.playback
        assert playback is not None
        if kind == "speed":
            playback.speed = command["speed"]
        elif kind == "repeat":
            playback.repeats = command["repeat"]
        elif kind == "pause":
            playback.pause()
        elif kind == "replay" or playback.is_over:
            self.session.replay()
        else:
            playback.play()

    def _notice_playback(self) -> None:
        playback = self.session.playback
        if playback is not None and playback.is_playing:
            self._playing.set()
        else:
            self._playing.clear()

    async def _play(self) -> None:
        while True:
            await self._playing.wait()
            delay = await self._run(self.session.tick)
            self._notice_playback()
            self._changed.set()
            self._last_message = time.monotonic()
            if error := self.session.take_error():
                await self._send(error)
            await asyncio.sleep(delay)

    async def _show(self) -> None:
        """Send frames. While a client does not read, frames are merged instead of queued."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.session.has_viewer:
                await self._send(await self._run(self.session.frame))
            await asyncio.sleep(FRAME)

    async def _watch(self) -> None:
        while True:
            left = self._last_message + self._limits.idle - time.monotonic()
            if left <= 0:
                raise Closing(NORMAL, f"idle for {self._limits.idle:g} s")
            await asyncio.sleep(left)
