"""Runs of `s7` in separate processes, and the files that tests compare."""

import json
import subprocess
import sys
from pathlib import Path

SMALL = ("model.width=4", "model.state=3", "model.depth=1", "model.form.rank=2", "data.copies=1", "train.batch_size=16")


def start(*arguments) -> subprocess.Popen:
    """Start a command; warnings are errors."""
    process = [sys.executable, "-W", "error", "-m", "s7", *map(str, arguments)]
    return subprocess.Popen(process, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments) -> tuple[int, str, str]:
    """Run a command and return its status, stdout and stderr."""
    process = start(*arguments)
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def temporary_files(folder: Path) -> list[Path]:
    """Files that a killed process left half-written."""
    return [path for path in folder.glob(".*") if path.name != ".lock"]


def numbers(folder: Path) -> tuple[list[dict], dict]:
    """The metrics and results that must not depend on interruptions: everything but times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    names = ("best_epoch", "valid", "test", "data_sha256", "parameters")
    return [{**line, "seconds": 0, "cpu_seconds": 0} for line in lines], {name: result[name] for name in names}
