"""Recurrent network with an orthogonal matrix, parameterized by the matrix exponential.

Lezcano-Casado & Martínez-Rubio, Cheap orthogonal constraints in neural networks: A simple parametrization of the
orthogonal and unitary group, ICML 2019.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax.nn import relu
from jax.scipy.linalg import expm

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.contractions import linear
from s7.initialization import constant, draw


@dataclass(frozen=True)
class ExpRnn(Cell):
    """h_k = modrelu(W u_k + exp(A) h_{k-1})        modrelu(x) = sign(x) relu(|x| + b)        A = -Aᵀ

    The parameter A holds the entries above the diagonal, row by row. exp(A) is orthogonal, so the recurrence preserves
    the norm of the state.
    """

    def init(self, units, *, key, dtype):
        """Initialize exp(A) to rotations of unit pairs by angles in (0, π), as in Henaff et al. 2016, and b to zero."""
        A, first = np.zeros((units, units)), np.arange(0, units - 1, 2)
        A[first, first + 1] = math.pi * (np.arange(len(first)) + 0.5) / max(len(first), 1)
        matrix = draw({"W": ((units, units), 1 / math.sqrt(units))}, key=key, dtype=dtype)
        return matrix | {"A": jnp.asarray(A[np.triu_indices(units, 1)], dtype), "b": constant(0, units, dtype)}

    def drive(self, parameters, u):
        """Project the inputs by W; b belongs to modrelu."""
        return linear(parameters["W"], u)

    def prepare(self, parameters):
        """Compute exp(A)."""
        units = len(parameters["b"])
        upper = jnp.zeros((units, units), parameters["A"].dtype)
        upper = upper.at[np.triu_indices(units, 1)].set(parameters["A"])
        return {"U": expm(upper - upper.T), "b": parameters["b"]}

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        x = drive + parameters["U"] @ h
        return (jnp.sign(x) * relu(jnp.abs(x) + parameters["b"]),)


class ExpRnnModel(Architecture, name="exprnn"):
    """Recurrent network with an orthogonal recurrent matrix."""

    source = "Lezcano-Casado & Martínez-Rubio 2019"
    family = "cells"
    settings = bare(ExpRnn)
