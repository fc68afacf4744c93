"""Models by name: the package, the cache of the hub, and a hub on a loopback address."""

import base64
import http.server
import json
import os
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

import s7
from s7 import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def model():
    return s7.S7Model(encoder=s7.TokenEncoder(9), head=s7.Mean(2), width=4, state=2, key=jax.random.key(0))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "home" / "hub"


def put(cache, model, name="models--org--name"):
    folder = cache / name
    s7.save(model, folder / "snapshots" / COMMIT)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    return folder


def same(a, b):
    return bool((a.head["W"] == b.head["W"]).all())


@pytest.mark.parametrize("name", ["org/name", "org/name@main", f"org/name@{COMMIT}"])
def test_a_model_in_the_cache_is_found_by_name_and_revision(cache, model, name):
    put(cache, model)
    assert same(s7.load(name), model)


def test_a_path_comes_before_a_name(cache, model, tmp_path, monkeypatch):
    put(cache, model)
    other = s7.S7Model(encoder=s7.TokenEncoder(9), head=s7.Mean(2), width=4, state=2, key=jax.random.key(1))
    s7.save(other, tmp_path / "org" / "name")
    monkeypatch.chdir(tmp_path)
    assert same(s7.load("org/name"), other)


def test_a_missing_model_says_where_it_was_looked_for(cache):
    with pytest.raises(FileNotFoundError, match=r"org/other: .*not in .*hub; HF_HUB_OFFLINE is set"):
        s7.load("org/other")
    with pytest.raises(FileNotFoundError, match=r"no/file\.safetensors"):
        s7.load("no/file.safetensors")


def test_a_reference_cannot_leave_the_cache(cache, model, tmp_path):
    folder = put(cache, model)
    s7.save(model, tmp_path / "elsewhere")
    (folder / "refs" / "main").write_text("../../../../elsewhere")
    with pytest.raises(FileNotFoundError):
        s7.load("org/name")
    assert not hub.is_name("org/name@../../x")
    assert not hub.is_name("a/b/c")


def test_bundled_models_load_offline(cache):
    for name in hub.bundled_models():
        assert isinstance(s7.load(name), s7.S7Model)


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's interface as downloads and uploads of small files use."""

    files: dict[str, bytes]
    received: dict[str, bytes]
    address: str

    def log_message(self, *arguments):
        pass

    def answer(self, body=b"", status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.partition("?")[0]
        data = self.files.get(path.rpartition("/")[2])
        if data is None or not path.startswith("/org/name/resolve/"):
            return self.answer(b"{}", 404, X_Error_Code="RepoNotFound")
        return self.answer(data, ETag=f'"{len(data)}"')

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/create"):
            return self.answer(b'{"url": "http://127.0.0.1/org/name", "id": "org/name"}')
        if "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            found = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
            return self.answer(json.dumps({"files": found}).encode())
        if "/commit/" not in self.path:  # such as the check of a card's YAML
            return self.answer(b'{"errors": [], "warnings": []}')
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.received[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        answer = {"commitUrl": "http://127.0.0.1/org/name/commit/1", "commitOid": COMMIT, "pullRequestUrl": None}
        return self.answer(json.dumps(answer).encode())


@pytest.fixture
def server():
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is missing; pip install 's7-ssm[hub]'")
    kind = type("OneHub", (Hub,), {"files": {}, "received": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    kind.address = f"http://127.0.0.1:{server.server_port}"
    yield kind
    server.shutdown()
    server.server_close()
    thread.join()


def python(code: str, server, folder) -> str:
    """Run code in a process whose hub is the server: the library reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": server.address, "HF_HOME": str(folder), "HF_TOKEN": "hf_test", "HF_HUB_OFFLINE": "0"}
    settings |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_upload_and_download(server, model, tmp_path):
    path = s7.save(model, tmp_path / "model.safetensors")
    push = f"""
from s7.cli.main import main
assert main(["push", {str(path)!r}, "org/name", "--out", {str(tmp_path / "shared")!r}]) == 0
"""
    assert "uploaded: " in python(push, server, tmp_path / "home")
    assert {"model.safetensors", "config.json", "README.md", "golden.safetensors"} <= server.received.keys()
    server.files |= server.received
    load = """
import s7
from s7.hub import find_model
model = s7.load("org/name")
print(float(model.head["W"].sum()))
try:
    s7.load("org/unknown")
except FileNotFoundError as error:
    print(error)
"""
    total, message = python(load, server, tmp_path / "home").splitlines()
    assert float(total) == float(model.head["W"].sum())
    assert message.startswith("org/unknown: no such file or folder")
    assert "the hub answered" in message
    server.files.clear()  # now from the cache
    assert python("import s7; print(s7.load('org/name').parameter_count)", server, tmp_path / "home")


def test_the_folder_of_a_shared_model(model, tmp_path):
    from s7.sharing import write_shared

    paths = write_shared(s7.save(model, tmp_path / "m.safetensors"), "org/name", tmp_path / "shared")
    card = (tmp_path / "shared" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: s7-ssm\n")
    assert 's7.load("org/name")' in card
    assert "tokens from 0 to 8" in card
    config = json.loads((tmp_path / "shared" / "config.json").read_text())
    assert config["model"]["width"] == 4
    from safetensors.numpy import load_file

    golden = load_file(tmp_path / "shared" / "golden.safetensors")
    wanted = model(golden["tokens"], golden["gaps"])
    np.testing.assert_allclose(golden["outputs"][-1], wanted, rtol=1e-4, atol=1e-5)
    assert {path.name for path in paths} >= {"model.safetensors", "README.md"}


def test_a_model_shared_in_float16_answers_as_its_golden_outputs_say(model, tmp_path):
    from safetensors.numpy import load_file

    from s7.sharing import write_shared

    folder = tmp_path / "shared"
    write_shared(s7.save(model, tmp_path / "m.safetensors"), "org/name", folder, precision="float16")
    assert "rounded to float16" in (folder / "README.md").read_text()
    golden, restored = load_file(folder / "golden.safetensors"), s7.load(folder)
    answer = restored(golden["tokens"], golden["gaps"])
    np.testing.assert_allclose(golden["outputs"][-1], answer, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(answer, model(golden["tokens"], golden["gaps"]))
