"""The recurrence x_k = a_k x_{k-1} + v_k alone: under each backend, with JAX's scans, and compared with a copy.

The gradient is that of mean(|x|²) with respect to a, v and the initial state. JAX differentiates its own scans. At
least, forward reads a and v and writes x, and backward reads a and x and writes two gradients. The copy moves the same
number of bytes with np.copyto between two allocated arrays, half of them read and half written: a lower bound, on one
thread and on all. The scans allocate their results, and so does the copy to new memory.
"""

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from s7.bench.implementations import backend_names, compiled, require_agreement
from s7.bench.machine import copier, new_copier
from s7.bench.measures import Row
from s7.bench.timing import best_of
from s7.machine import usable_cores
from s7.recurrence import recurrence

SHAPES = ((8, 4096, 16), (8, 32_768, 16), (1, 131_072, 16), (1, 1_048_576, 16), (64, 4096, 64))
# Least number of arrays of the size of x that are read or written.
FORWARD, GRADIENT = 3, 7
NEW = "copy to new memory"


def by_scan(a: jax.Array, v: jax.Array, initial: jax.Array) -> jax.Array:
    """Compute the recurrence with lax.scan."""

    def step(x, av):
        x = av[0] * x + av[1]
        return x, x

    return lax.scan(step, initial, (a, v))[1]


def by_associative_scan(a: jax.Array, v: jax.Array, initial: jax.Array) -> jax.Array:
    """Compute the recurrence with lax.associative_scan."""

    def compose(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    products, states = lax.associative_scan(compose, (a, v))
    return states + products * initial


def rows(
    shapes: Sequence[tuple[int, ...]] = SHAPES, *, runs: int = 10, say: Callable[[str], None] = lambda text: None
) -> Iterator[Row]:
    """Yield a row per shape (batch, L, P), number type and implementation. Ratios are relative to the first."""
    backends: list[tuple[str, str | None, Callable]] = [(name, name, recurrence) for name in backend_names()]
    implementations = [*backends, ("lax.scan", None, by_scan), ("lax.associative_scan", None, by_associative_scan)]
    for batch, length, state in shapes:
        for number in ("real", "complex"):
            where = f"{number}, {batch}×{length:,}×{state}"
            arguments = _inputs(batch, length, state, number)
            forwards, gradients = {}, {}
            for name, backend, function in implementations:
                say(f"{where}, compiling {name}")
                whole = jax.vmap(function)

                def loss(a, v, initial, whole=whole):
                    return jnp.mean(jnp.abs(whole(a, v, initial)) ** 2)

                forwards[name] = compiled(whole, backend, *arguments)
                gradients[name] = compiled(jax.grad(loss, (0, 1, 2)), backend, *arguments)
            say(f"{where}, comparing")
            require_agreement({name: (forwards[name](), gradients[name]()) for name in forwards}, where)
            size = arguments[1].nbytes
            for workers in sorted({1, usable_cores()}):
                name = f"copy, {workers} thread{'' if workers == 1 else 's'}"
                # A copy of n bytes moves 2n bytes: it reads n and writes n.
                forwards[name] = copier(FORWARD * size // 2, workers)
                gradients[name] = copier(GRADIENT * size // 2, workers)
            forwards[NEW], gradients[NEW] = new_copier(FORWARD * size // 2), new_copier(GRADIENT * size // 2)
            say(f"{where}, timing")
            forward, gradient = best_of(runs, forwards), best_of(runs, gradients)
            steps = batch * length
            about = {"benchmark": "scan", "number": number, "batch": batch, "length": length, "state": state}
            for name in forward:
                row: Row = about | {"implementation": name}
                for part, seconds, arrays in (("forward", forward, FORWARD), ("gradient", gradient, GRADIENT)):
                    row |= {
                        f"{part}_ns": seconds[name] / steps * 1e9,
                        f"{part}_ratio": seconds[name] / next(iter(seconds.values())),
                        f"{part}_gb_per_s": arrays * size / seconds[name] / 1e9,
                    }
                yield row


def _inputs(batch: int, length: int, state: int, number: str) -> tuple[jax.Array, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    dtype = np.float32 if number == "real" else np.complex64
    turn = 0.0 if number == "real" else 0.5j
    a = rng.uniform(0.8, 0.99, (batch, length, state)) * np.exp(turn)
    v = rng.standard_normal((batch, length, state), np.float32)
    initial = rng.standard_normal((batch, state), np.float32)
    return jnp.asarray(a, dtype), jnp.asarray(v, dtype), jnp.asarray(initial, dtype)
