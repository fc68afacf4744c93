"""What a training step keeps of the blocks of a model until its backward pass.

By default a step keeps what the gradients of the blocks need. Within `recomputed_blocks`, it keeps only the input of
each block and computes the block again in the backward pass: less memory, more time. The inputs can be kept in
bfloat16, which rounds them to 8 bits; the blocks themselves compute in the type of the model.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp

from s7.signal import Signal

# How inputs are kept; None: blocks are not recomputed. A user context is part of JAX's compilation key.
_kept = jax.make_user_context(None)

# The CPU compiler would drop the barriers between a computation and its repetition, and then merge the two.
COMPILER_OPTIONS: dict[str, str | bool] = {"xla_disable_hlo_passes": "cse_barrier_expander"}


def recomputed_blocks(precision: str | None) -> AbstractContextManager[None]:
    """Recompute blocks in the backward pass, in a context around the forward pass.

    Args:
        precision: How the inputs of blocks are kept: "float32" for the type of the model, or "bfloat16"; None: nothing
            is recomputed.
    """
    return _kept(precision)


def recomputed(block: Callable[..., Any]) -> Callable[..., Any]:
    """The function block(signal, *others) of a block, which is recomputed within `recomputed_blocks`."""
    precision = _kept.value
    if precision is None:
        return block

    def run(signal: Signal, *others: Any) -> Any:
        dtype = signal.values.dtype

        @jax.checkpoint
        def again(signal: Signal, *others: Any) -> Any:
            return block(signal._replace(values=signal.values.astype(dtype)), *others)

        if precision == "bfloat16" and signal.rows is None:  # rows of a table are gathered again
            signal = signal._replace(values=signal.values.astype(jnp.bfloat16))
        return again(signal, *others)

    return run
