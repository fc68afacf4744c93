"""Gated cells against the equations of their papers in NumPy, and their dependence on time."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from s7.baselines.augmented_lstm import AugmentedLstm
from s7.baselines.chrono_lstm import ChronoLstm
from s7.baselines.ct_gru import CtGru
from s7.baselines.ct_lstm import CtLstm
from s7.baselines.ct_rnn import CtRnn
from s7.baselines.gru import Gru
from s7.baselines.gru_d import GruD
from s7.baselines.lstm import Lstm
from s7.baselines.ode_lstm import OdeLstm
from s7.baselines.phased_lstm import PhasedLstm
from s7.baselines.rnn import Rnn
from s7.baselines.rnn_decay import RnnDecay
from s7.signal import Timing
from tests.baselines.checks import WIDTH, against, sigmoid, softplus

LENGTH = 7


def along(step):
    """h at each event, from a step that changes a dictionary of arrays which all start at zero."""

    def written(parameters, u, dt):
        state, outputs = Zeros(), []
        for x, gap in zip(u, dt, strict=True):
            step(parameters, state, x, gap)
            outputs.append(state["h"])
        return np.array(outputs)

    return written


class Zeros(dict):
    def __missing__(self, name):
        return np.zeros(WIDTH)


def affine(p, x, h):
    return p["W"] @ x + p["U"] @ h + p["b"]


def lstm(p, x, h, c, extra=0.0):
    i, f, g, o = np.split(affine(p, x, h) + extra, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def rows(p, *names):
    """Each gate's map of x and h."""
    W, U, b = (np.split(p[name], len(names)) for name in ("W", "U", "b"))
    return {name: (lambda x, h, n=n: W[n] @ x + U[n] @ h + b[n]) for n, name in enumerate(names)}


@along
def rnn(p, s, x, dt):
    s["h"] = np.tanh(affine(p, x, s["h"]))


@along
def rnn_decay(p, s, x, dt):
    s["h"] = np.tanh(affine(p, x, s["h"] * np.exp(-dt * np.exp(p["log_r"]))))


def gru_step(p, x, h):
    gate = rows(p, "z", "r", "g")
    z, r = sigmoid(gate["z"](x, h)), sigmoid(gate["r"](x, h))
    return z * h + (1 - z) * np.tanh(gate["g"](x, r * h))


@along
def gru(p, s, x, dt):
    s["h"] = gru_step(p, x, s["h"])


@along
def gru_d(p, s, x, dt):
    gamma = np.exp(-np.maximum(0, p["w_gamma"] * dt + p["b_gamma"]))
    s["h"] = gru_step(p, x, gamma * s["h"])


@along
def chrono_lstm(p, s, x, dt):
    s["h"], s["c"] = lstm(p, x, s["h"], s["c"])


@along
def augmented_lstm(p, s, x, dt):
    s["h"], s["c"] = lstm({**p, "W": np.c_[p["W"], p["v"]]}, np.r_[x, dt], s["h"], s["c"])


@along
def phased_lstm(p, s, x, dt):
    tau, ratio = np.exp(p["log_tau"]), sigmoid(p["ratio"])
    s["t"] = s["t"] + dt
    phase = np.mod(s["t"] - p["shift"], tau) / tau
    gate = np.select(
        [phase < ratio / 2, phase < ratio], [2 * phase / ratio, 2 - 2 * phase / ratio], PhasedLstm.leak * phase
    )
    h, c = lstm(p, x, s["h"], s["c"])
    s["h"], s["c"] = gate * h + (1 - gate) * s["h"], gate * c + (1 - gate) * s["c"]


@along
def ct_rnn(p, s, x, dt):
    for _ in range(CtRnn.unfolds):
        keep = np.exp(-dt / CtRnn.unfolds / np.exp(p["log_tau"]))
        s["h"] = keep * s["h"] + (1 - keep) * np.tanh(affine(p, x, s["h"]))


def ct_gru(p, u, dt):
    """In the paper's order: a state decays over the gap that follows it. The first one is zero, and need not."""
    tau = np.sqrt(10.0) ** np.arange(CtGru.scales)
    traces = np.zeros((WIDTH, CtGru.scales))
    gate = rows(p, "retrieve", "store", "detect")
    outputs = []

    def nearness(log_tau):
        weights = np.exp(-((log_tau[:, None] - np.log(tau)) ** 2))
        return weights / weights.sum(1, keepdims=True)

    for x, after in zip(u, np.append(dt[1:], 0), strict=True):
        h = traces.sum(1)
        q = np.tanh(gate["detect"](x, np.sum(nearness(gate["retrieve"](x, h)) * traces, 1)))
        share = nearness(gate["store"](x, h))
        traces = (1 - share) * traces + share * q[:, None]
        outputs.append(traces.sum(1))
        traces = traces * np.exp(-after / tau)
    return np.array(outputs)


@along
def ct_lstm(p, s, x, dt):
    c = s["target"] + (s["c"] - s["target"]) * np.exp(-s["rate"] * dt)
    h = s["o"] * (2 * sigmoid(2 * c) - 1)
    gate = {name: row(x, h) for name, row in rows(p, "i", "f", "z", "o", "i_bar", "f_bar", "delta").items()}
    z = np.tanh(gate["z"])
    s["c"] = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * z
    s["target"] = sigmoid(gate["f_bar"]) * s["target"] + sigmoid(gate["i_bar"]) * z
    s["o"], s["rate"] = sigmoid(gate["o"]), softplus(gate["delta"])
    s["h"] = s["o"] * np.tanh(s["c"])


@along
def ode_lstm(p, s, x, dt):
    h, s["c"] = lstm(p, x, s["h"], s["c"])
    input = p["B"] @ h + p["a"]
    keep = np.exp(-dt / OdeLstm.unfolds)
    for _ in range(OdeLstm.unfolds):
        h = keep * h + (1 - keep) * np.tanh(p["A"] @ h + input)
    s["h"] = h


WRITTEN = {
    Rnn(): rnn,
    RnnDecay(): rnn_decay,
    Gru(): gru,
    GruD(): gru_d,
    ChronoLstm(): chrono_lstm,
    AugmentedLstm(): augmented_lstm,
    # Open for half of the time, so that some events come at each of the three parts of its gate.
    PhasedLstm(ratio=0.5): phased_lstm,
    CtRnn(): ct_rnn,
    CtGru(): ct_gru,
    CtLstm(): ct_lstm,
    OdeLstm(): ode_lstm,
}
each_cell = pytest.mark.parametrize("cell", WRITTEN, ids=lambda cell: type(cell).__name__)


def layer_of(cell, **parameters):
    """A layer in float64, with some of its parameters set."""
    layer = cell.layer(WIDTH, WIDTH, key=jax.random.key(3), dtype=jnp.float64)
    if not parameters:
        return layer
    assert set(parameters) <= set(layer.parameters)
    return eqx.tree_at(lambda layer: layer.parameters, layer, layer.parameters | parameters)


@pytest.fixture
def u():
    return np.random.default_rng(2).standard_normal((LENGTH, WIDTH))


@each_cell
def test_the_equations(cell):
    against(WRITTEN[cell], cell)


@eqx.filter_jit
def gradients(layer, u, dt):
    def loss(layer, u, dt):
        outputs = layer.apply(u, Timing(dt))[0]
        return (outputs**2).sum(), outputs

    return eqx.filter_grad(lambda arguments: loss(*arguments), has_aux=True)((layer, u, dt))


@each_cell
def test_zero_and_very_long_gaps_give_finite_states(cell, u):
    layer = cell.layer(WIDTH, WIDTH, key=jax.random.key(0), dtype=jnp.float32)
    u = jnp.asarray(u, jnp.float32)
    for gaps in ([0.0] * LENGTH, [1e4] * LENGTH, [0.0, 1e4, 0.0, 0.0, 1e4, 1e4, 0.0]):
        gradient, outputs = gradients(layer, u, jnp.asarray(gaps, jnp.float32))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradient, outputs)))
    assert np.abs(gradient[0].parameters["W"]).max() > 0


@each_cell
def test_cells_that_read_gaps_depend_on_them(cell, u):
    layer = layer_of(cell)
    outputs = [layer(u, gaps)[0] for gaps in (np.full(LENGTH, 0.5), np.full(LENGTH, 1.5))]
    assert np.array_equal(*outputs) is not cell.reads_gaps


@pytest.mark.parametrize(
    ("timed", "plain"),
    [(RnnDecay(), Rnn()), (GruD(), Gru()), (AugmentedLstm(), Lstm()), (OdeLstm(), Lstm())],
    ids=lambda cell: type(cell).__name__,
)
def test_without_gaps_a_cell_equals_its_base_cell(timed, plain, u):
    timed = layer_of(timed)
    plain = layer_of(plain, **{name: timed.parameters[name] for name in ("W", "U", "b")})
    np.testing.assert_allclose(timed(u, np.zeros(LENGTH))[0], plain(u)[0], rtol=1e-13)
    assert not np.allclose(timed(u, np.ones(LENGTH))[0], plain(u)[0], rtol=1e-3)


def test_without_gaps_the_target_of_a_continuous_lstm_does_not_matter(u):
    timed = layer_of(CtLstm())
    plain = layer_of(Lstm(), **{name: timed.parameters[name][: 4 * WIDTH] for name in ("W", "U", "b")})
    np.testing.assert_allclose(timed(u, np.zeros(LENGTH))[0], plain(u)[0], rtol=1e-13)


def test_after_a_very_long_gap_the_cell_is_at_its_target(u):
    layer = layer_of(CtLstm())
    _, state = layer(u, np.ones(LENGTH))
    h, _, target, rate, o = state
    y, _ = layer.step(u[0], state, 1e6)
    expected, _ = layer.step(u[0], (h, target, target, rate, o), 1.0)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    assert not np.allclose(y, layer.step(u[0], state, 0.0)[0], rtol=1e-3)


@pytest.mark.parametrize("cell", [RnnDecay(), GruD(), CtGru()], ids=lambda cell: type(cell).__name__)
def test_a_very_long_gap_is_a_new_beginning(cell, u):
    layer = layer_of(cell)
    _, state = layer(u, np.ones(LENGTH))
    y, after = layer.step(u[0], state, 1e6)
    expected, fresh = layer.step(u[0], layer.init_state(), 1.0)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), after, fresh)
    assert not np.allclose(y, layer.step(u[0], state, 1.0)[0], rtol=1e-3)


def test_units_of_gru_d_start_able_to_decay():
    assert (GruD().init(50, key=jax.random.key(0), dtype="float32")["w_gamma"] > 0).all()


def test_chrono_biases():
    units = 200
    b = ChronoLstm(longest=50.0).init(units, key=jax.random.key(0), dtype="float32")["b"]
    i, f, g, o = np.split(np.asarray(b), 4)
    assert (i == -f).all()
    assert not np.concatenate([g, o]).any()
    times = np.exp(f)
    assert times.min() > 0.99
    assert times.max() < 49.01
    # Uniform in T, not in log T: the mean is in the middle.
    assert abs(times.mean() - 25) < 4


def phased(leak, ratio=0.1, period=10.0):
    """A phased layer whose units all open at every whole period."""
    rhythm = {"log_tau": jnp.full(WIDTH, math.log(period)), "shift": jnp.zeros(WIDTH)}
    return layer_of(PhasedLstm(leak=leak, ratio=ratio), **rhythm)


def test_a_closed_phase_gate_only_leaks(u):
    state = (jnp.full(WIDTH, 0.5), jnp.full(WIDTH, -0.3), jnp.zeros(WIDTH))
    gaps = np.full(LENGTH, 1.2)  # up to 8.4 of a period of 10, of which 1 is open
    outputs, (_, c, _) = phased(leak=0.0)(u, gaps, state=state)
    assert (np.asarray(outputs) == 0.5).all()
    assert (np.asarray(c) == -0.3).all()
    leaky = np.asarray(phased(leak=1e-3)(u, gaps, state=state)[0])
    assert 0 < np.abs(leaky - 0.5).max() < 1e-3 * 1.5 * LENGTH


def test_an_open_phase_is_a_step_of_the_lstm(u):
    layer = phased(leak=0.0)
    plain = layer_of(Lstm(), **{name: layer.parameters[name] for name in ("W", "U", "b")})
    # Half of the open tenth of the period, the height of the gate, some periods later each time.
    gaps = np.array([0.5, 10, 0, 20, 30, 0, 1000])
    np.testing.assert_allclose(layer(u, gaps)[0], plain(u)[0], rtol=1e-9)


def test_the_clock_of_a_phased_lstm_keeps_time_in_single_precision():
    layer = jax.tree.map(lambda q: q.astype(jnp.float32), phased(leak=0.0))
    events, gap = 20_000, 0.3
    _, (_, _, clock) = layer(np.zeros((events, WIDTH), np.float32), np.full(events, gap, np.float32))
    expected = events * float(np.float32(gap)) / 10
    # In turns; the sum of the gaps themselves is off by 0.08.
    assert np.abs((np.asarray(clock, float) - expected + 0.5) % 1 - 0.5).max() < 0.01


def test_initial_periods_are_in_range():
    parameters = PhasedLstm(period=(2.0, 8.0), ratio=0.2).init(100, key=jax.random.key(0), dtype="float32")
    tau, shift = np.exp(parameters["log_tau"]), np.asarray(parameters["shift"])
    assert 1.99 < tau.min() < 2.5
    assert 6.5 < tau.max() < 8.01
    assert 0 <= (shift / tau).min() < 0.1
    assert 0.9 < (shift / tau).max() <= 1
    np.testing.assert_allclose(sigmoid(np.asarray(parameters["ratio"])), 0.2, rtol=1e-6)


def test_an_event_without_a_gap_does_not_change_a_continuous_time_cell(u):
    layer = layer_of(CtRnn())
    h = jnp.full(WIDTH, 0.25)
    assert (np.asarray(layer(u, np.zeros(LENGTH), state=(h,))[0]) == 0.25).all()


@jax.jit
def largest(scale, dt):
    u = jnp.asarray(np.random.default_rng(5).standard_normal((LENGTH, WIDTH)))
    layer = jax.tree.map(lambda q: scale * q, layer_of(CtRnn()))
    return jnp.abs(layer.apply(u, Timing(dt))[0]).max()


@given(st.lists(st.floats(0, 1e6), min_size=LENGTH, max_size=LENGTH), st.floats(0.1, 100))
def test_a_continuous_network_stays_bounded_after_any_gaps(gaps, scale):
    assert largest(np.float64(scale), np.array(gaps)) <= 1 + 1e-12


def follows(flow, start, gap, found):
    """The more steps, the nearer to the solution of dh/dt = flow(h)."""
    exact = solve_ivp(lambda t, h: flow(h), (0, gap), start, rtol=1e-10, atol=1e-12).y[:, -1]
    errors = [np.abs(found(unfolds) - exact).max() for unfolds in (1, 4, 16, 64)]
    assert errors == sorted(errors, reverse=True)
    assert 0 < errors[-1] < 4e-3


def test_a_continuous_network_follows_its_differential_equation(u):
    p = layer_of(CtRnn()).parameters | {"log_tau": jnp.array([-0.5, 0.0, 0.5])}
    drive = CtRnn().drive(p, jnp.asarray(u))[0]
    start, gap = jnp.array([0.9, -0.4, 0.1]), 1.5
    follows(
        lambda h: (np.tanh(drive + p["U"] @ h) - h) / np.exp(p["log_tau"]),
        start,
        gap,
        lambda unfolds: CtRnn(unfolds=unfolds).advance(p, drive, (start,), jnp.asarray(gap))[0],
    )


def test_the_output_of_an_ode_lstm_follows_its_differential_equation_and_its_memory_does_not(u):
    p = layer_of(OdeLstm()).parameters
    drive = OdeLstm().drive(p, jnp.asarray(u))[0]
    before, gap = (jnp.array([0.9, -0.4, 0.1]), jnp.array([2.0, -1.0, 0.5])), 1.5
    start, memory = Lstm().advance(p, drive, before, jnp.asarray(0.0))
    follows(
        lambda x: np.tanh(p["A"] @ x + p["B"] @ start + p["a"]) - x,
        start,
        gap,
        lambda unfolds: OdeLstm(unfolds=unfolds).advance(p, drive, before, jnp.asarray(gap))[0],
    )
    np.testing.assert_array_equal(OdeLstm().advance(p, drive, before, jnp.asarray(gap))[1], memory)


@pytest.mark.parametrize(
    ("cell", "settings"),
    [
        (ChronoLstm, {"longest": 1.5}),
        (RnnDecay, {"rate": 0.0}),
        (PhasedLstm, {"period": (3.0, 2.0)}),
        (PhasedLstm, {"ratio": 1.0}),
        (PhasedLstm, {"leak": -0.1}),
        (CtRnn, {"unfolds": 0}),
        (OdeLstm, {"unfolds": 0}),
        (CtGru, {"scales": 0}),
        (CtGru, {"shortest": 0.0}),
    ],
)
def test_an_invalid_setting_is_rejected(cell, settings):
    with pytest.raises(ValueError, match=f"{cell.__name__}: {next(iter(settings))}="):
        cell(**settings)
