"""The checks of the theory hold for the real transitions and fail for broken ones."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.cli.main import main
from s7.publishing import pages, plots
from s7.theory import CHECKS, approximation, gradients, record, stability, verify, weight_ratio
from s7.theory.figures import FIGURES
from s7.theory.parameterizations import ALTERNATIVES

SMALL = {
    "stability": lambda make: stability.check(0, make, layers=2, length=64),
    "gradients": lambda make: gradients.check(0, make, models=1, length=512, points=25),
    "weight-ratio": lambda make: weight_ratio.check(0, make, points=61),
    "approximation": lambda make: approximation.check(0, make, directions=2),
}


class Flipped(s7.Stable):
    """States grow at the rate at which they should decay."""

    def rate(self, w):
        return -1 / (self.a * w * w + self.b)


class Stuck(s7.Stable):
    """Every |a_k| is 1: no state grows, and none forgets."""

    def rate(self, w):
        return 0 * w


class Steep(s7.Stable):
    """The right values with one and a half times their derivative."""

    def rate(self, w):
        @jax.custom_jvp
        def rate(w):
            return 1 / (self.a * w * w + self.b)

        @rate.defjvp
        def _(primals, tangents):
            return rate(*primals), -1.5 * 2 * self.a * primals[0] * rate(*primals) ** 2 * tangents[0]

        return rate(w)


class Double(s7.Stable):
    """Time constants a w² + b, and a second part of them that the formulas do not know."""

    def rate(self, w):
        return 1 / (self.a * w * w + self.b + 3 * w**4)


@pytest.fixture(scope="module")
def held():
    """Every check of the real transitions, made small."""
    return {name: make(s7.Stable) for name, make in SMALL.items()}


@pytest.fixture(scope="module")
def broken():
    """Checks of broken transitions, each made once."""

    @cache
    def make(name, kind):
        # The fused kernels take every `Stable` for the real one; the other checks do not reach them.
        with s7.backend("xla") if name == "gradients" else nullcontext():
            return SMALL[name](kind)

    return make


@pytest.mark.parametrize("name", SMALL)
def test_every_point_holds(held, name):
    assert [point.claim for point in held[name].points if not point.holds] == []
    assert held[name].passed


@pytest.mark.parametrize(
    ("name", "kind", "claim"),
    [
        ("stability", Flipped, "|a_k| ≤ 1 for every w_k"),
        ("stability", Stuck, "regular time, b = 1: ‖Φ(k, s)‖ ≤ M exp(-α (k - s))"),
        ("stability", Stuck, "asynchronous time, b = 1/2: the largest |a_k| over bounded inputs"),
        ("stability", Stuck, "regular time, b = 1/2 as in the paper"),
        ("gradients", Steep, "Stable, asynchronous: |∂Loss/∂w_j| ≤ K |f'|/f²"),
        ("gradients", Steep, "Stable, regular, b = 1: the gradient over the weight is at most 2aK"),
        ("gradients", Steep, "Stable with input-dependent w_k"),
        ("weight-ratio", Steep, "G_f(w) = 2a|w| in regular time"),
        ("weight-ratio", Flipped, "G_f(w) = 2a|w| in asynchronous time"),
        ("approximation", Flipped, "unchanged, the error goes to zero"),
        ("approximation", Flipped, "Stable: E_m(β) ≤ E_m(0) + K_m β + O(β²)"),
        ("approximation", Stuck, "Stable: E_m(β) goes to zero with β"),
        ("approximation", Double, "Assumption 3 holds for Stable"),
        ("approximation", Double, "a layer of 16 states"),
    ],
)
def test_a_broken_transition_fails(broken, name, kind, claim):
    check = broken(name, kind)
    (point,) = (point for point in check.points if point.claim.startswith(claim))
    assert not point.holds
    assert not check.passed


def test_alternatives_that_were_bounded_would_fail():
    """The points about other parameterizations are measured, not assumed."""
    sweep = gradients.Sweep(*(np.geomspace(1, 100, 50),) * 2, gradient=np.geomspace(1, 100, 50), slope=np.ones(50))
    assert not gradients._unbounded("flat", sweep, s7.Stable(), 1000).holds


def test_the_marginal_state_is_shown(held):
    """The paper's b = 1/2 in regular time, with known numbers."""
    assert held["stability"].numbers["state_after_1000_held"] == 2000
    assert held["stability"].numbers["alpha_regular_b1"] > 0
    assert "Λ = -1/2 + i gives |f| = 1.5530" in held["stability"].findings[1]


def test_bounds_are_nearly_attained(held):
    """Bounds are not far above the measurements."""
    assert held["gradients"].numbers["stable_over_weight"] > 1.99
    assert held["approximation"].numbers["bound_quotient"] > 0.9
    assert held["approximation"].numbers["assumption_3_quotient"] > 0.9


@settings(max_examples=25)
@given(
    a=st.floats(0.1, 3),
    b=st.floats(0.5, 3),
    w=st.floats(1e-3, 1e3),
    dt=st.none() | st.floats(0.1, 10),
    sign=st.sampled_from([-1, 1]),
)
def test_the_weight_ratio(a, b, w, dt, sign):
    found = weight_ratio._ratio(s7.Stable(a=a, b=b, tau=(b, 50.0)), np.array([sign * w]), dt)
    np.testing.assert_allclose(found, 2 * a * sign * w, rtol=weight_ratio.ROUNDINGS * weight_ratio.EPS)


@settings(max_examples=25)
@given(tau=st.floats(0.6, 1e5))
@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda alternative: alternative.name)
def test_raw_parameters_give_the_requested_time_constants(alternative, tau):
    np.testing.assert_allclose(alternative.time(alternative.raw(np.array([tau]))), tau, rtol=1e-9)


@given(m=st.integers(4, 40), t=st.floats(0, 1e4))
def test_the_exponentials_approach_the_target(m, t):
    found = approximation.rule(m)
    target = (1 + t / approximation.T) ** -2
    assert abs(approximation.T * np.exp(-t / found.tau) @ found.c - target) < 300 * np.exp(-np.pi * np.sqrt(m))


def test_the_seed_decides():
    first, again, other = (record(stability.check(seed, layers=1, length=64)) for seed in (0, 0, 1))
    assert first == again
    assert first["numbers"] != other["numbers"]


def test_records_are_valid_json(broken):
    for kind in (Flipped, Stuck):
        text = json.dumps(record(broken("approximation", kind)), allow_nan=False)
        assert json.loads(text)["passed"] is False


def test_an_unknown_check():
    with pytest.raises(ValueError, match=r"^no check 'stabilty'; did you mean 'stability'\?$"):
        verify(["stabilty"])


def test_single_precision_is_preserved():
    """A check computes in float64 and leaves the caller's precision alone."""
    with jax.enable_x64(False):
        checks = verify(["weight-ratio"])
        assert next(checks).passed
        assert jax.numpy.zeros(1).dtype == np.float32


class TestPage:
    @pytest.fixture(autouse=True)
    def page(self):
        """Needs matplotlib."""
        pytest.importorskip("matplotlib")
        from s7.theory import page

        return page

    def test_html(self, page, held, broken, tmp_path):
        checks = [*held.values(), broken("weight-ratio", Steep)]
        text = page.write(checks[:4], tmp_path / "verify.html", "s7 verify").read_text()
        assert text.count("<svg ") == 4
        assert text.count("<b>holds</b>") == sum(len(check.points) for check in checks[:4]) + 4
        assert "fails</b>" not in text
        assert text.count("<b>Limits.</b>") == 4
        text = pages.render(page.page(checks[4:], "s7 verify"))
        assert text.count("fails</b>") == 3
        assert "0 of 2 points hold" in text

    def test_markdown(self, page, held, tmp_path):
        checks = [held["weight-ratio"], held["approximation"]]
        text = page.write(checks, tmp_path / "verify.md", "s7 verify --out verify.md").read_text()
        figures = list((tmp_path / "figures").iterdir())
        assert "    s7 verify --out verify.md\n" in text
        assert {figure.name for figure in figures} == {"verify-weight-ratio.svg", "verify-approximation.svg"}
        for figure in figures:
            assert f"(figures/{figure.name})" in text
            drawn = figure.read_text()
            assert "var(" not in drawn
            assert ElementTree.fromstring(drawn).tag.endswith("svg")

    def test_what_is_infinite_can_be_drawn(self, broken):
        for name, kind in (("approximation", Flipped), ("stability", Flipped)):
            assert plots.draw(name, FIGURES[name], broken(name, kind).curves).startswith("<svg ")


class TestCommand:
    def test_one_check(self, tmp_path, capsys):
        pytest.importorskip("matplotlib")
        out = tmp_path / "page.html"
        assert main(["verify", "--only", "weight-ratio", "--out", str(out)]) == 0
        shown = capsys.readouterr()
        assert shown.err == "checking weight-ratio\n"
        assert shown.out.startswith("weight-ratio: pass\n  pass  G_f(w) = 2a|w| in regular time")
        assert shown.out.endswith(f"2 of 2 points hold, in 1 check. Page: {out}\n")
        assert f"s7 verify --only weight-ratio --out {out}" in out.read_text()

    def test_a_failure_is_status_1(self, tmp_path, capsys, monkeypatch):
        pytest.importorskip("matplotlib")
        monkeypatch.setitem(CHECKS, "weight-ratio", lambda seed: weight_ratio.check(seed, Steep, points=61))
        out = tmp_path / "page.html"
        assert main(["verify", "--only", "weight-ratio", "--out", str(out), "--json"]) == 1
        first, last = map(json.loads, capsys.readouterr().out.splitlines())
        assert first["check"] == "weight-ratio"
        assert first["passed"] is False
        assert last == {"page": str(out)}

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--only", "aproximation"], "no check 'aproximation'; did you mean 'approximation'?"),
            (["--only", "nothing"], "known: stability, gradients, weight-ratio, approximation"),
            (["--seed", "-1"], "--seed: expected a whole number of at least 0, not '-1'"),
            (["--out", "."], "--out .: is a folder; give a file, such as verify.html"),
        ],
    )
    def test_a_mistake_is_told_before_anything_is_computed(self, words, message, capsys):
        assert main(["verify", *words]) == 2
        shown = capsys.readouterr()
        assert message in shown.err
        assert "checking" not in shown.err

    @pytest.fixture
    def no_matplotlib(self, monkeypatch):
        """As if the extra `report` were not installed."""
        monkeypatch.setitem(sys.modules, "matplotlib", None)

    @pytest.mark.usefixtures("no_matplotlib")
    def test_a_page_needs_matplotlib(self, capsys, tmp_path):
        assert main(["verify", "--out", str(tmp_path / "page.html")]) == 2
        assert "the page needs matplotlib, which is not installed: pip install" in capsys.readouterr().err

    @pytest.mark.usefixtures("no_matplotlib")
    def test_the_text_does_not(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert main(["verify", "--only", "weight-ratio"]) == 0
        shown = capsys.readouterr()
        assert shown.out.endswith("2 of 2 points hold, in 1 check.\n")
        assert "no page written: the page needs matplotlib" in shown.err
        assert not list(tmp_path.iterdir())
