"""Python programs that tests run in a process of their own, as a user would."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_program(program: str, folder: Path = ROOT) -> str:
    """Run a program in default precision with warnings as errors, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
