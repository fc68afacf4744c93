"""AdamW in three groups: what sets the dynamics, what makes them selective, and the rest.

    ssm         w, ω, decay, B, b         the state's own: rates and input, as S5 groups them; those of S4D and Mamba
    selective   W_w, W_B, W_C, W_D, factors of them
    rest        encoder, C, D, gate, norms, head

    m = β₁ m + (1 − β₁) g        v = β₂ v + (1 − β₂) g²
    q = q − rate · (m̂ / (√v̂ + ε) + decay · q)            m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

Each group has its own peak rate and weight decay. All rates warm up linearly and fall as a cosine to zero at the last
step. Parameters are one vector (see parameters.py), and so is everything here.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from s7.training.config import TrainConfig
from s7.training.parameters import ParamLayout

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Memory(NamedTuple):
    """What the optimizer remembers: moments, the gradient gathered so far, and how much was done."""

    m: Float[Array, " N"]
    v: Float[Array, " N"]
    gathered: Float[Array, "..."]
    batches: Int[Array, ""]


class AdamW(eqx.Module):
    """`steps` updates, the first `warmup` of them at rising rates, each from `accumulate` batches.

    `rate` and `decay` are those of each number. `clip_norm` bounds the gradient's norm; 0 leaves it alone. A compiled
    step reads the numbers: one program serves trainings of any length and rate.
    """

    rate: Float[Array, " N"]
    decay: Float[Array, " N"]
    steps: int | Int[Array, ""]
    warmup: int | Int[Array, ""]
    clip_norm: float = eqx.field(default=0.0, static=True)
    accumulate: int = eqx.field(default=1, static=True)

    @classmethod
    def of(cls, config: TrainConfig, layout: ParamLayout, batches: int) -> "AdamW":
        """As the settings say, for training that sees `batches` batches in all."""
        rates, decays = config.rates, config.decays
        steps = max(1, batches // config.accumulate)

        def decay(name: str, shape: tuple[int, ...]) -> float:
            # Vectors (biases, norms, time constants) are not decayed: zero means nothing to them.
            return decays[layout.groups[name]] if len(shape) > 1 else 0.0

        return cls(
            jnp.asarray(layout.spread(lambda name, _: rates[layout.groups[name]])),
            jnp.asarray(layout.spread(decay)),
            steps,
            round(config.warmup * steps),
            config.clip_norm,
            config.accumulate,
        )

    def init(self, parameters: Float[Array, " N"]) -> Memory:
        """Before the first batch."""
        zeros = np.zeros(parameters.shape, parameters.dtype)
        # Where nothing is gathered over batches, nothing is kept for it.
        gathered = zeros if self.accumulate > 1 else np.zeros(0, parameters.dtype)
        return Memory(jnp.array(zeros), jnp.array(zeros), jnp.array(gathered), jnp.array(0, jnp.int32))

    def update(
        self, gradient: Float[Array, " N"], memory: Memory, parameters: Float[Array, " N"]
    ) -> tuple[Float[Array, " N"], Memory]:
        """The parameters and the memory after one more batch."""
        if self.accumulate == 1:
            return self._step(gradient, memory, parameters)
        gathered = memory.gathered + gradient / self.accumulate
        more = memory._replace(gathered=gathered, batches=memory.batches + 1)

        def step(_):
            new, after = self._step(gathered, memory, parameters)
            return new, after._replace(gathered=jnp.zeros_like(gathered))

        return lax.cond(more.batches % self.accumulate == 0, step, lambda _: (parameters, more), None)

    def _step(self, gradient, memory, parameters):
        if self.clip_norm:
            norm = jnp.sqrt(jnp.sum(gradient**2))
            gradient = gradient * jnp.minimum(1, self.clip_norm / jnp.maximum(norm, self.clip_norm))
        batches = memory.batches + 1
        t = batches // self.accumulate
        m = BETA1 * memory.m + (1 - BETA1) * gradient
        v = BETA2 * memory.v + (1 - BETA2) * gradient**2
        power = t.astype(parameters.dtype)
        direction = m / (1 - BETA1**power) / (jnp.sqrt(v / (1 - BETA2**power)) + EPSILON)
        rate = self.schedule(t - 1).astype(parameters.dtype) * self.rate.astype(parameters.dtype)
        decayed = direction + self.decay.astype(parameters.dtype) * parameters
        return parameters - rate * decayed, Memory(m, v, memory.gathered, batches)

    def schedule(self, step: Array | int) -> Array:
        """The part of the peak rate at a step, counted from 0."""
        rising = jnp.asarray(step + 1, jnp.float32) / (self.warmup + 1)
        through = (jnp.asarray(step, jnp.float32) - self.warmup) / jnp.maximum(1, self.steps - self.warmup)
        falling = 0.5 * (1 + jnp.cos(math.pi * jnp.clip(through, 0, 1)))
        return jnp.where(step < self.warmup, rising, falling)
