"""The native kernels against the reference and XLA, under every transformation, and their errors."""

import subprocess
import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import s7
from s7 import native
from s7.backend_selection import current_backend
from s7.contractions import bilinear, quadratic
from s7.native import kernels
from s7.recurrence import recurrence
from s7.signal import Timing
from tests.oracle import reference_call

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native kernels: {native.unavailable_reason()}")

GAINS = (None, "rate", "variance")
DIRECT = ("static", "diagonal", "full")


def make(width, state, *, oscillate=False, gain="rate", D="diagonal", rank=0, dtype=jnp.float64, seed=0, **keywords):
    form = s7.Factored(rank=rank, D=D) if rank else s7.Full(D=D)
    transition = s7.Stable(a=1.3, b=0.7, oscillate=oscillate, gain=gain)
    return s7.S7Layer(width, state, key=jax.random.key(seed), transition=transition, form=form, dtype=dtype, **keywords)


def data(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def assert_close(a, b, tolerance):
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def as_single(q):
    if not eqx.is_array_like(q):
        return q
    return jnp.asarray(q, jnp.complex64 if jnp.iscomplexobj(q) else jnp.float32)


def run(backend, function, *arguments):
    with s7.backend(backend):
        return eqx.filter_jit(function)(*arguments)


# Against the reference and the XLA path -----------------------------------------------------------------------------


@given(
    width=st.integers(1, 34),
    state=st.integers(1, 34),
    length=st.integers(1, 250),
    oscillate=st.booleans(),
    gain=st.sampled_from(GAINS),
    D=st.sampled_from(DIRECT),
    rank=st.sampled_from([0, 0, 1, 7, 16]),
    timed=st.booleans(),
)
@example(width=1, state=1, length=1, oscillate=False, gain="rate", D="full", rank=0, timed=True)
@example(width=13, state=7, length=97, oscillate=True, gain="variance", D="full", rank=0, timed=True)
@settings(max_examples=12)
def test_the_layer_equals_the_reference(width, state, length, oscillate, gain, D, rank, timed):
    layer = make(width, state, oscillate=oscillate, gain=gain, D=D, rank=rank)
    u = data(length, width)
    dt = np.abs(data(length)) if timed else None
    start = np.ones(state) * (1 - 0.5j if oscillate else 1.0)
    expected = reference_call(layer, u, dt, start)

    def in_both_precisions(layer, u, dt, start):
        single = jax.tree.map(as_single, (layer, u, dt, start), is_leaf=eqx.is_array)
        return [layer(u, dt, state=start) for layer, u, dt, start in ((layer, u, dt, start), single)]

    outputs, outputs32 = run("native", in_both_precisions, layer, u, dt, start)
    for got, got32, wanted in zip(outputs, outputs32, expected, strict=True):
        assert got32.real.dtype == jnp.float32
        assert_close(got, wanted, 1e-9)
        assert_close(got32, wanted, 1e-4)


def loss_of_a_run(arguments, mask, reset, reverse):
    """A number that depends on every output, and on the final state."""
    layer, u, dt, start = arguments
    events, *timing = layer.validate(u, dt, mask, reset)
    y, final = layer.apply(events, Timing(*timing), start, reverse=reverse)
    return jnp.sum(jnp.sin(y)) + jnp.sum(jnp.cos(final.real + 2 * final.imag))


# Each with other sizes, so that tails of tiles and vectors vary; and with padding, resets and an initial state.
CASES = {
    "full D, in time": dict(width=5, state=3, D="full", timed=True, length=97),
    "static D, oscillating": dict(width=8, state=5, D="static", oscillate=True, length=40),
    "variance, from the end": dict(width=3, state=9, gain="variance", length=193, reverse=True),
    "oscillating in time, from the end": dict(
        width=7, state=2, oscillate=True, gain="variance", timed=True, reverse=True, length=110
    ),
    "as printed": dict(width=17, state=11, gain=None, length=31),
    "variance in time": dict(width=2, state=1, gain="variance", timed=True, length=203),
    "factored": dict(width=6, state=10, rank=5, D="full", timed=True, length=98),
    "factored, oscillating": dict(width=9, state=4, rank=13, oscillate=True, gain=None, length=55, reverse=True),
    "one of everything": dict(width=1, state=1, length=1, timed=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_equal_those_of_the_xla_path(case):
    case = dict(case)
    length, timed, reverse = case.pop("length"), case.pop("timed", False), case.pop("reverse", False)
    layer = make(**case)
    rng = np.random.default_rng(1)
    mask, reset = rng.random(length) < 0.85, rng.random(length) < 0.1
    start = data(layer.state, seed=2) * (1 + 0.3j if case.get("oscillate") else 1)
    arguments = layer, data(length, layer.width), np.abs(data(length, seed=3)) if timed else None, start
    gradient = partial(eqx.filter_value_and_grad(loss_of_a_run), mask=mask, reset=reset, reverse=reverse)
    expected, got = (run(backend, gradient, arguments) for backend in ("xla", "native"))
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-11), got, expected)
    single = jax.tree.map(as_single, arguments)
    jax.tree.map(lambda a, b: assert_close(a, b, 3e-4), run("native", gradient, single), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("complex_numbers", [False, True])
@pytest.mark.parametrize("state", [1, 7, 8, 14, 16, 37, 41, 83])
def test_the_recurrence_equals_the_loop(state, complex_numbers, reverse):
    rng = np.random.default_rng(state)
    a, v, gradient = (rng.uniform(-1, 1, (30, state)) for _ in range(3))
    start = rng.normal(size=state)
    if complex_numbers:
        a, v, gradient, start = (q * np.exp(1j * rng.normal(size=q.shape)) for q in (a, v, gradient, start))
    states, x = [], start
    for k in range(30)[:: -1 if reverse else 1]:
        states.append(x := a[k] * x + v[k])
    expected = np.array(states[::-1] if reverse else states)
    np.testing.assert_allclose(kernels.scan(*map(jnp.asarray, (a, v, start)), reverse), expected, atol=1e-12)

    def pullback(a, v, start):
        return jax.vjp(partial(recurrence, reverse=reverse), a, v, start)[1](gradient)

    for got, wanted in zip(run("native", pullback, a, v, start), run("xla", pullback, a, v, start), strict=True):
        assert_close(got, wanted, 1e-12)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(1, 210))
@settings(max_examples=8)
def test_the_forms_equal_their_sums(width, rows, outputs, length):
    u, x, g = data(length, width), data(length, rows, seed=1), data(length, outputs, seed=2)
    W, V = data(outputs, width, width, seed=3), data(outputs, rows, width, seed=4)

    def values_and_gradients(W, V, x, u):
        y, pull = jax.vjp(quadratic, W, u)
        z, pull_bilinear = jax.vjp(bilinear, V, x, u)
        return y, *pull(g), z, *pull_bilinear(g)

    y, dW, du, z, dV, dx, du_bilinear = run("native", values_and_gradients, W, V, x, u)
    assert_close(y, np.einsum("nij,ki,kj->kn", W, u, u), 1e-12)
    assert_close(dW, np.einsum("kn,ki,kj->nij", g, u, u), 1e-12)
    assert_close(du, np.einsum("kn,nij,kj->ki", g, W + W.swapaxes(1, 2), u), 1e-12)
    assert_close(z, np.einsum("npj,kp,kj->kn", V, x, u), 1e-12)
    assert_close(dV, np.einsum("kn,kp,kj->npj", g, x, u), 1e-12)
    assert_close(dx, np.einsum("kn,npj,kj->kp", g, V, u), 1e-12)
    assert_close(du_bilinear, np.einsum("kn,npj,kp->kj", g, V, x), 1e-12)


# Under transformations -----------------------------------------------------------------------------------------------


@pytest.fixture
def batch():
    return make(4, 3), jnp.asarray(data(5, 40, 4))


def loss(layer, u):
    return jnp.mean(layer(u)[0] ** 2)


def loss_of_a_batch(layer, u):
    return jnp.sum(jax.vmap(partial(loss, layer))(u))


def weight_gradients(gradient):
    return [np.asarray(q) for q in jax.tree.leaves(gradient)]


def test_the_gradient_of_a_batch_is_the_sum_and_a_batch_of_gradients_is_not(batch):
    layer, u = batch
    gradient = eqx.filter_jit(eqx.filter_grad(loss))
    with s7.backend("native"):
        one_by_one = [weight_gradients(gradient(layer, q)) for q in u]
        of_the_batch = eqx.filter_jit(eqx.filter_grad(loss_of_a_batch))(layer, u)
        per_example = eqx.filter_jit(eqx.filter_vmap(eqx.filter_grad(loss), in_axes=(None, 0)))(layer, u)
    for n, gradients in enumerate(zip(*one_by_one, strict=True)):
        assert_close(weight_gradients(of_the_batch)[n], np.sum(gradients, 0), 1e-12)
        assert_close(weight_gradients(per_example)[n], np.stack(gradients), 1e-12)


def test_batches_of_batches_and_of_weights(batch):
    layer, u = batch
    call = eqx.filter_jit(lambda layer, u: layer(u)[0])
    keys = jax.random.split(jax.random.key(1), 2)
    layers = eqx.filter_vmap(lambda key: s7.S7Layer(4, 3, key=key, dtype=jnp.float64))(keys)
    with s7.backend("native"):
        alone = np.stack([call(layer, q) for q in u])
        nested = jax.jit(jax.vmap(jax.vmap(lambda q: layer(q)[0])))(jnp.stack([u, u]))
        several = eqx.filter_jit(eqx.filter_vmap(lambda layer: jax.vmap(lambda q: layer(q)[0])(u)))(layers)
        gradient = eqx.filter_jit(eqx.filter_grad(loss_of_a_batch))
        gradients = eqx.filter_jit(eqx.filter_vmap(eqx.filter_grad(loss_of_a_batch), in_axes=(0, None)))(layers, u)
        np.testing.assert_array_equal(nested, np.stack([alone, alone]))
        for n in range(2):
            single = jax.tree.map(lambda q, n=n: q[n] if eqx.is_array(q) else q, layers)
            assert_close(several[n], np.stack([call(single, q) for q in u]), 1e-12)
            wanted = weight_gradients(gradient(single, u))
            for got, one in zip(weight_gradients(gradients), wanted, strict=True):
                assert_close(got[n], one, 1e-12)


def test_inside_loops_and_checkpoints(batch):
    layer, u = batch

    def through(layer, u):
        step = jax.checkpoint(lambda state, u: layer(u, state=state)[::-1])
        _, y = jax.lax.scan(step, layer.init_state(), u)
        return jnp.sum(y**2)

    expected, got = (run(backend, eqx.filter_value_and_grad(through), layer, u) for backend in ("xla", "native"))
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-11), got, expected)


def test_on_two_devices():
    program = """
import jax, jax.numpy as jnp, numpy as np, s7
from jax.sharding import PartitionSpec as P
layer = s7.S7Layer(4, 3, key=jax.random.key(0))
u = jax.random.normal(jax.random.key(1), (4, 40, 4))
mesh = jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
with s7.backend("native"):
    run = jax.vmap(lambda u: layer(u)[0])
    split = jax.shard_map(run, mesh=mesh, in_specs=P("batch"), out_specs=P("batch"), check_vma=False)
    assert len(jax.devices()) == 2
    np.testing.assert_array_equal(jax.jit(split)(u), jax.jit(run)(u))
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu", "PATH": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_second_derivatives_are_rejected_with_an_alternative(batch):
    layer, u = batch
    with s7.backend("native"), pytest.raises(NotImplementedError, match=r"no second derivatives.*s7.backend\('xla'\)"):
        jax.grad(lambda u: jnp.sum(jax.grad(lambda u: loss(layer, u))(u) ** 2))(u[0])


def test_the_bits_do_not_depend_on_the_threads(monkeypatch):
    layer, u = make(6, 5, dtype=jnp.float32), jnp.asarray(data(3, 700, 6, dtype=np.float32))
    gradient = eqx.filter_value_and_grad(lambda both: loss_of_a_batch(*both))
    results = []
    for threads in ("", "1", "2", "5", "2"):
        monkeypatch.setenv("S7_THREADS", threads)
        results.append(jax.tree.map(np.asarray, run("native", gradient, (layer, u))))
    for other in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, results[0], other)


# Choice and refusal ---------------------------------------------------------------------------------------------------


def test_auto_takes_the_kernels_where_they_pay():
    assert current_backend(4096) == "native"
    assert current_backend(1) == "xla"
    assert s7.backends()["native"].startswith("C++ kernels")
    assert native.instruction_set() in ("avx512", "avx2", "baseline")


def test_older_processors_get_the_same_numbers(tmp_path):
    program = f"""
import numpy as np, jax, s7
from s7 import native
layer = s7.S7Layer(7, 5, key=jax.random.key(0))
with s7.backend("native"):
    gradient = jax.grad(lambda u: (layer(u)[0] ** 2).sum())(np.sin(np.arange(700.0)).reshape(100, 7).astype("f"))
np.save({str(tmp_path / "gradient.npy")!r}, gradient)
print(native.instruction_set())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"S7_ISA": "baseline", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "baseline"
    layer = s7.S7Layer(7, 5, key=jax.random.key(0))
    u = jnp.sin(jnp.arange(700.0)).reshape(100, 7).astype("f")
    expected = run("native", jax.grad(lambda u: (layer(u)[0] ** 2).sum()), u)
    np.testing.assert_allclose(np.load(tmp_path / "gradient.npy"), expected, atol=1e-4)


def test_a_missing_library_is_reported_and_xla_is_used(tmp_path, monkeypatch):
    (tmp_path / "not-built.txt").write_text("no C++ compiler was found\n")
    monkeypatch.setattr(native, "_FOLDER", tmp_path)
    native._load.cache_clear()
    try:
        assert (
            s7.backends()["native"] == "missing: no C++ compiler was found; with a C++ compiler, `pip install` s7 again"
        )
        assert current_backend(4096) == "xla"
        with pytest.raises(ValueError, match="the backend 'native' cannot be used here: no C\\+\\+ compiler was found"):
            s7.backend("native")
        (tmp_path / "libs7.so").write_bytes(b"not a library")
        native._load.cache_clear()
        assert "cannot be loaded" in s7.backends()["native"]
    finally:
        monkeypatch.undo()
        native._load.cache_clear()


def call_with(name, shapes, dtypes=None, **sizes):
    """A kernel's custom call, with arrays of these shapes."""
    dtypes = dtypes or [np.float32] * len(shapes)
    options = sizes.pop("options", kernels.NoOptions())
    arrays = [jnp.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    return jax.block_until_ready(getattr(kernels, name)(*arrays, options=options, **sizes))


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("_scan", [(2, 9, 3), (2, 8, 3), (2, 3)], r"s7 scan: v has shape \(2, 8, 3\), expected \(2, 9, 3\)"),
        ("_scan", [(2, 9, 3), (2, 9, 3), (3,)], r"s7 scan: initial has shape \(3\), expected \(2, 3\)"),
        ("_quadratic", [(9, 4), (3, 4, 5)], r"s7 quadratic: W has shape \(3, 4, 5\), expected \(3, 4, 4\)"),
        ("_bilinear", [(9, 2), (8, 4), (3, 2, 4)], r"s7 bilinear: u has shape \(8, 4\), expected \(9, 4\)"),
    ],
)
def test_mismatched_sizes_are_rejected(name, shapes, message):
    options = kernels.ScanOptions(False) if name == "_scan" else kernels.NoOptions()
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call_with(name, shapes, options=options)


def test_mismatched_types_are_rejected():
    with pytest.raises(jax.errors.JaxRuntimeError, match="s7 quadratic: W is of another type than the first array"):
        call_with("_quadratic", [(9, 4), (3, 4, 4)], [np.float32, np.float64])
    with pytest.raises(jax.errors.JaxRuntimeError, match="s7 quadratic: numbers of a type that has no kernel"):
        call_with("_quadratic", [(9, 4), (3, 4, 4)], [np.float16, np.float16])


def test_a_vector_is_split_into_arrays():
    shapes = ((3,), (), (2, 5), (0,), (4, 1, 2))
    sizes = [int(np.prod(shape)) for shape in shapes]
    vector = jnp.asarray(data(sum(sizes)))

    def parts(vector):
        return kernels.split(vector, shapes)

    wanted = [part.reshape(shape) for part, shape in zip(np.split(vector, np.cumsum(sizes)[:-1]), shapes, strict=True)]
    for found in (parts(vector), jax.jit(parts)(vector)):
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
    each = jax.vmap(parts)(jnp.stack([vector, -vector]))
    jax.tree.map(lambda found, one: np.testing.assert_array_equal(found, np.stack([one, -one])), each, wanted)
    gradient = jax.grad(lambda vector: sum(jnp.sum(part**2) for part in parts(vector)))(vector)
    np.testing.assert_allclose(gradient, 2 * vector)


@pytest.mark.parametrize("padded", [False, True])
def test_the_moments_of_a_sequence(padded):
    u = jnp.asarray(data(3, 300, 37)) + 5
    mask = jnp.asarray(data(3, 300, seed=1) > 0).at[2].set(False) if padded else jnp.ones((3, 300), bool)

    def run(moments):
        def loss(u):
            found = jax.vmap(moments)(u, mask)
            return sum(jnp.sum(jnp.sin(q)) for q in found), found

        return jax.value_and_grad(loss, has_aux=True)(u)

    def plain(u, mask):
        weights = mask.astype(u.dtype)
        mean = weights @ u / jnp.maximum(weights.sum(), 1)
        return weights.sum(), mean, weights @ (u - mean) ** 2

    (_, found), gradient = run(lambda u, mask: kernels.moments(u, mask.astype(u.dtype) if padded else None))
    (_, wanted), wanted_gradient = run(plain)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-11), found, wanted)
    assert_close(gradient, wanted_gradient, 1e-11)
