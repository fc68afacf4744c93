"""The layer against the reference, in every mode of execution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import s7
from tests.oracle import reference_call

TRANSITIONS = {
    "stable": s7.Stable(),
    "oscillating": s7.Stable(oscillate=True),
    "as printed": s7.Stable(gain=None),
    "variance": s7.Stable(a=0.5, b=1.0, gain="variance"),
    "plain": s7.Plain(),
    "step": s7.Step(),
    "ring": s7.Ring(selective=True),
    "counting": s7.Stable(counting=True),
    "oscillating, counting": s7.Stable(oscillate=True, counting=True),
    "step, counting": s7.Step(held=True, counting=True),
}
FORMS = {
    f"{form.__name__} D {D}": form(D=D)
    for form in (s7.Full, s7.Factored, s7.Static)
    for D in ("diagonal", "full", "static")
}
TIMES = ("regular", "asynchronous")
call = eqx.filter_jit(lambda layer, *arguments, **keywords: layer(*arguments, **keywords))


def make(transition, form, width=5, state=4, *, dtype=jnp.float64, seed=0, **keywords):
    key = jax.random.key(seed)
    return s7.S7Layer(width, state, key=key, transition=transition, form=form, dtype=dtype, **keywords)


def sequence(length, width, seed=0, *, time="asynchronous", dtype=np.float64):
    rng = np.random.default_rng(seed)
    dt = rng.exponential(1.0, length).astype(dtype) if time == "asynchronous" else None
    return rng.normal(size=(length, width)).astype(dtype), dt


def assert_close(a, b, tolerance=1e-9):
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def check_against_reference(transition, form, time, length, width, state, seed):
    layer = make(transition, form, width, state, seed=seed)
    u, dt = sequence(length, width, seed, time=time)
    if isinstance(transition, s7.Plain):  # nothing keeps it stable: hold its input small enough
        u = u * 0.1
    y, x = call(layer, u, dt)
    expected_y, expected_x = reference_call(layer, u, dt)
    assert_close(y, expected_y)
    assert_close(x, expected_x)
    single = jax.tree.map(lambda q: q.astype(jnp.float32) if eqx.is_array(q) else q, layer)
    y32, x32 = call(single, u.astype(np.float32), None if dt is None else dt.astype(np.float32))
    assert y32.dtype == jnp.float32
    assert x32.real.dtype == jnp.float32
    assert_close(y32, expected_y, 1e-4)
    assert_close(x32, expected_x, 1e-4)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("transition", ["oscillating", "step", "counting"])  # test_reference.py has the others
def test_every_transition_and_form_equals_the_reference(transition, form, time):
    check_against_reference(TRANSITIONS[transition], form, time, length=97, width=5, state=3, seed=1)


@given(
    transition=st.sampled_from(list(TRANSITIONS.values())),
    form=st.sampled_from(list(FORMS.values())),
    time=st.sampled_from(TIMES),
    length=st.integers(1, 2000),
    width=st.integers(1, 9),
    state=st.integers(1, 8),
    seed=st.integers(0, 9),
)
@example(transition=s7.Stable(), form=s7.Full(D="full"), time="asynchronous", length=1, width=1, state=1, seed=0)
@example(transition=s7.Step(), form=s7.Factored(rank=1), time="regular", length=2000, width=1, state=1, seed=0)
@example(transition=s7.Stable(gain="variance"), form=s7.Full(), time="regular", length=1999, width=6, state=1, seed=0)
@settings(max_examples=6)
def test_any_sizes_equal_the_reference(transition, form, time, length, width, state, seed):
    check_against_reference(transition, form, time, length, width, state, seed)


@pytest.mark.parametrize("length", [910, 911, 2731])
def test_lengths_around_the_chunks(length):
    layer = make(s7.Stable(), s7.Full(D="full"), width=12, state=9)
    u, dt = sequence(length, 12)
    assert_close(call(layer, u, dt)[0], reference_call(layer, u, dt)[0])


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS)
def test_matrices_are_the_layer_written_out(transition, time):
    layer = make(transition, s7.Full(D="full"), blocks=2)
    u, dt = sequence(30, 5, time=time)
    m = eqx.filter_jit(s7.S7Layer.matrices)(layer, u, dt)
    x, outputs = np.asarray(layer.init_state()), []
    for k in range(len(u)):
        x = m.transition[k] * x + m.B[k] @ u[k] + m.b[k]
        outputs.append((m.C[k] @ x).real + m.D[k] @ u[k])
    assert m.transition.shape == (30, 4)
    assert m.B.shape == (30, 4, 5)
    assert m.C.shape == (30, 5, 4)
    assert m.D.shape == (30, 5, 5)
    assert_close(call(layer, u, dt)[0], np.array(outputs), 1e-12)


def plain_formula(layer, u, dt, state):
    """The layer by its matrices and a loop that is differentiated through: no hand-written gradient in it."""
    m = layer.matrices(u, dt)

    def step(x, at):
        a, B, b, C, D, u = at
        x = a * x + B @ u + b
        return x, (C @ x).real + D @ u

    x, y = jax.lax.scan(step, state, (*m, u))
    return y, x


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize(
    ("transition", "form"),
    [(t, FORMS["Full D full"]) for t in TRANSITIONS.values()]
    + [(TRANSITIONS["stable"], FORMS[f]) for f in ("Full D diagonal", "Factored D full", "Static D static")]
    + [(TRANSITIONS["oscillating"], FORMS["Factored D diagonal"])],
)
def test_gradients_equal_those_of_the_plain_formula_and_finite_differences(transition, form, time):
    layer = make(transition, form)
    u, dt = sequence(23, 5, time=time)
    weights = np.random.default_rng(1).normal(size=(23, 5))
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    state = jnp.ones_like(layer.init_state())

    def loss(run, arguments):
        arrays, u, dt, state = arguments
        y, x = run(eqx.combine(arrays, rest), u, dt, state)
        return jnp.sum(weights * jnp.sin(y)) + jnp.sum(jnp.cos(x.real)) + jnp.sum(jnp.sin(x.imag))

    def fast(layer, u, dt, state):
        return layer(u, dt, state=state)

    arguments = (arrays, u, dt, state)
    value_and_gradient = jax.jit(jax.value_and_grad(lambda a: loss(fast, a)))
    gradient = value_and_gradient(arguments)[1]
    plain = jax.jit(jax.grad(lambda a: loss(plain_formula, a)))(arguments)
    jax.tree.map(assert_close, gradient, plain)

    rng = np.random.default_rng(2)
    direction = jax.tree.map(lambda q: jnp.asarray(rng.normal(size=q.shape), q.dtype), arguments)
    move = lambda by: jax.tree.map(lambda q, d: q + by * d, arguments, direction)  # noqa: E731
    numeric = (value_and_gradient(move(1e-5))[0] - value_and_gradient(move(-1e-5))[0]) / 2e-5
    # JAX's gradient of a real function of z is ∂/∂re - i ∂/∂im: pair it with the direction without conjugating.
    products = jax.tree.map(lambda g, d: jnp.sum(g * d).real, gradient, direction)
    np.testing.assert_allclose(sum(jax.tree.leaves(products)), numeric, rtol=1e-5)


def test_the_first_argument_of_a_factored_form_is_its_rank():
    assert s7.Factored(16) == s7.Factored(rank=16)
    with pytest.raises(TypeError):
        s7.Full("full")


def test_second_derivatives_work():
    layer = make(s7.Stable(), s7.Full())
    u, dt = sequence(9, 5)

    def curvature(run):
        slope = lambda u: jnp.sum(jax.grad(lambda u: jnp.sum(jnp.sin(run(u))))(u) ** 2)  # noqa: E731
        return jax.jit(jax.grad(slope))(u)

    state = layer.init_state()
    assert_close(curvature(lambda u: layer(u, dt)[0]), curvature(lambda u: plain_formula(layer, u, dt, state)[0]))


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS)
def test_step_equals_scan(transition, time):
    layer = make(transition, s7.Full())
    u, dt = sequence(17, 5, time=time)
    y, final = call(layer, u, dt)
    step = eqx.filter_jit(s7.S7Layer.step)
    x = layer.init_state()
    for k in range(17):
        y_k, x = step(layer, u[k], x, None if dt is None else dt[k])
        assert_close(y_k, y[k], 1e-12)
    assert_close(x, final, 1e-12)


@given(cuts=st.lists(st.integers(1, 39), max_size=4, unique=True))
@settings(max_examples=6)
def test_chunks_match_the_whole_sequence(cuts):
    layer = make(s7.Stable(oscillate=True), s7.Factored(rank=4))
    u, dt = sequence(40, 5)
    y, final = call(layer, u, dt)
    x, parts = None, []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        part, x = call(layer, u[start:end], dt[start:end], state=x)
        parts.append(part)
    assert_close(np.concatenate(parts), y, 1e-12)
    assert_close(x, final, 1e-12)


@given(
    places=st.lists(st.integers(0, 20), max_size=6),
    content=st.sampled_from([0.0, 1e30, np.nan, np.inf]),
    transition=st.sampled_from(["stable", "oscillating", "step"]),
)
@settings(max_examples=8)
def test_padding_of_any_content_changes_no_output_and_no_gradient(places, content, transition):
    layer = make(TRANSITIONS[transition], s7.Full(D="full"))
    u, dt = sequence(20, 5)
    real = np.ones(20, bool)
    for place in sorted(places):
        u, dt = np.insert(u, place, content, axis=0), np.insert(dt, place, content)
        real = np.insert(real, place, False)

    def loss(layer, u, dt, mask):
        y, x = layer(u, dt, mask)
        return jnp.sum(jnp.where(mask[:, None], jnp.sin(y), 0)) + jnp.sum(x.real), (y, x)

    run = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))
    (_, (y, x)), gradient = run(layer, u, dt, real)
    (_, (y_alone, x_alone)), gradient_alone = run(layer, u[real], dt[real], np.ones(20, bool))
    assert_close(y[real], y_alone, 1e-12)
    assert_close(x, x_alone, 1e-12)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-11), gradient, gradient_alone)
    input_gradient = jax.jit(jax.grad(lambda u: loss(layer, u, dt, real)[0]))(u)
    assert (np.asarray(input_gradient)[~real] == 0).all()


@pytest.mark.parametrize("transition", ["stable", "oscillating"])
def test_packing_equals_separate_sequences(transition):
    layer = make(TRANSITIONS[transition], s7.Full())
    sequences = [sequence(n, 5, seed) for seed, n in enumerate((7, 1, 12))]
    u = np.concatenate([u for u, _ in sequences])
    dt = np.concatenate([dt for _, dt in sequences])
    reset = np.zeros(20, bool)
    reset[[0, 7, 8]] = True
    y, final = call(layer, u, dt, reset=reset)
    alone = [call(layer, *one) for one in sequences]
    assert_close(y, np.concatenate([y for y, _ in alone]), 1e-12)
    assert_close(final, alone[-1][1], 1e-12)


@pytest.mark.parametrize("backend", ["xla", "parallel"])
def test_backends_and_batches_give_the_same_numbers(backend):
    layer = make(s7.Stable(), s7.Full())
    u = np.stack([sequence(50, 5, seed)[0] for seed in range(3)])
    with s7.backend(backend):
        y = eqx.filter_jit(lambda layer, u: jax.vmap(lambda u: layer(u)[0])(u))(layer, u)
    assert_close(y, np.stack([reference_call(layer, one)[0] for one in u]))


def test_the_gap_of_a_layer_is_used_where_a_call_gives_none():
    layer = make(s7.Stable(), s7.Full(), dt=0.25)
    u, _ = sequence(9, 5)
    assert_close(call(layer, u)[0], call(layer, u, np.full(9, 0.25))[0], 0)
    assert np.abs(call(layer, u)[0] - call(make(s7.Stable(), s7.Full()), u)[0]).max() > 1e-3


def test_gain_none_is_the_paper_to_the_letter():
    layer = s7.S7Layer(3, 2, key=jax.random.key(0), gain=None)
    assert layer.transition == s7.Stable(gain=None)
    with pytest.raises(ValueError, match="Step has an input gain of its own"):
        s7.S7Layer(3, 2, key=jax.random.key(0), transition=s7.Step(), gain=None)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"u": np.zeros((4, 3))}, r"u has shape \(4, 3\), expected \(length, 5\)"),
        ({"u": np.zeros((0, 5))}, "u has no events"),
        ({"u": np.zeros((4, 5)), "dt": np.zeros(3)}, r"dt has shape \(3,\), expected \(4,\)"),
    ],
)
def test_invalid_shapes_are_rejected(arguments, message):
    layer = make(s7.Stable(), s7.Full())
    with pytest.raises(ValueError, match=message):
        layer(**arguments)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(("sizes", "message"), [((0, 4), "width=0"), ((4, 0), "state=0")])
def test_invalid_sizes_are_rejected(sizes, message):
    with pytest.raises(ValueError, match=message):
        s7.S7Layer(*sizes, key=jax.random.key(0))
