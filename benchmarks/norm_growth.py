"""How large single values become from block to block, by norm and by selectivity.

    python -m benchmarks.norm_growth

Untrained models of `pathfinder-contours` read 64 generated images. For each block, the table shows the largest
normalized value in the batch. The typical one is 1 by definition.
"""

import argparse
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import s7
from s7.data.image_patches import events_of_images
from s7.publishing.text import number, table
from s7.tasks.pathfinder_dashes import PATHFINDER
from s7.tasks.pathfinder_pictures import make_block

IMAGES, PATCH, DEPTH = 64, 4, 6


def model_of(events: Float[np.ndarray, "N L P"], norm: str, selective: bool, seed: int) -> s7.S7Model:
    """The untrained model."""
    transition = s7.Stable(selective=selective, oscillate=True, period=8, tau=(2.0, 300.0), gain="variance")
    return s7.S7Model(
        encoder=s7.LinearEncoder.of(events),
        head=s7.PerStep(3),
        depth=DEPTH,
        width=64,
        state=40,
        bidirectional=True,
        norm=norm,
        form=s7.Factored(rank=32) if selective else s7.Static(),
        transition=transition,
        key=jax.random.key(seed),
    )


@eqx.filter_jit
def largest_values(model: s7.S7Model, events: Float[Array, "N L P"]) -> Float[Array, " D"]:
    """The largest normalized value that each block reads, with the batch statistics of training."""

    def one(sequence):
        signal, found = model.encode(sequence, None, None), []
        for block in model.blocks:
            normalize, _ = block.norm.prepare(signal.values, signal.mask, "batch")
            found.append(jnp.abs(normalize(signal.values)).max())
            signal, *_ = block(signal, batch_axis="batch")
        return jnp.stack(found)

    return jax.vmap(one, axis_name="batch")(events).max(0)


def rows(seeds: int, say: Callable[[str], None]) -> list[list[str]]:
    """A row per norm and kind of model: the mean over seeds of the largest value in each block."""
    events = events_of_images(make_block(PATHFINDER, 0, 0).images[:IMAGES, ..., None], PATCH).astype(np.float32)
    found = []
    for norm in ("batch", "layer"):
        for selective in (False, True):
            kind = "selective" if selective else "static"
            say(f"{norm} norm, {kind}")
            models = (model_of(events, norm, selective, seed) for seed in range(seeds))
            values = [largest_values(model, jnp.asarray(events)) for model in models]
            found.append([norm, kind, *(number(float(value), 2) for value in np.mean(values, 0))])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="models to average over (default 3)")
    options = parser.parse_args()
    print(table(["norm", "layers", *(f"block {n}" for n in range(1, DEPTH + 1))], rows(options.seeds, print)))


if __name__ == "__main__":
    main()
