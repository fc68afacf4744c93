"""Peak memory of forward and backward of one case, measured in a separate process relative to the import.

Compilation is included, as it is in a user's process.
"""

import json
import subprocess
import sys

from s7.bench.cases import LayerCase
from s7.settings import build, table_of


def peak_in_child(case: LayerCase, implementation: str) -> float:
    """Return the peak memory in megabytes, measured in a child process."""
    request = json.dumps({"case": table_of(case), "implementation": implementation})
    done = subprocess.run([sys.executable, "-m", "s7.bench.memory", request], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise ValueError(f"the memory measurement failed: {last[0]}")
    return float(done.stdout)


def peak(case: LayerCase, implementation: str) -> float:
    """Return the peak memory in megabytes of this process, which must be fresh."""
    from s7.bench.layer import program
    from s7.machine import peak_memory_mb

    before = peak_memory_mb()
    gradient = program(implementation, case, gradient=True)
    for _ in range(2):
        gradient()
    return peak_memory_mb() - before


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(peak(build(LayerCase, asked["case"], "case"), asked["implementation"]))
