"""One block under each backend: forward, and forward with backward, relative to the speed of sgemm.

The gradient is that of mean(out²) with respect to the block's parameters and its input, with dropout. Two more numbers
belong to a block: the share of dropout in its time, from the same block without dropout, and the speed-up of the native
kernels from one thread to all. The number of threads is read when the kernels are loaded, so each number of threads is
measured in processes of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from s7.bench.implementations import backend_names, compiled, require_agreement
from s7.bench.machine import sgemm_rate
from s7.bench.measures import Row
from s7.bench.operations import TRAINING, of_block
from s7.bench.timing import Run, best_of, timed
from s7.block import Block, BlockConfig
from s7.forms import Factored, Static
from s7.machine import keep_compiled_code, usable_cores
from s7.settings import build, table_of
from s7.signal import Rows, Signal
from s7.transitions import Stable

FACTORED = BlockConfig(transition=Stable(oscillate=True), form=Factored(rank=32), dropout=0.1)
# Only the layer: no norm, gate, dropout or skip.
BARE = replace(FACTORED, norm="none", gate=False, skip=False, dropout=0.0)
NATIVE = "native"


@dataclass(frozen=True)
class BlockCase:
    """A block and the shape of its input batch. With `tokens`, events are rows of a table with that many vectors."""

    name: str
    batch: int = 16
    length: int = 1024
    width: int = 64
    state: int = 16
    config: BlockConfig = field(default_factory=BlockConfig)
    stride: int = 1
    tokens: int = 0

    @property
    def steps(self) -> int:
        """The number of events in the batch."""
        return self.batch * self.length

    @property
    def block(self) -> Block:
        """The block, initialised from a fixed seed."""
        return Block(self.width, self.state, self.config, stride=self.stride, key=jax.random.key(0))

    @property
    def multiply_adds(self) -> int:
        """The counted multiply-adds of the batch, forward."""
        windows = self.batch * -(-self.length // self.stride)
        return of_block(self.block, self.steps, windows, self.tokens or None)

    def inputs(self) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
        """Return the values, (batch, L, H) or (tokens, H), and with tokens the tokens and the gaps, (batch, L)."""
        random = np.random.default_rng(0)
        if not self.tokens:
            return jnp.asarray(random.standard_normal((self.batch, self.length, self.width), np.float32)), None, None
        table = random.standard_normal((self.tokens, self.width), np.float32)
        tokens = random.integers(0, self.tokens, (self.batch, self.length), np.int32)
        gaps = random.exponential(1, (self.batch, self.length)).astype(np.float32)
        return jnp.asarray(table), jnp.asarray(tokens), jnp.asarray(gaps)


CASES = (
    BlockCase("factored", config=FACTORED),
    BlockCase("static, two directions", config=replace(FACTORED, form=Static(), bidirectional=True)),
    BlockCase("tokens, stride 8", config=FACTORED, stride=8, tokens=700),
    BlockCase("factored layer alone", config=BARE),
)


def shape_cases(shapes: Sequence[tuple[int, ...]]) -> list[BlockCase]:
    """Return factored blocks of these shapes. Each shape is (batch, L, H, P)."""
    return [BlockCase("factored", batch, length, width, state, FACTORED) for batch, length, width, state in shapes]


def program(case: BlockCase, backend: str, *, gradient: bool) -> Run:
    """Compile a block: the forward pass in training, or the gradient of mean(out²)."""
    values, tokens, gaps = case.inputs()
    keys = jax.random.split(jax.random.key(1), case.batch)

    def forward(block: Block, values: jax.Array) -> jax.Array:
        def one(values, token, dt, key):
            rows = None if token is None else Rows(values, token)
            signal = Signal(values if token is None else values[token], dt, rows=rows)
            return block(signal, key=key, batch_axis="batch")[0].values

        axes = (0 if tokens is None else None, *(None if q is None else 0 for q in (tokens, gaps)), 0)
        return jax.vmap(one, axes, axis_name="batch")(values, tokens, gaps, keys)

    def loss(block, values):
        return jnp.mean(forward(block, values) ** 2)

    return compiled(jax.grad(loss, (0, 1)) if gradient else forward, backend, case.block, values)


def rows(
    cases: Sequence[BlockCase] = CASES, *, runs: int = 10, say: Callable[[str], None] = lambda text: None
) -> Iterator[Row]:
    """Yield a row per case and backend. Ratios are relative to the first backend."""
    backends = [name for name in backend_names() if name in (NATIVE, "xla")]
    for case in cases:
        forwards: dict[str, Run] = {}
        gradients: dict[str, Run] = {}
        without: dict[str, Run] = {}
        for name in backends:
            say(f"{case.name}, compiling {name}")
            forwards[name] = program(case, name, gradient=False)
            gradients[name] = program(case, name, gradient=True)
            if case.config.dropout:
                plain = replace(case, config=replace(case.config, dropout=0.0))
                without[name] = program(plain, name, gradient=True)
        say(f"{case.name}, comparing")
        require_agreement({name: (forwards[name](), gradients[name]()) for name in backends}, case.name)
        for run in without.values():
            run()
        say(f"{case.name}, timing")
        before = sgemm_rate()
        forward = best_of(runs, forwards)
        gradient = best_of(runs, gradients | {f"{name} without dropout": run for name, run in without.items()})
        sgemm = max(before, sgemm_rate())
        for name in backends:
            row: Row = {"benchmark": "block"} | _about(case) | {"implementation": name, "sgemm_gflops": sgemm}
            row |= timed("forward", forward, name, case.steps, case.multiply_adds, sgemm)
            row |= timed("gradient", gradient, name, case.steps, TRAINING * case.multiply_adds, sgemm)
            plain_seconds = gradient.get(f"{name} without dropout")
            row["dropout_share"] = None if plain_seconds is None else 1 - plain_seconds / gradient[name]
            row["thread_speedup"] = None
            if name == NATIVE:
                say(f"{case.name}, speed-up from one thread to all")
                row["thread_speedup"] = thread_speedup(case, runs)
            yield row


def _about(case: BlockCase) -> Row:
    return {
        "case": case.name,
        "batch": case.batch,
        "length": case.length,
        "width": case.width,
        "state": case.state,
        "multiply_adds": case.multiply_adds / case.steps,
    }


def thread_speedup(case: BlockCase, runs: int) -> float | None:
    """Return the time of native forward and backward on one thread relative to all; None on a single core."""
    threads = usable_cores()
    if threads == 1:
        return None
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(2):  # in turn: the speed of a shared machine varies
        for count, measured in seconds.items():
            measured.append(_in_child(case, runs, count))
    return min(seconds[1]) / min(seconds[threads])


def _in_child(case: BlockCase, runs: int, threads: int) -> float:
    """Return the seconds of native forward and backward with this many threads, measured in a child process."""
    request = json.dumps({"case": table_of(case), "runs": runs})
    done = subprocess.run(
        [sys.executable, "-m", "s7.bench.block", request],
        capture_output=True,
        text=True,
        env=os.environ | {"S7_THREADS": str(threads)},
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise ValueError(f"the measurement with {threads} threads failed: {last[0]}")
    return float(done.stdout)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    keep_compiled_code()
    gradient = program(build(BlockCase, asked["case"], "case"), NATIVE, gradient=True)
    gradient()
    print(best_of(asked["runs"], {NATIVE: gradient})[NATIVE])
