"""The backend "xla": a sequential loop, compiled by XLA."""

import jax.numpy as jnp
from jax import lax

from s7.backend_selection import Backend


class Xla(Backend, name="xla"):
    """Compiled by XLA, the recurrence as a sequential loop: runs anywhere."""

    def recurrence(self, a, v, initial, reverse):
        """One step after another."""
        # Not lax.scan: under vmap that moves time in front of the batch, and copies every array twice to do so.
        length = a.shape[0]

        def step(k, carry):
            x, states = carry
            at = length - 1 - k if reverse else k
            x = lax.dynamic_index_in_dim(a, at, 0, False) * x + lax.dynamic_index_in_dim(v, at, 0, False)
            return x, lax.dynamic_update_index_in_dim(states, x, at, 0)

        return lax.fori_loop(0, length, step, (initial, jnp.zeros_like(v)))[1]
