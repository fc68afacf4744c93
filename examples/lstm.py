"""A long short-term memory, the recurrent network to beat, called as an S7 model is."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from s7.encoders import LinearEncoder
from s7.heads import PerStep


class LSTM(eqx.Module):
    """One layer and a linear readout, in the same units as an S7 model with this encoder and head.

    c_k = σ(f) c_{k−1} + σ(i) tanh(g)      h_k = σ(o) tanh(c_k)      (i, f, g, o) = W u_k + U h_{k−1} + b
    """

    W: Float[Array, "4H I"]
    U: Float[Array, "4H H"]
    b: Float[Array, " 4H"]
    readout: Float[Array, "O H"]
    bias: Float[Array, " O"]
    encoder: LinearEncoder = eqx.field(static=True)
    head: PerStep = eqx.field(static=True)

    def __init__(self, width: int, encoder: LinearEncoder, head: PerStep, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.W = jax.random.normal(keys[0], (4 * width, encoder.inputs)) / math.sqrt(encoder.inputs)
        self.U = jax.random.normal(keys[1], (4 * width, width)) / math.sqrt(width)
        # The forget gates start open, or nothing would be remembered long enough to be learnt.
        self.b = jnp.zeros(4 * width).at[width : 2 * width].set(1.0)
        self.readout = jax.random.normal(keys[2], (head.outputs, width)) / math.sqrt(width)
        self.bias = jnp.zeros(head.outputs)
        self.encoder, self.head = encoder, head

    def __call__(self, inputs: Float[Array, "L I"], dt=None, length=None, *, key=None) -> Float[Array, "L O"]:
        """The readout at every step. Gaps and length are of no use to it: its sequences are regular and whole."""

        def step(carry, drive):
            h, c = carry
            i, f, g, o = jnp.split(drive + self.U @ h, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        u = (inputs - jnp.asarray(self.encoder.mean)) / jnp.asarray(self.encoder.scale)
        nothing = jnp.zeros(self.U.shape[1])
        _, h = jax.lax.scan(step, (nothing, nothing), u @ self.W.T + self.b)
        return (h @ self.readout.T + self.bias) * jnp.asarray(self.head.scale) + jnp.asarray(self.head.mean)
