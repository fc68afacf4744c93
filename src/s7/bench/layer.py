"""The layer under each backend, beside the materialised version that writes out B_k and C_k.

    flops a step, forward = 2 (P·H² + P·H²)  [+ 2 H³ where D is full]           forward + backward: three times that

The matrices that are counted are those of the paper's formula, B_k u_k and C_k x_k; the rest of a step is small beside
them. A way that needs fewer operations for the same numbers shows a higher rate, possibly above the machine's own.
"""

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp

from s7.bench import materialised
from s7.bench.cases import LayerCase
from s7.bench.implementations import backend_names, compiled, require_agreement
from s7.bench.machine import fits, sgemm_rate
from s7.bench.measures import Row
from s7.bench.memory import peak_in_a_child
from s7.bench.timing import Run, best_of
from s7.bench.torch_layer import Peer
from s7.layer import S7Layer

MATERIALISED = "materialised"


def flops(width: int, state: int, D: str, *, gradient: bool = False) -> int:
    """Floating-point operations a step, by the paper's formula."""
    forward = 4 * state * width**2 + (2 * width**3 if D == "full" else 0)
    return 3 * forward if gradient else forward


def too_large(case: LayerCase) -> bool:
    """Whether the written-out matrices would not fit."""
    needed = materialised.bytes_needed(case.steps, case.width, case.state, full_D=case.form.D == "full")
    return not fits(needed)


def program(way: str, case: LayerCase, *, gradient: bool) -> Run:
    """A way of computing the case, compiled."""

    def forward(layer: S7Layer, u: jax.Array) -> jax.Array:
        one = materialised.call if way == MATERIALISED else lambda layer, u: layer(u)[0]
        return jax.vmap(one, (None, 0))(layer, u)

    def loss(layer, u):
        return jnp.mean(forward(layer, u) ** 2)

    backend = None if way == MATERIALISED else way
    return compiled(jax.grad(loss, (0, 1)) if gradient else forward, backend, case.layer(), case.inputs())


def rows(
    cases: Sequence[LayerCase],
    *,
    runs: int = 10,
    memory: bool = False,
    peer: Peer | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """A row for each case and way; ratios are to the first way.

    Rates are also given over that of a plain matrix product, timed just before and after the ways: a machine that does
    other things too is not always equally fast.
    """
    for number, case in enumerate(cases, 1):
        where = f"{number}/{len(cases)}: {', '.join(case.tasks) or 'layer'} at length {case.length:,}"
        ways = [*backend_names(), MATERIALISED]
        skipped = {MATERIALISED: "too large"} if too_large(case) else {}
        forwards: dict[str, Run] = {}
        gradients: dict[str, Run] = {}
        for way in ways:
            if way not in skipped:
                say(f"{where}, compiling {way}")
                forwards[way] = program(way, case, gradient=False)
                gradients[way] = program(way, case, gradient=True)
        say(f"{where}, comparing")
        require_agreement({way: (forwards[way](), gradients[way]()) for way in forwards}, where)
        if peer is not None:
            ways.append(peer.name)
            if peer.too_large(case):
                skipped[peer.name] = "too large"
            else:
                forwards[peer.name], gradients[peer.name] = peer.programs(case)
        say(f"{where}, timing")
        before = sgemm_rate()
        forward, gradient = best_of(runs, forwards), best_of(runs, gradients)
        sgemm = max(before, sgemm_rate())
        for way in ways:
            row: Row = {"benchmark": "layer"} | case.about() | {"way": way, "skipped": skipped.get(way)}
            row["sgemm_gflops"] = sgemm
            # Another layer is another formula.
            counted = peer is None or way != peer.name
            once = flops(case.width, case.state, case.form.D)
            row |= _measured("forward", forward, way, case, once, sgemm, counted)
            both = flops(case.width, case.state, case.form.D, gradient=True)
            row |= _measured("gradient", gradient, way, case, both, sgemm, counted)
            measured = memory and counted and way not in skipped
            if measured:
                say(f"{where}, memory of {way}")
            yield row | {"memory_mb": peak_in_a_child(case, way) if measured else None}


def _measured(
    name: str, seconds: dict[str, float], way: str, case: LayerCase, flops: int, sgemm: float, counted: bool
) -> Row:
    """The fields of one of the two times; None where the way was skipped."""
    if way not in seconds:
        return {f"{name}_{field}": None for field in ("ns", "ratio", "gflops", "of_sgemm")}
    nanoseconds = seconds[way] / case.steps * 1e9
    rate = flops / nanoseconds if counted else None
    return {
        f"{name}_ns": nanoseconds,
        f"{name}_ratio": seconds[way] / next(iter(seconds.values())),
        f"{name}_gflops": rate,
        f"{name}_of_sgemm": None if rate is None else rate / sgemm,
    }
