"""Numbers, durations and tables as text."""

import doctest
import math
import subprocess
import sys

import pytest

from s7.publishing import require, text


def test_examples_in_the_docstrings():
    assert doctest.testmod(text).failed == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (12345.6, "12,346"),
        (-0.5, "-0.5"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (9.99996, "10"),
    ],
)
def test_number(value, expected):
    assert text.number(value) == expected


def test_number_has_the_requested_digits():
    assert [text.number(q, 3) for q in (0.012345, 1.2345, 12.345, 123.45, 1234.5)] == [
        "0.0123",
        "1.23",
        "12.3",
        "123",
        "1,234",
    ]


def test_mean_std():
    assert text.mean_std([]) == "–"
    assert text.mean_std([0.5]) == "0.5"
    assert text.mean_std([2.0, 2.0]) == "2 ± 0"
    assert text.mean_std([2.1e-5, 2.3e-5]) == "(2.20 ± 0.14)e-05"
    assert text.mean_std([1.0, math.nan]) == "nan"
    assert text.metric_mean_std("accuracy", [0.95, 0.96]) == "95.50 ± 0.71 %"
    assert text.metric_mean_std("accuracy", [0.95]) == "95.00 %"


def test_table_aligns_columns():
    shown = text.table(["model", "value", "note"], [["a", "1.5", "x"], ["long", "10", "yy"]], align="<><")
    assert shown.splitlines() == ["model  value  note", "a        1.5  x", "long      10  yy"]


def test_needs_neither_jax_nor_the_extra():
    code = "import sys, s7.publishing.text; print({'jax', 'jinja2', 'matplotlib', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_missing_extra_is_explained(monkeypatch):
    require("the report")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ValueError, match=r"^the report needs jinja2, which is not installed: pip install [^\n]*$"):
        require("the report")
