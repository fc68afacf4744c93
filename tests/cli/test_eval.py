"""`s7 eval`."""

import json

import pytest

from .processes import numbers, run


def test_eval_repeats_the_test_result(finished, data):
    status, out, _ = run("eval", finished[0], "--data", data, "--json")
    assert status == 0
    assert json.loads(out)["metrics"]["mse"] == pytest.approx(numbers(finished[0])[1]["test"]["mse"], rel=1e-6)
