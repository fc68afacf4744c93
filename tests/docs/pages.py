"""Run the Python blocks of documentation pages: `python -m tests.docs.pages FOLDER < programs.json`.

The programs are a JSON object of texts by name. Each runs in a namespace and a folder of its own, all of them in one
process, because most of the time would otherwise be spent on importing JAX. What they print is written as JSON.
"""

import io
import json
import os
import sys
import time
import traceback
import warnings
from contextlib import redirect_stdout
from pathlib import Path


def run(program: str, folder: Path) -> dict[str, str]:
    """Run a program in a folder, and return what it prints and the traceback of its error."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    printed, error = io.StringIO(), ""
    sys.path.insert(0, str(folder))
    with redirect_stdout(printed):
        try:
            exec(compile(program, folder.name, "exec"), {"__name__": folder.name})
        except Exception:
            error = traceback.format_exc()
    sys.path.remove(str(folder))
    return {"printed": printed.getvalue(), "error": error}


if __name__ == "__main__":
    warnings.simplefilter("error")
    outcome = {}
    for name, text in json.load(sys.stdin).items():
        outcome[name] = run(text, Path(sys.argv[1]) / name)
        print(f"{name}: {time.process_time():.1f} s of processor time so far", file=sys.stderr, flush=True)
    json.dump(outcome, sys.stdout)
