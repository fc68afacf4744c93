"""The layer against the straightforward version: `python -m benchmarks.layer`.

Both compute the same numbers from the same parameters; that is checked first. Times are the best of several runs
taken in turns; the ratio is straightforward / ours.
"""

import argparse
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import s7
from benchmarks import straightforward
from benchmarks.timing import best_of

SIZES = ((8, 4096, 48, 8), (12, 4096, 16, 14), (8, 4096, 32, 16))


def rivals(batch: int, length: int, width: int, state: int):
    """(forward, forward + backward), each a pair of (ours, straightforward)."""
    layer = s7.S7Layer(width, state, key=jax.random.key(0))
    u = jax.random.normal(jax.random.key(1), (batch, length, width))
    calls = (lambda layer, u: layer(u)[0], straightforward.call)

    def forward(call):
        return eqx.filter_jit(lambda layer, u: jax.vmap(lambda u: call(layer, u))(u))

    def training(call):
        loss = lambda both: jnp.mean(forward(call)(*both) ** 2)  # noqa: E731
        return eqx.filter_jit(eqx.filter_grad(loss))

    ours, plain = (forward(call)(layer, u) for call in calls)
    np.testing.assert_allclose(ours, plain, atol=1e-3 * float(jnp.abs(plain).max()))
    forwards = [partial(forward(call), layer, u) for call in calls]
    trainings = [partial(training(call), (layer, u)) for call in calls]
    return forwards, trainings


def main() -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12, help="runs of which the best counts (default: %(default)s)")
    runs = parser.parse_args().runs
    print(f"JAX {jax.__version__} on {jax.devices()[0].platform}, times in ms, best of {runs}")
    print(f"{'batch, L, H, P':>20}  {'':>18}  {'ours':>8}  {'straightforward':>15}  {'ratio':>6}")
    for size in SIZES:
        for name, pair in zip(("forward", "forward + backward"), rivals(*size), strict=True):
            ours, plain = best_of(runs, pair)
            print(f"{size!s:>20}  {name:>18}  {ours * 1e3:8.1f}  {plain * 1e3:15.1f}  {plain / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
