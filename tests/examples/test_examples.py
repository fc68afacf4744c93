"""The examples run with small settings. They share a process, because importing JAX takes most of the time."""

import pytest

from tests.programs import ROOT, run_program

EXAMPLES = {
    "irregular_sensors": ("--recordings=20 --epochs=1", ["gaps read: test accuracy", "gaps ignored: test accuracy"]),
    "event_camera": ("--recordings=10 --epochs=1 --out=figure.svg", ["validation accuracy", "after", "figure.svg"]),
    "text": ("--documents=10 --length=64 --epochs=1", ["test accuracy", "The statement is executed"]),
    "equinox_model": ("--sequences=20 --steps=3", ["own loop: test MSE", "s7.train: test MSE"]),
    "streaming": ("--sequences=10 --epochs=1", ["validation RMSE", "restarted after 201 events", "µs per event"]),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    calls = {name: options.split() for name, (options, _) in EXAMPLES.items()}
    program = f"""
import sys
from importlib import import_module
sys.path.insert(0, {str(ROOT)!r})
for name, options in {calls!r}.items():
    print("::", name)
    import_module(f"examples.{{name}}").main(options)
"""
    parts = run_program(program, tmp_path_factory.mktemp("examples")).split(":: ")
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(printed, name):
    for text in EXAMPLES[name][1]:
        assert text in printed[name]
