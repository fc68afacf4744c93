"""Peak memory of one case, in a process of its own: the most that forward and backward held, over the import.

Compiling is part of it, for it is part of what a user's process does.
"""

import json
import subprocess
import sys

from s7.bench.cases import LayerCase
from s7.settings import build, table_of


def peak_in_a_child(case: LayerCase, way: str) -> float:
    """Megabytes."""
    request = json.dumps({"case": table_of(case), "way": way})
    done = subprocess.run([sys.executable, "-m", "s7.bench.memory", request], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise ValueError(f"the process that measures memory failed: {last[0]}")
    return float(done.stdout)


def peak(case: LayerCase, way: str) -> float:
    """Megabytes, of this process, which should have done nothing else."""
    from s7.bench.layer import program
    from s7.machine import peak_memory_mb

    before = peak_memory_mb()
    gradient = program(way, case, gradient=True)
    for _ in range(2):
        gradient()
    return peak_memory_mb() - before


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(peak(build(LayerCase, asked["case"], "case"), asked["way"]))
