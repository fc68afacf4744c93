"""Orthogonal recurrent network by the exponential map.

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

    The parameter A is what stands above the diagonal, row by row. exp(A) is orthogonal: what is remembered neither
    grows nor fades.
    """

    def init(self, units, *, key, dtype):
        """exp(A) turns pairs of units by angles spread over (0, π), as in Henaff et al. 2016, and modrelu is linear."""
        A, first = np.zeros((units, units)), np.arange(0, units - 1, 2)
        A[first, first + 1] = math.pi * (np.arange(len(first)) + 0.5) / max(len(first), 1)
        matrix = draw({"W": ((units, units), 1 / math.sqrt(units))}, key=key, dtype=dtype)
        return matrix | {"A": jnp.asarray(A[np.triu_indices(units, 1)], dtype), "b": constant(0, units, dtype)}

    def drive(self, parameters, u):
        """W u alone: b belongs to modrelu."""
        return linear(parameters["W"], u)

    def prepare(self, parameters):
        """exp(A) in the place of A."""
        units = len(parameters["b"])
        upper = jnp.zeros((units, units), parameters["A"].dtype)
        upper = upper.at[np.triu_indices(units, 1)].set(parameters["A"])
        return {"U": expm(upper - upper.T), "b": parameters["b"]}

    def advance(self, parameters, drive, state, dt):
        """One step."""
        (h,) = state
        x = drive + parameters["U"] @ h
        return (jnp.sign(x) * relu(jnp.abs(x) + parameters["b"]),)


class ExpRnnModel(Architecture, name="exprnn"):
    """Recurrent network with an orthogonal recurrent matrix."""

    source = "Lezcano-Casado & Martínez-Rubio 2019"
    family = "cells"
    settings = bare(ExpRnn)
