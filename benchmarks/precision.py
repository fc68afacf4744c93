"""Memory, time and deviation of gradients with less memory or precision: `S7_THREADS=1 python -m benchmarks.precision`.

Compares, in one process and in turn, the loss and gradient of a model on one batch of random events: as they are, with
blocks that are computed again (train.remat), with their inputs in bfloat16 (train.precision), and with everything in
bfloat16, from which only the parameters are excepted. Prints a Markdown table. With one thread, times are processor
times, which are nearly the same on a busy machine. Deviations are relative to float32 under XLA, in the Euclidean norm.
"""

import argparse
import os
import time
from contextlib import ExitStack
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import s7
from s7.bench.timing import best_of
from s7.recomputation import COMPILER_OPTIONS, recomputed_blocks
from s7.training.steps import planned_bytes

# Name, backend, what `recomputed_blocks` takes, and whether everything is computed in bfloat16.
VARIANTS = (
    ("as it is", "xla", None, False),
    ('remat="blocks"', "xla", "float32", False),
    ('remat="blocks", precision="bfloat16"', "xla", "bfloat16", False),
    ("everything in bfloat16", "xla", None, True),
    ("as it is", "native", None, False),
    ('remat="blocks"', "native", "float32", False),
    ('remat="blocks", precision="bfloat16"', "native", "bfloat16", False),
)


def compiled(model: s7.S7Model, batch: tuple, backend: str, kept: str | None, low: bool):
    """The compiled function of parameters: outputs and gradients."""
    inputs, dt, targets = batch

    def loss(model: s7.S7Model):
        if low:
            model = jax.tree.map(lambda q: q.astype(jnp.bfloat16), model)
        outputs = jax.vmap(model)(inputs, dt).astype(jnp.float32)
        return jnp.sum((outputs - targets) ** 2), outputs

    with ExitStack() as stack:
        stack.enter_context(s7.backend(backend))
        stack.enter_context(recomputed_blocks(kept))
        options = None if kept is None else COMPILER_OPTIONS
        return jax.jit(jax.grad(loss, has_aux=True)).lower(model).compile(compiler_options=options)


def finished(program, model: s7.S7Model):
    """The results of a program, once they are computed."""
    return jax.block_until_ready(program(model))


def deviation(found, expected) -> float:
    """The norm of the difference of two trees, relative to that of the second."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    error = sum(float(jnp.sum((one - other) ** 2)) for one, other in pairs)
    return (error / sum(float(jnp.sum(other**2)) for _, other in pairs)) ** 0.5


def main() -> None:
    """Measure all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"batch": 2, "length": 8192, "width": 64, "state": 32, "depth": 6, "runs": 9}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    model = s7.S7Model(
        encoder=s7.LinearEncoder(2),
        head=s7.Mean(4),
        width=given.width,
        state=given.state,
        depth=given.depth,
        form=s7.Factored(rank=8),
        key=jax.random.key(0),
    )
    shape = (given.batch, given.length)
    batch = (
        jnp.asarray(rng.normal(size=(*shape, 2)), jnp.float32),
        jnp.asarray(rng.exponential(size=shape), jnp.float32),
        jnp.asarray(rng.normal(size=(given.batch, 4)), jnp.float32),
    )
    programs = {variant: compiled(model, batch, *variant[1:]) for variant in VARIANTS}
    results = {variant: program(model) for variant, program in programs.items()}
    gradient, outputs = results[VARIANTS[0]]
    clock = time.process_time if os.environ.get("S7_THREADS") == "1" else time.perf_counter
    runs = {str(variant): partial(finished, program, model) for variant, program in programs.items()}
    seconds = best_of(given.runs, runs, seconds=60, clock=clock)
    print("| backend | variant | memory | time | outputs | gradients |\n|---|---|---|---|---|---|")
    for variant, program in programs.items():
        name, backend, *_ = variant
        its_gradient, its_outputs = results[variant]
        memory, took = planned_bytes(program), seconds[str(variant)]
        differences = f"{deviation(its_outputs, outputs):.1e} | {deviation(its_gradient, gradient):.1e}"
        print(f"| {backend} | {name} | {(memory or 0) / 1e6:.0f} MB | {took * 1e3:.0f} ms | {differences} |")


if __name__ == "__main__":
    main()
