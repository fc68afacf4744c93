"""The arithmetic of a sequence that is divided over two devices, relative to one: `python -m benchmarks.two_passes`.

Divided sequences are read twice, forward and backward (see sequence_parts.py). Prints the processor time of the
gradient of one sequence on one device, that on two virtual devices of this process together, and their ratio.
"""

import os

os.environ |= {"S7_THREADS": "1"}
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=2"

import time
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import s7
from s7.bench.timing import best_of

POOLED = (s7.Stage(1, stride=8), s7.Stage(1, stride=8), s7.Stage(1))
# Events, stages and encoder.
CASES = {
    "vectors": (16384, (s7.Stage(2),), s7.LinearEncoder(2)),
    "tokens, pooled": (65536, POOLED, s7.EventEncoder(sensor=(32, 32))),
}


def seconds(length: int, stages: tuple, encoder) -> dict[str, float]:
    """The processor time of the gradient on one device and on two."""
    rng = np.random.default_rng(0)
    model = s7.S7Model(
        encoder=encoder,
        head=s7.Mean(2),
        stages=stages,
        width=32,
        state=16,
        form=s7.Factored(rank=8),
        time_unit=1.0,
        key=jax.random.key(0),
    )
    if isinstance(encoder, s7.LinearEncoder):
        inputs = rng.normal(size=(length, 2)).astype(np.float32)
    else:
        inputs = rng.integers(0, encoder.size, length).astype(np.int32)
    dt = rng.exponential(size=length).astype(np.float32)

    def whole(model):
        return model(inputs, dt).sum()

    def part(model, inputs, dt):
        with s7.sequence_parallel("events"):
            return model(inputs, dt)

    events = P("events")
    mesh = Mesh(np.array(jax.devices()), ("events",))
    divided = jax.shard_map(part, mesh=mesh, in_specs=(P(), events, events), out_specs=P(), check_vma=False)
    programs = {
        name: jax.jit(jax.grad(function)).lower(model).compile()
        for name, function in (("one device", whole), ("two devices", lambda model: divided(model, inputs, dt).sum()))
    }
    runs = {name: partial(_finished, program, model) for name, program in programs.items()}
    return best_of(12, runs, seconds=20, clock=time.process_time)


def _finished(program, model):
    return jax.block_until_ready(program(model))


if __name__ == "__main__":
    for name, case in CASES.items():
        took = seconds(*case)
        shown = ", ".join(f"{each} {1e3 * time_of:.1f} ms" for each, time_of in took.items())
        print(f"{name}: {shown}, ratio {took['two devices'] / took['one device']:.2f}", flush=True)
