"""Downloads from a local server that disconnects, stalls, sends wrong data and redirects."""

import errno
import fcntl
import hashlib
import http.server
import io
import re
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.data import transfer
from s7.data.download import Download, FetchError, Progress, RetryPolicy, amount, check, fetch
from s7.tasks import TASKS

BODY = bytes(range(256)) * 40
MD5 = f"md5:{hashlib.md5(BODY).hexdigest()}"
SHA = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
QUICK = RetryPolicy(silence=20.0, waits=(0.0, 0.0, 0.0))


class Handler(http.server.BaseHTTPRequestHandler):
    """Records requests and answers with the next entry of a script, or its last one at the end."""

    def do_GET(self):
        self.server.asked.append(SimpleNamespace(path=self.path, headers=dict(self.headers)))
        script = self.server.script
        (script.pop(0) if len(script) > 1 else script[0])(self)

    def log_message(self, *_):
        """Do not log."""


@pytest.fixture(scope="module", autouse=True)
def hasty():
    """No test pulls the plug; waiting for the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def running():
    """A server in a thread."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that gives up is what some tests are about
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running, monkeypatch):
    """The server without recorded requests, contacted without proxies."""
    for name in ("http_proxy", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running.asked, running.script = [], [whole()]
    return running


def reply(status, body=b"", **headers):
    """An answer; an underscore in the name of a header is a hyphen."""

    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def whole(body=BODY, cut=None, ranges=True, **headers):
    """The file, or the requested range of it; the connection is closed after `cut` bytes."""

    def answer(handler):
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        same = handler.headers.get("If-Range") in (None, headers.get("ETag"), headers.get("Last_Modified"))
        start = int(asked[1]) if asked and ranges and same else 0
        status, more = 200, {}
        if start >= len(body) and body:
            return reply(416, Content_Range=f"bytes */{len(body)}")(handler)
        if start:
            status, more = 206, {"Content_Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
        more |= {"Content_Length": str(len(body) - start), "Content_Type": "application/octet-stream"}
        reply(status, body[start:][:cut], **more, **headers)(handler)

    return answer


def get(server, folder, retries=QUICK, say=lambda text: None, watch=lambda at: None, **about):
    download = Download(server.url, "set/file.bin", **about)
    return fetch(download, folder, watch, say, retries)


def refusal(server, folder, **about):
    """The one-line error of a failed download."""
    with pytest.raises(FetchError) as error:
        get(server, folder, **about)
    assert not (folder / "set" / "file.bin").exists()
    line = str(error.value)
    assert "\n" not in line
    assert error.value.strerror is None  # or the command line would print that instead
    return line


def files(folder):
    return sorted(path.name for path in (folder / "set").iterdir() if path.name != ".lock")


# Successful downloads.


def test_a_file_is_downloaded_once(server, tmp_path):
    seen = []
    verified = get(server, tmp_path, digest=MD5, bytes=len(BODY), watch=seen.append)
    assert verified == (tmp_path / "set" / "file.bin", len(BODY), MD5, "published")
    assert verified.path.read_bytes() == BODY
    assert files(tmp_path) == ["file.bin"]
    assert [at.done for at in seen] == sorted(at.done for at in seen)
    assert (seen[-1].done, seen[-1].total) == (len(BODY), len(BODY))
    assert server.asked[0].headers["User-Agent"].startswith("s7/")
    assert get(server, tmp_path, digest=MD5) == verified
    assert len(server.asked) == 1


def test_files_without_a_length_and_empty_files_are_downloaded(server, tmp_path):
    server.script = [reply(200, BODY)]
    assert get(server, tmp_path, digest=SHA).path.read_bytes() == BODY
    server.script = [whole(b"")]
    assert get(server, tmp_path / "empty").bytes == 0


def test_progress_shows_the_remaining_time():
    assert Progress(30, 90, 20.0).seconds_left == 3
    assert Progress(30, None, 20.0).seconds_left is None
    assert Progress(0, 90, 0.0).seconds_left is None


def test_amounts_are_readable():
    assert [amount(n) for n in (0, 999, 84_125_825, 7.7e9)] == ["0 bytes", "999 bytes", "84.1 MB", "7.7 GB"]


# Interrupted downloads.


@pytest.mark.parametrize("headers", [{"ETag": '"v1"'}, {"Last_Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}])
def test_after_a_break_the_rest_is_asked_for(server, tmp_path, headers):
    server.script = [whole(cut=3000, **headers), whole(**headers)]
    said = []
    verified = get(server, tmp_path, say=said.append)
    assert verified.path.read_bytes() == BODY
    assert server.asked[1].headers["Range"] == "bytes=3000-"
    assert server.asked[1].headers["If-Range"] == next(iter(headers.values()))
    assert len(said) == 1
    assert "ended after 3,000 of 10,240 bytes; trying again in 0 s" in said[0]


def test_partial_downloads_are_kept(server, tmp_path):
    server.script = [whole(cut=3000, ETag='"v1"')]
    line = refusal(server, tmp_path, retries=RetryPolicy(1, ()))
    assert "3.0 kB were kept; run it again to continue" in line
    assert files(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    server.script = [whole(ETag='"v1"')]
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert server.asked[1].headers["Range"] == "bytes=3000-"
    assert files(tmp_path) == ["file.bin", "file.bin.sha256"]


def test_a_part_without_metadata_starts_over(server, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transfer.os, "replace", stop)
        patch.setattr(transfer, "write_atomically", lambda path, data: path.write_bytes(data))
        with pytest.raises(KeyboardInterrupt):
            get(server, tmp_path)
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert len(server.asked) == 1


@pytest.mark.parametrize(("about", "ranged"), [({}, False), ({"digest": MD5}, True)])
def test_without_etag_and_date_only_a_checksum_can_join_two_halves(server, tmp_path, about, ranged):
    server.script = [whole(cut=3000), whole()]
    assert get(server, tmp_path, **about).path.read_bytes() == BODY
    assert ("Range" in server.asked[1].headers) is ranged
    assert "If-Range" not in server.asked[1].headers


def test_a_weak_etag_promises_too_little(server, tmp_path):
    server.script = [whole(cut=3000, ETag='W/"v1"'), whole()]
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert "Range" not in server.asked[1].headers


def test_a_server_that_ignores_ranges_sends_all_of_it(server, tmp_path):
    server.script = [whole(cut=3000, ETag='"v1"'), whole(ranges=False, ETag='"v1"')]
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert "Range" in server.asked[1].headers


def test_a_file_that_changed_on_the_server_starts_over(server, tmp_path):
    other = BODY[::-1]
    server.script = [whole(cut=3000, ETag='"v1"'), whole(other, ETag='"v2"')]
    assert get(server, tmp_path).path.read_bytes() == other


@pytest.mark.parametrize("etag", ['"v2"', '"v1"'])
def test_a_changed_file_starts_over_without_the_servers_notice(server, tmp_path, etag):
    """It sends the rest of the new file: known by another ETag, or by another length."""
    other = BODY[::-1] + b"more"

    def rest(handler):
        reply(206, other[3000:], Content_Range=f"bytes 3000-{len(other) - 1}/{len(other)}", ETag=etag)(handler)

    server.script = [whole(cut=3000, ETag='"v1"'), rest, whole(other, ETag=etag)]
    assert get(server, tmp_path).path.read_bytes() == other
    assert "Range" not in server.asked[2].headers


@pytest.mark.parametrize("first", [2999, 3001])
def test_a_rest_that_begins_elsewhere_is_not_used(server, tmp_path, first):
    server.script = [
        whole(cut=3000, ETag='"v1"'),
        reply(206, BODY[first:], Content_Range=f"bytes {first}-10239/10240", ETag='"v1"'),
        whole(ETag='"v1"'),
    ]
    assert get(server, tmp_path).path.read_bytes() == BODY


def test_a_part_that_is_all_of_it_needs_no_rest(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin.part").write_bytes(BODY)
    assert get(server, tmp_path, digest=MD5).path.read_bytes() == BODY
    assert [one.headers["Range"] for one in server.asked] == ["bytes=10240-"]


def test_a_part_longer_than_the_file_starts_over(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin.part").write_bytes(BODY + b"more")
    assert get(server, tmp_path, digest=MD5).path.read_bytes() == BODY
    assert ["Range" in one.headers for one in server.asked] == [True, False]


def test_a_note_that_cannot_be_read_is_as_good_as_none(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin.part").write_bytes(b"x")
    for note in (b"{", b"[]", b"\xff", b"{}"):
        (tmp_path / "set" / "file.bin.part.json").write_bytes(note)
        (tmp_path / "set" / "file.bin").unlink(missing_ok=True)
        assert get(server, tmp_path).path.read_bytes() == BODY


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 4000), max_size=3), ranges=st.booleans(), etag=st.booleans(), known=st.booleans())
def test_interrupted_downloads_give_the_same_file(running, tmp_path_factory, cuts, ranges, etag, known):
    headers = {"ETag": '"v1"'} if etag else {}
    running.asked = []
    running.script = [whole(cut=cut, ranges=ranges, **headers) for cut in cuts] + [whole(ranges=ranges, **headers)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        verified = get(running, tmp_path_factory.mktemp("cut"), digest=MD5 if known else None)
    assert verified.path.read_bytes() == BODY


def test_tries_that_bring_much_are_not_counted(server, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "WORTHWHILE", 1000)
    server.script = [whole(cut=1000, ETag='"v1"')]
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert len(server.asked) == 11
    server.asked.clear()
    # Receiving the same first bytes repeatedly is not progress.
    server.script = [*(whole(cut=cut, ranges=False) for cut in (2000, 500) * 10), whole()]
    assert "500 of 10,240 bytes (4 attempts)" in refusal(server, tmp_path / "b")


def test_server_errors_are_retried_a_limited_number_of_times(server, tmp_path):
    server.script = [reply(503), reply(429), reply(500), whole()]
    waited = []
    assert get(server, tmp_path, say=waited.append).path.read_bytes() == BODY
    assert len(waited) == 3
    server.asked.clear()
    server.script = [reply(503)]
    assert "answered 503 Service Unavailable (4 attempts)" in refusal(server, tmp_path / "b")
    assert len(server.asked) == 4


def test_waits_grow(server, tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(transfer.time, "sleep", slept.append)
    server.script = [reply(503)]
    refusal(server, tmp_path, retries=transfer.DEFAULT_RETRIES)
    assert slept == sorted(slept)
    assert len(slept) == 5


def test_a_silent_server_is_given_up(server, tmp_path):
    def stall(handler):
        whole(cut=3000, ETag='"v1"')(handler)
        handler.wfile.flush()
        time.sleep(2)

    server.script = [stall, whole(ETag='"v1"')]
    said = []
    verified = get(server, tmp_path, retries=RetryPolicy(0.2, (0.0,) * 5), say=said.append)
    assert verified.path.read_bytes() == BODY
    assert "was silent for 0.2 s" in said[0]
    # The bytes received before the stall are kept.
    assert server.asked[1].headers["Range"] == "bytes=3000-"


def test_a_server_that_hangs_up_or_is_not_there(server, tmp_path):
    server.script = [lambda handler: handler.connection.close()]
    assert "the connection failed" in refusal(server, tmp_path)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as gone:
        url = f"http://127.0.0.1:{gone.server_port}/"
    with pytest.raises(FetchError, match=r"the connection failed \(Connection refused\) \(4 attempts\)"):
        fetch(Download(url, "a"), tmp_path, retries=QUICK)


# Responses that are not the file.


def test_invalid_content_is_removed_and_both_checksums_reported(server, tmp_path):
    server.script = [whole(BODY[::-1])]
    line = refusal(server, tmp_path, digest=MD5)
    got = f"md5:{hashlib.md5(BODY[::-1]).hexdigest()}"
    assert f"{server.url}: its checksum is {got}, expected {MD5} (published); the file was removed" in line
    assert files(tmp_path) == []


def test_a_file_of_another_size_is_not_downloaded(server, tmp_path):
    assert "has 10,240 bytes, expected 5" in refusal(server, tmp_path, bytes=5)
    server.script = [reply(200, BODY)]  # says nothing of its length
    assert "it has 10,240 bytes, expected 5" in refusal(server, tmp_path, bytes=5)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(404), "the server answered 404 Not Found"),
        (reply(403), "the server answered 403 Forbidden"),
        (reply(202), "the server answered 202 Accepted instead of the file"),
        (reply(200, b"<html>", Content_Type="text/html; charset=utf-8"), "answered with a web page"),
        (reply(206, b"abc"), "does not say which"),
    ],
    ids=["404", "403", "202", "page", "206"],
)
def test_a_missing_file_gives_manual_instructions(server, tmp_path, answer, message):
    server.script = [answer]
    line = refusal(server, tmp_path, page="https://example.org/set")
    assert line.startswith(f"{server.url}: ")
    assert message in line
    assert f"get file.bin from https://example.org/set and put it at {tmp_path / 'set' / 'file.bin'}" in line
    assert len(server.asked) == 1


def test_a_mirror_is_asked_when_the_first_address_fails(server, tmp_path):
    server.script = [reply(404), whole()]
    mirror = server.url.replace("file.bin", "mirror.bin")
    assert get(server, tmp_path, mirrors=(mirror,)).path.read_bytes() == BODY
    assert [one.path for one in server.asked] == ["/file.bin", "/mirror.bin"]
    server.script = [reply(404), reply(410)]
    line = refusal(server, tmp_path / "b", mirrors=(mirror,))
    assert f"{server.url}: the server answered 404" in line
    assert f"{mirror}: the server answered 410" in line


def test_halves_from_two_addresses_are_joined_only_under_a_checksum(server, tmp_path):
    mirror = server.url.replace("file.bin", "mirror.bin")
    for digest, ranged in ((MD5, True), (None, False)):
        server.asked.clear()
        server.script = [whole(cut=3000, ETag='"v1"'), reply(404), whole(ETag='"v1"')]
        folder = tmp_path / str(ranged)
        assert get(server, folder, digest=digest, mirrors=(mirror,)).path.read_bytes() == BODY
        assert ("Range" in server.asked[2].headers) is ranged


def test_redirects_are_followed_and_keep_the_range(server, tmp_path):
    there = server.url.replace("file.bin", "there.bin")
    server.script = [
        *(reply(302, Location="/there.bin"), whole(cut=3000, ETag='"v1"')),
        *(reply(307, Location=there), whole(ETag='"v1"')),
    ]
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert [one.path for one in server.asked] == ["/file.bin", "/there.bin"] * 2
    assert server.asked[3].headers["Range"] == "bytes=3000-"
    assert server.asked[3].headers["If-Range"] == '"v1"'


def test_redirects_in_a_circle_or_off_the_web_are_rejected(server, tmp_path):
    server.script = [reply(302, Location="/file.bin")]
    assert "redirects in a circle" in refusal(server, tmp_path)
    server.script = [lambda handler: reply(302, Location=f"/{len(server.asked)}")(handler)]
    server.asked.clear()
    assert "too often" in refusal(server, tmp_path)
    assert len(server.asked) < 12
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for url in (f"file://{secret}", "ftp://127.0.0.1/a", "gopher://127.0.0.1/a"):
        server.script = [reply(302, Location=url)]
        assert f"redirects to {url}, which is not on the web" in refusal(server, tmp_path)


def test_a_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", server.url.removesuffix("file.bin"))
    verified = fetch(Download("http://data.example.org/a.bin", "a.bin"), tmp_path, retries=QUICK)
    assert verified.path.read_bytes() == BODY
    assert [one.path for one in server.asked] == ["http://data.example.org/a.bin"]


# Existing files.


def test_an_existing_invalid_file_is_never_overwritten(server, tmp_path):
    path = tmp_path / "set" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"mine")
    with pytest.raises(ValueError, match=f"^{path}: its checksum is md5:.*, expected {MD5} .*; remove it and fetch it"):
        get(server, tmp_path, digest=MD5)
    with pytest.raises(ValueError, match=f"^{path}: it has 4 bytes, expected 10,240; remove it"):
        get(server, tmp_path, bytes=len(BODY))
    assert path.read_bytes() == b"mine"
    assert not server.asked


def test_an_unpublished_checksum_is_remembered(server, tmp_path):
    verified = get(server, tmp_path)
    assert (verified.digest, verified.against) == (SHA, None)
    beside = tmp_path / "set" / "file.bin.sha256"
    assert beside.read_text() == f"{SHA.partition(':')[2]}  file.bin\n"
    download = Download(server.url, "set/file.bin")
    assert check(download, verified.path) == get(server, tmp_path) == verified._replace(against="first fetch")
    verified.path.write_bytes(BODY[::-1])
    with pytest.raises(ValueError, match=f"expected {SHA} .that of the first fetch; to trust this one remove {beside}"):
        check(download, verified.path)
    # The server's file changed since.
    verified.path.unlink()
    server.script = [whole(BODY[::-1])]
    assert f"expected {SHA} (that of the first fetch; to trust this one remove {beside})" in refusal(server, tmp_path)
    beside.unlink()
    assert get(server, tmp_path).path.read_bytes() == BODY[::-1]
    beside.write_text("what?")
    with pytest.raises(ValueError, match=f"{beside} does not hold a SHA-256"):
        check(download, verified.path)


def test_a_full_disk_is_reported_before_the_request(server, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda folder: SimpleNamespace(free=5000))
    line = refusal(server, tmp_path, bytes=len(BODY))
    assert line.startswith(f"{tmp_path / 'set'}: 10.2 kB are needed and 5.0 kB are free; free some")
    assert not server.asked
    # Of an unknown size, as soon as the server has said it.
    assert "10.2 kB are needed" in refusal(server, tmp_path)
    # The part that was received needs no more space.
    (tmp_path / "set" / "file.bin.part").write_bytes(BODY[:6000])
    assert get(server, tmp_path, bytes=len(BODY), digest=MD5).path.read_bytes() == BODY


def test_a_disk_that_fills_up_keeps_the_part(server, tmp_path, monkeypatch):
    real = Path.open

    def small(path, mode="r", *rest, **more):
        file = real(path, mode, *rest, **more)
        if path.suffix == ".part" and "a" in mode:
            return Full(file)
        return file

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "BLOCK", 1000)
        patch.setattr(Path, "open", small)
        server.script = [whole(ETag='"v1"')]
        line = refusal(server, tmp_path)
    assert line.startswith(f"{tmp_path / 'set'}: the disk is full; free some space and run it again")
    assert len(server.asked) == 1
    size = (tmp_path / "set" / "file.bin.part").stat().st_size
    assert 3000 < size < len(BODY)
    assert get(server, tmp_path).path.read_bytes() == BODY
    assert server.asked[1].headers["Range"] == f"bytes={size}-"


class Full:
    """A file on a disk with room for 5,000 bytes."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        if self.file.tell() + len(data) > 5000:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.write(data)


def test_parallel_downloads_do_not_interfere(server, tmp_path):
    (tmp_path / "set").mkdir()
    with (tmp_path / "set" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process is downloading into it" in refusal(server, tmp_path)
    assert get(server, tmp_path).path.read_bytes() == BODY


def test_a_replaced_archive_is_unpacked_again(server, tmp_path):
    for text in (b"old", b"new"):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("in/a.txt", text)
        server.script = [whole(packed.getvalue())]
        verified = get(server, tmp_path, unpack=("*.txt",))
        assert (tmp_path / "set" / "in" / "a.txt").read_bytes() == text
        # Unpacked files may be modified; they are not unpacked again.
        (tmp_path / "set" / "in" / "a.txt").write_bytes(b"mine")
        get(server, tmp_path, unpack=("*.txt",))
        assert (tmp_path / "set" / "in" / "a.txt").read_bytes() == b"mine"
        verified.path.unlink()
        (tmp_path / "set" / "file.bin.sha256").unlink()
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "../a"}, "must be a path inside the data folder"),
        ({"path": "/etc/a"}, "must be a path inside the data folder"),
        ({"path": ""}, "must be a path inside the data folder"),
        ({"digest": "sha1:00"}, "must be md5: or sha256:"),
        ({"digest": MD5.upper()}, "must be md5: or sha256:"),
        ({"digest": "md5:" + "0" * 31}, "must be md5: or sha256:"),
        ({"url": "file:///etc/passwd"}, "must begin with https:// or http://"),
        ({"mirrors": ("ftp://a/b",)}, "must begin with https:// or http://"),
    ],
)
def test_a_download_that_cannot_be_right_is_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        Download(**({"url": "https://a/b", "path": "a/b"} | changes))


# The sources.


def test_the_sources_agree_with_each_other():
    downloads = {name: kind.downloads for name, kind in TASKS.items() if kind.downloads}
    assert set(downloads) == set(TASKS) - {"fitzhugh-nagumo", "irregular-time", "pendulum"}
    assert {name for name, kind in TASKS.items() if kind.manual_download} <= set(downloads)
    places = {}
    for download in (one for several in downloads.values() for one in several):
        assert urls_are_safe(download)
        assert download.page.startswith("https://")
        # One file may serve several tasks, but must be one file.
        assert places.setdefault(download.path, download.url) == download.url
    digests = [one.digest for several in downloads.values() for one in several if one.digest]
    assert len(digests) == len(set(digests))


def urls_are_safe(download):
    return all(url.startswith("https://") for url in (download.url, *download.mirrors))
