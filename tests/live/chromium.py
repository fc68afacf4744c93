"""Headless Chromium, driven through its DevTools protocol."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Tab:
    """A tab of the browser."""

    def __init__(self, socket: ClientConnection):
        self._socket, self._number = socket, 0
        # Errors, warnings and failed requests.
        self.complaints: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=20))
            self._listen(message)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def _listen(self, message: dict[str, Any]) -> None:
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([value.get("value") for value in about["args"]]))
        elif method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])

    def open(self, url: str) -> None:
        """Load a page."""
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)

    def evaluate(self, code: str) -> Any:
        """The value of an expression, or of the promise that it gives."""
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, code: str, seconds: float = 15) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(code)):
            assert time.monotonic() < end, f"{code} is not true within {seconds} s; {self.complaints}"
            time.sleep(0.05)
        return value

    def look(self, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Set the theme and the size of the window."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path: Path) -> None:
        """Save a picture of the whole page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with one tab. `folder` is for its profile."""
    assert PROGRAM is not None
    arguments = [PROGRAM, *OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(folder / "DevToolsActivePort", process)
        with urlopen(f"http://127.0.0.1:{port}/json/list") as response:
            address = next(tab["webSocketDebuggerUrl"] for tab in json.load(response) if tab["type"] == "page")
        with connect(address, max_size=None, compression=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(file: Path, process: subprocess.Popen) -> int:
    for _ in range(300):
        assert process.poll() is None, "Chromium ended"
        if file.exists() and (text := file.read_text()).strip():
            return int(text.split()[0])
        time.sleep(0.1)
    raise TimeoutError("Chromium did not start within 30 s")
