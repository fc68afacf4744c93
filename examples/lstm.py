"""A long short-term memory, the recurrent network to beat: (L, inputs) -> (L, outputs), as an S7 model is called."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class LSTM(eqx.Module):
    """One layer and a linear readout.

    c_k = σ(f) c_{k−1} + σ(i) tanh(g)      h_k = σ(o) tanh(c_k)      (i, f, g, o) = W u_k + U h_{k−1} + b
    """

    W: Float[Array, "4H I"]
    U: Float[Array, "4H H"]
    b: Float[Array, " 4H"]
    readout: Float[Array, "O H"]
    bias: Float[Array, " O"]

    def __init__(self, inputs: int, width: int, outputs: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.W = jax.random.normal(keys[0], (4 * width, inputs)) / math.sqrt(inputs)
        self.U = jax.random.normal(keys[1], (4 * width, width)) / math.sqrt(width)
        # The forget gates start open, or nothing would be remembered long enough to be learnt.
        self.b = jnp.zeros(4 * width).at[width : 2 * width].set(1.0)
        self.readout = jax.random.normal(keys[2], (outputs, width)) / math.sqrt(width)
        self.bias = jnp.zeros(outputs)

    def __call__(self, inputs: Float[Array, "L I"]) -> Float[Array, "L O"]:
        """The readout at every step."""

        def step(carry, drive):
            h, c = carry
            i, f, g, o = jnp.split(drive + self.U @ h, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        nothing = jnp.zeros(self.U.shape[1])
        _, h = jax.lax.scan(step, (nothing, nothing), inputs @ self.W.T + self.b)
        return h @ self.readout.T + self.bias
