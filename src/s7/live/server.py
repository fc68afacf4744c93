"""The server of `s7 serve`: pages and metrics over HTTP, streams over WebSocket."""

import asyncio
import logging
import os
import secrets
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from s7.live.access import Access, Refusal, path_of
from s7.live.connection import Connection
from s7.live.limits import Limits
from s7.live.metrics import Metrics
from s7.live.page import page, policy
from s7.live.protocol import GOING_AWAY, TAKEN_OVER, TRY_AGAIN
from s7.live.session import Served, Session

STREAM = "/stream"
# Seconds for a client's part of a handshake, and messages that are read ahead of the model.
HANDSHAKE = 5.0
AHEAD = 4
# Bytes that the operating system keeps for a client that has not read them yet.
SEND_BUFFER = 1 << 16


class Server:
    """Serves a model to viewers and clients, one stream per connection.

    Args:
        served: The model.
        limits: The limits of clients.
        access: Who may connect.
        file: A recording that every connection can play.
        recording: Which recording of it, from 0, if the file holds several.
        clip: Whether events of recordings that go back in time are taken as simultaneous with the one before.
        speed: The speed at which it is played; None for as fast as possible.
    """

    def __init__(
        self,
        served: Served,
        limits: Limits | None = None,
        access: Access | None = None,
        *,
        file: Path | None = None,
        recording: int | None = None,
        clip: bool = False,
        speed: float | None = None,
    ):
        self.metrics = Metrics()
        self._served, self._limits, self._access = served, limits or Limits(), access or Access()
        self._file, self._recording, self._clip, self._speed = file, recording, clip, speed
        self._connections: dict[str, Connection] = {}
        # Sessions whose connections are lost, and since when.
        self._kept: dict[str, tuple[Session, float]] = {}
        self._page = page().encode()
        self._log = logging.getLogger("s7.live")

    async def start(self, host: str, port: int) -> int:
        """Start to listen. Returns the port, which is a free one for port 0."""
        self._folder = tempfile.TemporaryDirectory(prefix="s7-uploads-")
        self._workers = ThreadPoolExecutor(max(2, os.cpu_count() or 2), "s7 worker")
        # The library reports every failed handshake, which is the business of clients.
        quiet = logging.getLogger("s7.live.websockets")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        try:
            self._server: WebSocketServer = await serve(
                self._handle,
                host,
                port,
                process_request=self._answer,
                max_size=self._limits.message,
                max_queue=AHEAD,
                open_timeout=HANDSHAKE,
                close_timeout=2,
                compression=None,  # frames are small, and compression costs more memory than a stream
                logger=quiet,
                server_header=None,
            )
        except OSError:
            self._release()
            raise
        return next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        self._server.close(code=GOING_AWAY, reason="the server is stopping")
        await self._server.wait_closed()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        self._workers.shutdown()
        self._folder.cleanup()

    # HTTP.

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The response to a request; None if a WebSocket is to be opened."""
        try:
            path = path_of(request.path)
            if path == "/healthz":
                return _response(HTTPStatus.OK, b"ok\n")
            self._access.check(request.path, request.headers)
        except Refusal as refusal:
            self.metrics.refused[refusal.status] += 1
            return _response(refusal.status, f"{refusal}\n".encode())
        if path == STREAM:
            return None
        if path == "/":
            return _response(HTTPStatus.OK, self._page, "text/html", policy())
        if path == "/metrics":
            self.metrics.sessions = len(self._connections) + len(self._kept)
            return _response(HTTPStatus.OK, self.metrics.text().encode(), "text/plain; version=0.0.4")
        self.metrics.refused[HTTPStatus.NOT_FOUND] += 1
        return _response(HTTPStatus.NOT_FOUND, b"there are /, /stream, /metrics and /healthz\n")

    # WebSocket.

    async def _handle(self, socket: ServerConnection) -> None:
        metrics = self.metrics
        metrics.open_connections += 1
        # A large buffer would show slow viewers the past, and hide that they do not read.
        socket.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BUFFER)
        try:
            await self._serve(socket)
        except Exception:
            self._log.exception("a connection failed")
            raise
        finally:
            metrics.open_connections -= 1
            metrics.closed[socket.close_code or 1006] += 1

    async def _serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        wanted = parse_qs(urlsplit(socket.request.path).query).get("session", [""])[0]
        await self._release_session(wanted)
        if len(self._connections) >= self._limits.connections:
            await socket.close(TRY_AGAIN, f"{self._limits.connections} connections are open, which is the limit")
            return
        self._forget_old()
        session, _ = self._kept.pop(wanted, (None, 0.0))
        resumed = session is not None
        if session is None:
            session = self._new_session()
        self.metrics.connections += 1
        folder = Path(self._folder.name)
        connection = Connection(socket, session, self._limits, self.metrics, self._workers, folder)
        self._connections[session.identity] = connection
        try:
            await connection.serve(resumed=resumed)
        finally:
            if self._connections.get(session.identity) is connection:
                del self._connections[session.identity]
                self._keep(session)

    async def _release_session(self, identity: str) -> None:
        """Close the connection that holds a session, if there is one, so that another one can continue it."""
        if identity in self._connections:
            holder = self._connections[identity]
            await holder.close(TAKEN_OVER, "the session continues in another connection")
            while self._connections.get(identity) is holder:
                await asyncio.sleep(0.01)

    def _new_session(self) -> Session:
        session = Session(secrets.token_urlsafe(16), self._served, self._limits, self.metrics, clip=self._clip)
        if self._file is not None:
            session.open(str(self._file), self._file.name, speed=self._speed, recording=self._recording)
            assert session.playback is not None
            session.playback.play()
        return session

    def _keep(self, session: Session) -> None:
        self._kept[session.identity] = (session, time.monotonic())
        self._forget_old()

    def _forget_old(self) -> None:
        """Forget lost sessions after the idle time, and the oldest if there are more than connections are allowed."""
        oldest = time.monotonic() - self._limits.idle
        for identity, (session, since) in list(self._kept.items()):
            if since < oldest or len(self._kept) > self._limits.connections:
                del self._kept[identity]
                if session.playback is not None and Path(session.playback.path).parent == Path(self._folder.name):
                    Path(session.playback.path).unlink(missing_ok=True)


def _response(
    status: HTTPStatus, body: bytes, kind: str = "text/plain", policy: str = "default-src 'none'"
) -> Response:
    headers: dict[str, Any] = {"Content-Type": kind if "version" in kind else f"{kind}; charset=utf-8"}
    headers |= {"Content-Length": str(len(body)), "Connection": "close", "Cache-Control": "no-store"}
    headers |= {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    headers |= {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
    return Response(status.value, status.phrase, Headers(headers), body)
