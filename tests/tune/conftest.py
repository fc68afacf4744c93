"""Searches whose trials are run by a stub instead of a training."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from s7.job import Job
from s7.tune.search import Budget, Search, SearchConfig
from s7.tune.space import Space
from s7.tune.worker import Worker

# A substitute for s7.study.trial. Its error is the distance of the learning rate from 0.01, in factors of ten. It
# diverges above 0.1, fails below 1e-4, and waits as long as there is a file "hold" in the folder of the search.
PROGRAM = """
import json, math, os, pathlib, signal, sys, time
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
folder = pathlib.Path(spec["folder"])
def send(event, **values):
    print(json.dumps({"event": event} | values), flush=True)
def stop(*_):
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
parent = os.getppid()
assert spec["test"] is False
resumed = (folder / "config.toml").exists()
with open(folder / "calls", "a") as file:
    file.write("r" if resumed else "x")
rate = spec["settings"]["train"]["learning_rate"]
error = abs(math.log10(rate) + 2) + 0.1
send("started", resumed=resumed)
(folder / "config.toml").write_text("format = 2")
if rate > 0.1:
    send("failed", message="the loss is nan", diverged=True)
    sys.exit(1)
if rate < 1e-4:
    sys.exit("out of memory")
seen = folder / "seen"
for n, fraction in enumerate(spec["rungs"]):
    if n >= (len(seen.read_text()) if seen.exists() else 0):
        send("rung", fraction=fraction, step=1, seconds=0.1, metric="mse", value=2 * error, better="min")
        (folder / "last.safetensors").touch()
        with open(seen, "a") as file:
            file.write("x")
    while (folder.parent.parent / "hold").exists():
        if os.getppid() != parent:
            sys.exit(1)
        time.sleep(0.02)
result = {"metric": "mse", "better": "min", "valid": {"mse": error}, "test": {}}
(folder / "result.json").write_text(json.dumps(result))
send("finished", valid=result["valid"], test={})
"""
STUB = (sys.executable, "-S", "-c", PROGRAM)


def config(**changes: Any) -> SearchConfig:
    """A search of the learning rate of fitzhugh-nagumo, which starts at 0.03."""
    job = Job("fitzhugh-nagumo", test=False)
    space = Space.of(job, [changes.pop("space", "train.learning_rate=1e-3:0.1:log")], ["train.learning_rate"])
    shared: dict[str, Any] = {"budget": Budget(epochs=2), "rungs": (0.25, 0.5)}
    return SearchConfig(job, space, **(shared | changes))


@pytest.fixture
def open_search(tmp_path) -> Callable[..., Search]:
    """Opens the search of a temporary folder."""
    return lambda **changes: Search.open(config(**changes), tmp_path / "out")


@pytest.fixture
def open_shared(postgresql, request) -> Callable[..., Search]:
    """Opens a search in a database, and closes it at the end."""

    def open_one(name: str, out: Path, **changes: Any) -> Search:
        search = Search.open(config(**changes), out, postgresql, name)
        request.addfinalizer(search.close)
        return search

    return open_one


@pytest.fixture
def work() -> Callable[..., Any]:
    """Runs a worker with the stub and returns the summary."""
    return lambda search, **options: Worker(search, program=STUB, **options).run()


@pytest.fixture
def calls() -> Callable[[Search, str], str]:
    """How often the trial of a folder was started (x) and resumed (r)."""
    return lambda search, name: (Path(search.out) / "trials" / name / "calls").read_text()


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory) -> Iterator[str]:
    """The URL of a PostgreSQL server that runs for the tests."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (str(programs[-1]) if programs else None)
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    # The server refuses to run as root, and its own account cannot read the folders of pytest.
    folder = Path(tempfile.mkdtemp(prefix="s7-postgresql-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        try:
            shutil.chown(folder, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL does not run as root, and there is no account postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    program, cluster = Path(found).parent, folder / "cluster"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, **user)

    run(found, "-D", str(cluster), "-U", "s7", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run(str(program / "pg_ctl"), "-D", str(cluster), "-w", "-l", str(folder / "log"), "-o", options, "start")
    yield f"postgresql://s7@127.0.0.1:{port}/postgres"
    run(str(program / "pg_ctl"), "-D", str(cluster), "-m", "immediate", "stop")
    shutil.rmtree(folder)
