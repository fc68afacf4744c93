"""One layer under each backend, compared with a version that materialises B_k and C_k.

    multiply-adds per step, forward = P·H² + P·H²  [+ H³ if D is full]           forward + backward: three times that

These are B_k u_k and C_k x_k in the paper's formula; the rest of a step is negligible. An implementation that needs
fewer operations for the same result shows a higher rate, possibly above that of sgemm.
"""

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp

from s7.bench import materialised
from s7.bench.cases import LayerCase
from s7.bench.implementations import backend_names, compiled, require_agreement
from s7.bench.machine import fits, sgemm_rate
from s7.bench.measures import Row
from s7.bench.memory import peak_in_child
from s7.bench.operations import TRAINING, paper_layer
from s7.bench.timing import Run, best_of, timed
from s7.bench.torch_layer import TorchBaseline
from s7.layer import S7Layer

MATERIALISED = "materialised"


def too_large(case: LayerCase) -> bool:
    """Whether the materialised matrices would not fit into memory."""
    needed = materialised.bytes_needed(case.steps, case.width, case.state, full_D=case.form.D == "full")
    return not fits(needed)


def program(implementation: str, case: LayerCase, *, gradient: bool) -> Run:
    """Compile an implementation of the case: the forward pass, or the gradient of mean(y²)."""

    def forward(layer: S7Layer, u: jax.Array) -> jax.Array:
        one = materialised.call if implementation == MATERIALISED else lambda layer, u: layer(u)[0]
        return jax.vmap(one, (None, 0))(layer, u)

    def loss(layer, u):
        return jnp.mean(forward(layer, u) ** 2)

    backend = None if implementation == MATERIALISED else implementation
    return compiled(jax.grad(loss, (0, 1)) if gradient else forward, backend, case.layer(), case.inputs())


def rows(
    cases: Sequence[LayerCase],
    *,
    runs: int = 10,
    memory: bool = False,
    baseline: TorchBaseline | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per case and implementation. Ratios are relative to the first implementation.

    Rates are also given relative to a matrix product that is timed just before and after each case, because the speed
    of a shared machine varies.

    Args:
        cases: Layers and batches to measure.
        runs: Repetitions, of which the fastest counts.
        memory: Whether to measure peak memory too.
        baseline: A PyTorch implementation of another selective layer to time as well.
        say: Called with a line about what is being done.
    """
    for number, case in enumerate(cases, 1):
        where = f"{number}/{len(cases)}: {', '.join(case.tasks) or 'layer'} at length {case.length:,}"
        implementations = [*backend_names(), MATERIALISED]
        skipped = {MATERIALISED: "too large"} if too_large(case) else {}
        forwards: dict[str, Run] = {}
        gradients: dict[str, Run] = {}
        for name in implementations:
            if name not in skipped:
                say(f"{where}, compiling {name}")
                forwards[name] = program(name, case, gradient=False)
                gradients[name] = program(name, case, gradient=True)
        say(f"{where}, comparing")
        require_agreement({name: (forwards[name](), gradients[name]()) for name in forwards}, where)
        if baseline is not None:
            implementations.append(baseline.name)
            if baseline.too_large(case):
                skipped[baseline.name] = "too large"
            else:
                forwards[baseline.name], gradients[baseline.name] = baseline.programs(case)
        say(f"{where}, timing")
        before = sgemm_rate()
        forward, gradient = best_of(runs, forwards), best_of(runs, gradients)
        sgemm = max(before, sgemm_rate())
        for name in implementations:
            row: Row = {"benchmark": "layer"} | case.about() | {"implementation": name, "skipped": skipped.get(name)}
            row["sgemm_gflops"] = sgemm
            # The baseline computes another formula, whose operations are not counted.
            counted = baseline is None or name != baseline.name
            once = paper_layer(case.width, case.state, case.form.D) * case.steps if counted else None
            row |= timed("forward", forward, name, case.steps, once, sgemm)
            row |= timed("gradient", gradient, name, case.steps, None if once is None else TRAINING * once, sgemm)
            measured = memory and counted and name not in skipped
            if measured:
                say(f"{where}, memory of {name}")
            yield row | {"memory_mb": peak_in_child(case, name) if measured else None}
