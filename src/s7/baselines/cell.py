"""Recurrent cells, which must be run one event at a time, and the layer that runs them.

A cell defines the input projection (computed for the whole sequence at once), the state update of one step, and which
part of the state is the output. `CellLayer` does the rest: the loop over time, padding, packing, gaps, windows and the
reverse direction.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from s7.contractions import linear
from s7.initialization import Parameters, constant, draw
from s7.sequence_layer import LayerKind, SequenceLayer, reverse_gaps

State = tuple[Array, ...]


@dataclass(frozen=True)
class Cell(LayerKind):
    """The base class of cells. An instance holds settings only; parameters are passed in.

    By default, the parameters are W, U and b of `gates` affine maps of the input and of h, the first part of the
    state; the input projection is W u_k + b, and the output is h. A cell has as many units as the layer has features.
    """

    gates: ClassVar[int] = 1

    @abstractmethod
    def advance(self, parameters: Parameters, drive: Float[Array, " G"], state: State, dt: Float[Array, ""]) -> State:
        """Compute the state after one event.

        Args:
            parameters: The parameters, as `prepare` returns them.
            drive: The input projection of the event.
            state: The state after the previous event.
            dt: The gap since the previous event; 1 in regular time.
        """

    def init(self, units: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw W and U with standard deviation 1/sqrt(units); b is zero."""
        return affine(units, self.gates, key=key, dtype=dtype)

    def start(self, units: int, dtype: DTypeLike) -> State:
        """Return the state before the first event."""
        return (constant(0, units, dtype),)

    def drive(self, parameters: Parameters, u: Float[Array, "L H"]) -> Float[Array, "L G"]:
        """Project the inputs."""
        return linear(parameters["W"], u) + parameters["b"]

    def prepare(self, parameters: Parameters) -> Parameters:
        """Transform the parameters once per sequence, before `advance` uses them."""
        return parameters

    def read(self, state: State) -> Float[Array, " R"]:
        """Return what the output is computed from, a part or a function of the state."""
        return state[0]

    def output(self, parameters: Parameters, read: Float[Array, "M R"]) -> Float[Array, "M H"]:
        """Compute the outputs of several events; by default they are what `read` returned."""
        return read

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "CellLayer":
        """Make a layer of `width` units. `state` is ignored: a cell has no separate state size."""
        return CellLayer(self, width, key=key, dtype=dtype)


def affine(
    units: int, gates: int, *, key: PRNGKeyArray, dtype: DTypeLike, more: Mapping[str, tuple[int, ...]] | None = None
) -> Parameters:
    """Draw W and U (gates·units × units) and `more` matrices with deviation 1/sqrt(columns); b is zero."""
    shapes = {"W": (gates * units, units), "U": (gates * units, units)} | dict(more or {})
    wanted = {name: (shape, 1 / math.sqrt(shape[-1])) for name, shape in shapes.items()}
    return draw(wanted, key=key, dtype=dtype) | {"b": constant(0, gates * units, dtype)}


class CellLayer(SequenceLayer):
    """A cell run along a sequence."""

    parameters: Parameters
    cell: Cell = eqx.field(static=True)
    width: int = eqx.field(static=True)
    dt: float | None = eqx.field(static=True)

    @property
    def groups(self) -> dict[str, str]:
        """The optimizer groups of the parameters, as the cell declares them."""
        return {f"parameters.{name}": group for name, group in self.cell.groups.items()}

    def __init__(self, cell: Cell, width: int, *, key: PRNGKeyArray, dtype: DTypeLike = jnp.float32):
        if width < 1:
            raise ValueError(f"{type(cell).__name__}: width={width} must be at least 1")
        self.parameters = cell.init(width, key=key, dtype=dtype)
        self.cell, self.width, self.dt = cell, width, None

    @property
    def dtype(self) -> jnp.dtype:
        return jax.tree.leaves(self.parameters)[0].dtype

    def init_state(self) -> State:
        return self.cell.start(self.width, self.dtype)

    def drive(self, u):
        return self.cell.drive(self.parameters, u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        start, parameters = self.init_state(), self.cell.prepare(self.parameters)
        if reverse:
            dt, reset = reverse_gaps(dt, mask, reset)
        length = jax.tree.leaves(drive)[0].shape[0]
        gaps = jnp.ones(length, self.dtype) if dt is None else dt

        def step(before: State, event: tuple[Any, Array, Array | None, Array | None]) -> tuple[State, Array]:
            drive, gap, is_event, is_start = event
            if is_start is not None:
                before = _choose(is_start, start, before)
            after = self.cell.advance(parameters, drive, before, gap)
            if is_event is not None:
                after = _choose(is_event, after, before)
            return after, self.cell.read(after)

        final, outputs = lax.scan(step, start if state is None else state, (drive, gaps, mask, reset), reverse=reverse)
        return outputs[(0 if reverse else stride - 1) :: stride], final

    def output(self, x, u):
        return self.cell.output(self.parameters, x)


def _choose(condition: Array, yes: State, no: State) -> State:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
