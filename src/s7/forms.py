"""Forms: the maps from the input to the state and from the state to the output.

    v_k = g_k * (B_k u_k + b)          B_k = B + W_B u_k      (rows × H)
    y_k = C_k x_k + D_k u_k            C_k = C + W_C u_k      (H × rows),   D_k = D + W_D u_k

All parameters are real: a complex state of size P has 2P rows, its real and its imaginary parts. The bias b is
constant, because a term of b_k that is linear in u_k would duplicate B.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from s7.contractions import bilinear, linear, quadratic
from s7.initialization import Normal, Parameters, constant, draw
from s7.ranges import Range, searched
from s7.registry import Registered
from s7.transitions import SELECTIVE_SCALE

Selectivity = Literal["diagonal", "full", "static"]


@dataclass(frozen=True)
class Form(Registered, ABC):
    """The base class of forms. A form is a frozen dataclass of settings; parameters are arguments of its methods.

    Shapes: L events, width H, S rows of the state.

    Args:
        D: "diagonal" for an input-dependent diagonal D_k, "full" for an input-dependent matrix, "static" for a constant
            diagonal.
        bias: Whether there is a bias b.
    """

    groups: ClassVar[Mapping[str, str]] = {
        **{name: "ssm" for name in ("B", "b")},
        **{name: "selective" for name in ("W_B", "W_C", "W_D", "V1", "V2", "V3", "U1", "U2", "U3")},
    }
    D: Selectivity = field(default="diagonal", kw_only=True)
    bias: bool = field(default=True, kw_only=True)

    def __post_init__(self):
        if self.D not in ("diagonal", "full", "static"):
            raise ValueError(f'{type(self).__name__}: D={self.D!r} is not one of "diagonal", "full", "static"')

    def init(self, width: int, rows: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Initial parameters: B, b, C, D and the selective maps."""
        natural = 1 / math.sqrt(width)
        wanted: dict[str, Normal] = {
            "B": ((rows, width), natural),
            "C": ((width, rows), 1 / math.sqrt(rows)),
            "D": ((width, width), natural) if self.D == "full" else ((width,), 1.0),
        }
        if self.D == "full":
            wanted["W_D"] = ((width, width, width), SELECTIVE_SCALE / width)
        elif self.D == "diagonal":
            wanted["W_D"] = ((width, width), SELECTIVE_SCALE * natural)
        parameters = draw(wanted | self.selective_maps(width, rows), key=key, dtype=dtype)
        return parameters | {"b": constant(0, rows, dtype)} if self.bias else parameters

    @abstractmethod
    def selective_maps(self, width: int, rows: int) -> dict[str, Normal]:
        """The shapes and the initial scales of the parameters of W_B and W_C, by name."""

    @abstractmethod
    def select_input(self, parameters: Parameters, u: Float[Array, "L H"]) -> Float[Array, "L S"] | None:
        """W_B[u_k] u_k, or None if B is static."""

    @abstractmethod
    def select_output(
        self, parameters: Parameters, x: Float[Array, "L S"], u: Float[Array, "L H"]
    ) -> Float[Array, "L H"] | None:
        """W_C[u_k] x_k, or None if C is static."""

    @abstractmethod
    def selected_matrices(
        self, parameters: Parameters, u: Float[Array, "L H"]
    ) -> tuple[Float[Array, "L S H"] | None, Float[Array, "L H S"] | None]:
        """W_B[u_k] and W_C[u_k] as matrices, None if static; for inspection and tests."""

    def drive(self, parameters: Parameters, u: Float[Array, "L H"]) -> Float[Array, "L S"]:
        """B_k u_k + b."""
        drive = linear(parameters["B"], u)
        selected = self.select_input(parameters, u)
        if selected is not None:
            drive = drive + selected
        return drive + parameters["b"] if self.bias else drive

    def output(self, parameters: Parameters, x: Float[Array, "L S"], u: Float[Array, "L H"]) -> Float[Array, "L H"]:
        """C_k x_k + D_k u_k."""
        y = linear(parameters["C"], x) + self._direct(parameters, u)
        selected = self.select_output(parameters, x, u)
        return y if selected is None else y + selected

    def _direct(self, parameters: Parameters, u: Array) -> Array:
        D = parameters["D"]
        if self.D == "full":
            return linear(D, u) + quadratic(parameters["W_D"], u)
        if self.D == "diagonal":
            D = D + linear(parameters["W_D"], u)
        return D * u

    def matrices(
        self, parameters: Parameters, u: Float[Array, "L H"]
    ) -> tuple[Float[Array, "L S H"], Float[Array, " S"], Float[Array, "L H S"], Float[Array, "L H H"]]:
        """The matrices (B_k, b, C_k, D_k) at every event; for inspection and tests."""
        W_B, W_C = self.selected_matrices(parameters, u)
        B = parameters["B"] + (0 if W_B is None else W_B)
        C = parameters["C"] + (0 if W_C is None else W_C)
        B, C = (jnp.broadcast_to(q, (u.shape[0], *q.shape[-2:])) for q in (B, C))
        D = parameters["D"]
        if self.D == "full":
            D = D + jnp.einsum("hij,lj->lhi", parameters["W_D"], u)
        else:
            if self.D == "diagonal":
                D = D + u @ parameters["W_D"].T
            D = jnp.broadcast_to(D, u.shape)[:, :, None] * jnp.eye(u.shape[1], dtype=u.dtype)
        b = parameters["b"] if self.bias else jnp.zeros(parameters["B"].shape[0], u.dtype)
        return B, b, C, D


@dataclass(frozen=True)
class Selective(Form):
    """Base class of forms with an input-dependent B or C.

    Args:
        selective: The input-dependent matrices: "BC", "B" or "C".
    """

    selective: Literal["BC", "B", "C"] = field(default="BC", kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if self.selective not in ("BC", "B", "C"):
            raise ValueError(f'{type(self).__name__}: selective={self.selective!r} is not one of "BC", "B", "C"')

    @abstractmethod
    def input_maps(self, width: int, rows: int) -> dict[str, Normal]:
        """The shapes and the initial scales of the parameters of W_B."""

    @abstractmethod
    def output_maps(self, width: int, rows: int) -> dict[str, Normal]:
        """The shapes and the initial scales of the parameters of W_C."""

    def selective_maps(self, width, rows):
        """The parameters of the input-dependent matrices."""
        maps = self.input_maps(width, rows) if "B" in self.selective else {}
        return maps | self.output_maps(width, rows) if "C" in self.selective else maps


@dataclass(frozen=True)
class Full(Selective):
    """The form of the paper: W_B maps u_k to every entry of B_k, and W_C to every entry of C_k.

    Costs 2·H²·P multiplications per event.
    """

    def input_maps(self, width, rows):
        """W_B[p, i, j], where j is the index of u_k that B_k depends on."""
        return {"W_B": ((rows, width, width), SELECTIVE_SCALE / width)}

    def output_maps(self, width, rows):
        """W_C[h, p, j], where j is the index of u_k that C_k depends on."""
        return {"W_C": ((width, rows, width), SELECTIVE_SCALE / math.sqrt(width * rows))}

    def select_input(self, parameters, u):
        """Σ_ij W_B[p, i, j] u_i u_j, or None if B is static."""
        return quadratic(parameters["W_B"], u) if "B" in self.selective else None

    def select_output(self, parameters, x, u):
        """Σ_pj W_C[h, p, j] x_p u_j, or None if C is static."""
        return bilinear(parameters["W_C"], x, u) if "C" in self.selective else None

    def selected_matrices(self, parameters, u):
        """W_B and W_C contracted with u_k over j."""
        W_B = jnp.einsum("pij,lj->lpi", parameters["W_B"], u) if "B" in self.selective else None
        W_C = jnp.einsum("hpj,lj->lhp", parameters["W_C"], u) if "C" in self.selective else None
        return W_B, W_C


@dataclass(frozen=True)
class Factored(Selective):
    """W_B and W_C of low rank R: R·(2H + P) multiplications per event and map instead of H²·P.

    W_B[u, u] = V3 ((V1 u) * (V2 u))           W_C[x, u] = U3 ((U1 x) * (U2 u))

    Args:
        rank: The rank R of both maps.
    """

    rank: int = searched(32, Range(8, 128, log=True))

    def __post_init__(self):
        super().__post_init__()
        if self.rank < 1:
            raise ValueError(f"Factored: rank={self.rank} must be at least 1")

    def input_maps(self, width, rows):
        """V1 (R × H), V2 (R × H) and V3 (rows × R)."""
        R, H = self.rank, 1 / math.sqrt(width)
        return {"V1": ((R, width), H), "V2": ((R, width), H), "V3": ((rows, R), SELECTIVE_SCALE / math.sqrt(R))}

    def output_maps(self, width, rows):
        """U1 (R × rows), U2 (R × H) and U3 (H × R)."""
        R, H, P = self.rank, 1 / math.sqrt(width), 1 / math.sqrt(rows)
        return {"U1": ((R, rows), P), "U2": ((R, width), H), "U3": ((width, R), SELECTIVE_SCALE / math.sqrt(R))}

    def select_input(self, parameters, u):
        """V3 ((V1 u) * (V2 u))."""
        if "B" not in self.selective:
            return None
        V1, V2, V3 = (parameters[name] for name in ("V1", "V2", "V3"))
        return linear(V3, linear(V1, u) * linear(V2, u))

    def select_output(self, parameters, x, u):
        """U3 ((U1 x) * (U2 u))."""
        if "C" not in self.selective:
            return None
        U1, U2, U3 = (parameters[name] for name in ("U1", "U2", "U3"))
        return linear(U3, linear(U1, x) * linear(U2, u))

    def selected_matrices(self, parameters, u):
        """V3 diag(V2 u) V1 and U3 diag(U2 u) U1."""
        W_B = W_C = None
        if "B" in self.selective:
            V1, V2, V3 = (parameters[name] for name in ("V1", "V2", "V3"))
            W_B = jnp.einsum("pr,lr,ri->lpi", V3, u @ V2.T, V1)
        if "C" in self.selective:
            U1, U2, U3 = (parameters[name] for name in ("U1", "U2", "U3"))
            W_C = jnp.einsum("hr,lr,rp->lhp", U3, u @ U2.T, U1)
        return W_B, W_C


@dataclass(frozen=True)
class Static(Form):
    """Constant B, C and D. With the transition `Step` this is S5."""

    D: Selectivity = field(default="static", kw_only=True)

    def selective_maps(self, width, rows):
        return {}

    def select_input(self, parameters, u):
        return None

    def select_output(self, parameters, x, u):
        return None

    def selected_matrices(self, parameters, u):
        return None, None
