"""The server: pages, metrics, limits, and clients that misbehave."""

import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

pytest.importorskip("websockets", reason="the package websockets is not installed")

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from s7.live.access import Access
from s7.live.limits import Limits
from tests.programs import ROOT

from .conftest import CLASSES, make_records, running

LIMITS = Limits(connections=12, message=20_000, upload=50_000, idle=30, send=1.0)
ANSWERS = json.dumps({"type": "subscribe", "frames": False, "answers": True})


@pytest.fixture(scope="module")
def server(served):
    with running(served, LIMITS) as one:
        yield one


def open_stream(server, query: str = "", **options):
    return connect(server.stream + query, compression=None, **options)


def hello_of(client) -> dict:
    return json.loads(client.recv(timeout=10))


def next_json(client) -> dict:
    """The next message that is not a frame."""
    while isinstance(message := client.recv(timeout=10), bytes):
        pass
    return json.loads(message)


def closing_of(client) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
        while True:
            client.recv(timeout=10)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def fetch(server, path: str, **headers) -> tuple[int, str]:
    try:
        with urlopen(Request(server.page + path, headers=headers)) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def is_healthy(server) -> bool:
    """Whether a new client gets the answer to its events."""
    with open_stream(server) as client:
        hello_of(client)
        client.send(ANSWERS)
        client.send(make_records(10).tobytes())
        return next_json(client)["events"] == 10


def test_pages(server):
    assert fetch(server, "healthz") == (200, "ok\n")
    status, page = fetch(server, "")
    assert status == 200
    assert page.startswith("<!DOCTYPE html>")
    assert fetch(server, "etc/passwd")[0] == 404
    assert fetch(server, "", Origin="http://evil.example")[0] == 403


def test_events_are_answered(server, served):
    with open_stream(server) as client:
        hello = hello_of(client)
        assert hello["model"]["names"] == ["left", "right", "still"]
        record = np.dtype([tuple(field) for field in hello["model"]["record"]])
        assert record == served.inputs.record
        client.send(ANSWERS)
        client.send(make_records(100).tobytes())
        answer = next_json(client)
        client.send("5000 1 1 1\n5001,2,2,0")
        second = next_json(client)
    assert (answer["events"], second["events"]) == (100, 102)
    assert answer["label"] in hello["model"]["names"]


def test_metrics_count_events(server):
    is_healthy(server)
    text = fetch(server, "metrics")[1]
    metrics = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(metrics["s7_events_total"]) >= 10
    assert float(metrics["s7_latency_seconds_count"]) == float(metrics['s7_latency_seconds_bucket{le="+Inf"}'])
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert all(
        name.split("{")[0].removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") in names
        for name in metrics
    )


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (b"123", 1007, "message 1: 3 bytes are not whole records of 13 bytes"),
        ("what", 1007, "message 1: line 1 is 'what', expected 4 numbers: t x y p"),
        ("{", 1007, "the message starts with { but is not JSON"),
        ('{"type":"speed","speed":0}', 1007, "speed: speed must be a number from 0.01 to 100, or null"),
        (b"\0" * 20_001, 1009, None),
        ('{"type":"upload","name":"a","size":50001}', 1008, "a: 50,001 bytes are more than the limit of 50,000"),
    ],
)
def test_bad_messages_close_with_a_reason(server, message, code, reason):
    with open_stream(server) as client:
        client.send(message)
        found = closing_of(client)
    assert found[0] == code
    assert reason is None or found[1] == reason
    assert is_healthy(server)


def test_random_bytes_never_break_the_server(server):
    random = np.random.default_rng(0)
    for size in (1, 13, 26, 400):
        with open_stream(server) as client:
            client.send(random.bytes(size))
            with suppress(ConnectionClosed):  # the server may have closed it already
                client.send(random.bytes(size).decode("latin-1"))
            assert closing_of(client)[0] == 1007
    for start in (b"GET", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a" * 70_000, random.bytes(999)):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(start)
    assert is_healthy(server)


def test_partial_frames_and_lost_connections(server):
    frame = binary_frame(make_records(50).tobytes())
    for sent in (1, 3, 8, 200, len(frame) - 1):
        with open_stream(server) as client:
            hello_of(client)
            client.socket.sendall(frame[:sent])
            client.socket.close()  # in the middle of an event
    assert is_healthy(server)


def test_fragmented_messages_are_one_message(server):
    records = make_records(20).tobytes()
    with open_stream(server) as client:
        hello_of(client)
        client.send(ANSWERS)
        client.send(records[k : k + 7] for k in range(0, len(records), 7))
        assert next_json(client)["events"] == 20


def test_more_connections_than_allowed_are_turned_away(server):
    def attempt(n: int):
        client = stack.enter_context(open_stream(server))
        try:
            hello_of(client)
        except ConnectionClosed:
            return client.close_code, client.close_reason
        return None

    with ExitStack() as stack, ThreadPoolExecutor(16) as threads:
        refused = [found for found in threads.map(attempt, range(200)) if found]
    assert set(refused) == {(1013, "12 connections are open, which is the limit")}
    assert len(refused) == 200 - 12
    assert is_healthy(server)


def test_a_client_that_does_not_read_is_closed(served):
    request = "GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    request += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    with running(served, Limits(send=0.3)) as server:
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", server.port))
            raw.sendall(request.encode())
            with pytest.raises(ConnectionError):  # noqa: PT012
                for n in range(1000):
                    raw.sendall(binary_frame(make_records(3000, start=150_000 * n).tobytes()))
                    time.sleep(0.02)
        assert is_healthy(server)


def binary_frame(data: bytes) -> bytes:
    """A masked frame of less than 64 KiB; the mask is zero."""
    return b"\x82\xfe" + len(data).to_bytes(2, "big") + b"\0" * 4 + data


def test_idle_connections_are_closed(served):
    with running(served, Limits(idle=0.3)) as server, open_stream(server) as client:
        assert closing_of(client) == (1000, "idle for 0.3 s")


def test_a_lost_connection_continues_with_its_state(server):
    records = make_records(60)
    with open_stream(server) as client:
        session = hello_of(client)["session"]
        client.send(ANSWERS)
        client.send(records[:40].tobytes())
        next_json(client)
        client.socket.close()
    with open_stream(server, f"?session={session}") as client:
        again = hello_of(client)
        assert (again["session"], again["resumed"], again["events"]) == (session, True, 40)
        client.send(ANSWERS)
        client.send(records[40:].tobytes())
        answer = next_json(client)
        # The same session in a third connection: the second one must leave.
        with open_stream(server, f"?session={session}") as third:
            assert hello_of(third)["events"] == 60
            assert closing_of(client) == (4000, "the session continues in another connection")
    with open_stream(server) as client:
        hello_of(client)
        client.send(ANSWERS)
        client.send(records.tobytes())
        assert next_json(client)["scores"] == pytest.approx(answer["scores"], abs=1e-5)
    with open_stream(server, "?session=unknown") as client:
        assert hello_of(client)["resumed"] is False


def test_uploads_are_played(server, recording):
    data = recording.read_bytes()
    with open_stream(server) as client:
        assert hello_of(client)["playback"] is None
        client.send('{"type":"play"}')
        assert next_json(client)["message"] == "there is no recording to play; upload one first"
        client.send(json.dumps({"type": "upload", "name": "../../waving.txt", "size": len(data)}))
        for at in range(0, len(data), 9999):
            client.send(data[at : at + 9999])
        client.send('{"type":"speed","speed":null}')
        frames = []
        while not frames or not (frames[-1]["playback"] or {}).get("over"):
            message = client.recv(timeout=10)
            assert isinstance(message, bytes)
            frames.append(json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")]))
        assert frames[-1]["events"] == 2000
        assert frames[-1]["playback"]["name"] == "waving.txt"
        client.send(json.dumps({"type": "upload", "name": "bad.raw", "size": 4}))
        client.send(b"oops")
        assert next_json(client)["message"].startswith("bad.raw: ")
        client.send(json.dumps({"type": "upload", "name": "more.raw", "size": 4}))
        client.send(b"more!")
        assert closing_of(client) == (1008, "more.raw: more bytes than the upload announced")


def test_a_token_is_asked_for_everywhere_but_in_healthz(served):
    with running(served, access=Access("secret")) as server:
        assert fetch(server, "healthz")[0] == 200
        assert fetch(server, "")[0] == fetch(server, "metrics")[0] == 401
        assert fetch(server, "?token=secret")[0] == 200
        assert fetch(server, "metrics", Authorization="Bearer secret")[0] == 200
        with pytest.raises(InvalidStatus), open_stream(server):
            pass
        with open_stream(server, "?token=secret") as client:
            assert hello_of(client)["type"] == "hello"
        with pytest.raises(InvalidStatus), open_stream(server, "?token=secret", origin="http://evil.example"):
            pass


def test_the_client_on_the_page_runs(server, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "live.md").read_text(), re.DOTALL)
    exec(program.replace("127.0.0.1:8077", f"127.0.0.1:{server.port}"), {})
    assert capsys.readouterr().out.strip() in CLASSES
