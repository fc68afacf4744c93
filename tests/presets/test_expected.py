"""What a run can expect from its budget."""

import json

import pytest
from benchmarks import expected as generated

from s7.job import Job
from s7.presets.expected import expectation, interpolated

POINTS = [(1, 0.2), (4, 0.4), (5, 0.5)]


@pytest.mark.parametrize(("epochs", "value"), [(0.5, None), (1, 0.2), (2, 0.3), (4, 0.4), (5, 0.5), (50, 0.5)])
def test_values_between_epochs(epochs, value):
    assert interpolated(POINTS, epochs) == (None if value is None else pytest.approx(value))


def test_a_sentence():
    assert expectation("image", 2.0).startswith("expect a validation accuracy of about ")
    assert expectation("image", 0.1) == "no recorded run of less than 1 epoch says what to expect"
    assert expectation("mine:Task", 2.0) is None


def test_the_file_is_that_of_the_recorded_runs():
    assert json.loads(generated.PATH.read_text()) == json.loads(json.dumps(generated.expected()))


@pytest.mark.parametrize(("settings", "says"), [({}, True), ({"model": {"width": 8}}, False)])
def test_a_run_with_the_settings_of_the_preset_says_what_to_expect(settings, says):
    job = Job("listops", settings=settings)
    changes = ["model.width=8"] if settings else []
    assert job._is_recorded(changes) == says
