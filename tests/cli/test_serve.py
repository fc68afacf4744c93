"""`s7 serve`."""

import json
import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

import s7
from s7 import native
from s7.cli.main import main
from tests.live.conftest import make_model

pytestmark = pytest.mark.skipif(not native.available(), reason="no native kernels")
pytest.importorskip("websockets", reason="the package websockets is not installed")


def test_it_serves_until_it_is_interrupted(tmp_path):
    s7.save(make_model(), tmp_path)
    arguments = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "s7",
        "serve",
        tmp_path,
        "--host",
        "0.0.0.0",
        "--port",
        "0",
        "--json",
    ]
    environment = os.environ | {"S7_TOKEN": "secret"}
    with subprocess.Popen(list(map(str, arguments)), stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert url.endswith("/?token=secret")
        with urlopen(url.replace("0.0.0.0", "127.0.0.1")) as response:
            assert response.read().startswith(b"<!DOCTYPE html>")
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.readline())["summary"]["connections"] == 0
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "gone.raw"], "gone.raw: no such file"),
        (["--port", "99999"], "--port 99999: expected 0 to 65535"),
        (["--host", "203.0.113.1", "--port", "1"], "203.0.113.1, port 1: cannot listen"),
    ],
)
def test_bad_arguments(tmp_path, capsys, monkeypatch, arguments, message):
    s7.save(make_model(), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["serve", ".", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"s7 serve: {message}")
