"""The example `selective_memory` learns its task and draws its figure."""

from tests.programs import run_program


def test_selective_memory_example_runs(tmp_path):
    program = f"""
import sys
sys.argv[1:] = ["--out", {str(tmp_path / "figure.svg")!r}]
from examples.selective_memory import main
main()
"""
    assert "validation RMSE 0.0" in run_program(program)
    assert (tmp_path / "figure.svg").stat().st_size > 10_000
