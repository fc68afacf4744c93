"""Import time, compilation time and training memory: `python -m benchmarks.footprint`.

Each is measured in a separate process: the time to import s7, the time to compile the gradient of a six-layer model,
and the peak memory of a training step on one very long sequence, relative to the import.
"""

import resource
import subprocess
import sys
import time


def import_time() -> str:
    """Measure the time to import s7 and its models, which are imported on first use."""
    start = time.perf_counter()
    import s7

    assert s7.S7Model is not None
    return f"import s7 and its models: {time.perf_counter() - start:.2f} s"


def compile_time() -> str:
    """Measure the time to compile the gradient of a six-layer model."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import s7

    model = s7.S7Model(encoder=s7.LinearEncoder(6), head=s7.Mean(5), width=32, state=16, depth=6, key=jax.random.key(0))
    inputs = jnp.zeros((8, 1024, 6))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda model: jnp.sum(jax.vmap(model)(inputs) ** 2)))
    start = time.perf_counter()
    gradient.lower(model).compile()  # type: ignore[attr-defined]
    return f"gradient of a 6-layer model (batch 8, L 1024, H 32, P 16) compiles in {time.perf_counter() - start:.1f} s"


def training_memory() -> str:
    """Measure the peak memory of a training step with batch 1, L 131,072, H 32, P 16."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    import s7

    before = _peak_megabytes()
    model = s7.S7Model(encoder=s7.LinearEncoder(6), head=s7.Mean(5), width=32, state=16, depth=1, key=jax.random.key(0))
    optimizer = optax.adamw(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state, inputs):
        gradient = eqx.filter_grad(lambda model: jnp.sum(jax.vmap(model)(inputs) ** 2))(model)
        updates, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    inputs = jnp.ones((1, 131_072, 6))
    for _ in range(3):
        model, state = step(model, state, inputs)
    jax.block_until_ready(model.head["W"])
    peak = _peak_megabytes() - before
    return f"training step of a 1-layer model (batch 1, L 131,072, H 32, P 16): {peak:.0f} MB above the import"


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


MEASUREMENTS = {"import": import_time, "compile": compile_time, "memory": training_memory}


def main() -> None:
    """Run all measurements in separate processes, or the named one in this process."""
    if len(sys.argv) > 1:
        print(MEASUREMENTS[sys.argv[1]]())
        return
    for name in MEASUREMENTS:
        subprocess.run([sys.executable, "-m", "benchmarks.footprint", name], check=True)


if __name__ == "__main__":
    main()
