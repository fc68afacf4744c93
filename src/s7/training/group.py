"""The processes that train one model together, each with one device: what they exchange besides gradients."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree, Shaped

from s7.data.batching import Share
from s7.processes import ProcessLost

# The mesh axes over which the rows of a batch and the events of a row are divided.
ROWS, EVENTS = "rows", "events"


@dataclass(frozen=True)
class Group:
    """The processes that train together: this is process `index` of `count`; `parts` of them share each sequence."""

    index: int = 0
    count: int = 1
    parts: int = 1

    @classmethod
    def current(cls, parts: int = 1) -> "Group":
        """The processes that `jax.distributed` has connected; this one alone if it has not been initialized."""
        if jax.process_count() % parts:
            count = jax.process_count()
            raise ValueError(
                f"train.sequence_shards={parts} needs a multiple of {parts} processes; "
                f"there {'is' if count == 1 else 'are'} {count}"
            )
        return cls(jax.process_index(), jax.process_count(), parts)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and messages."""
        return self.index == 0

    @property
    def share(self) -> Share:
        """What this process holds of each batch."""
        return Share(self.index // self.parts, self.count // self.parts, self.index % self.parts, self.parts)

    @cached_property
    def mesh(self) -> Mesh:
        """One device of each process, by its rows and its part of the events."""
        first = {device.process_index: device for device in reversed(jax.devices())}
        devices = np.array([first[index] for index in range(self.count)])
        return Mesh(devices.reshape(-1, self.parts), (ROWS, EVENTS))

    def replicate(self, tree: PyTree) -> PyTree:
        """Arrays that are equal in all processes, as arrays of the mesh."""
        return self.place(tree, PartitionSpec())

    def place(self, tree: PyTree, specs: PyTree) -> PyTree:
        """What this process holds of some arrays, as a part of the arrays of the mesh.

        Args:
            tree: Arrays of this process.
            specs: How they are divided over the mesh; one for all, or one for each or each subtree.
        """
        if self.count == 1:
            return tree

        def one(spec: PartitionSpec, subtree: PyTree) -> PyTree:
            sharding = NamedSharding(self.mesh, spec)
            return jax.tree.map(lambda q: jax.make_array_from_process_local_data(sharding, np.asarray(q)), subtree)

        return jax.tree.map(one, specs, tree, is_leaf=lambda q: isinstance(q, PartitionSpec))

    def local(self, tree: PyTree) -> PyTree:
        """Arrays of the mesh that are equal in all processes, as arrays of this process."""
        if self.count == 1:
            return tree
        return jax.tree.map(lambda q: q.addressable_data(0), tree)

    def gather(self, array: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "count ..."]:
        """The arrays of all processes; bytes are kept, also of types that JAX would convert."""
        if self.count == 1:
            return array[None]
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        rows = np.ascontiguousarray(multihost_utils.process_allgather(data))
        return rows.view(array.dtype).reshape(self.count, *array.shape)

    def total(self, array: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """The sum over all processes, in their order."""
        return self.gather(array).sum(0)

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.gather(np.zeros(1, np.uint8))

    def from_first(self, value: Any) -> Any:
        """Process 0's value in all processes, which must be JSON; that of the others is ignored."""
        if self.count == 1:
            return value
        text = np.frombuffer(json.dumps(value if self.is_first else None).encode(), np.uint8)
        size = int(self.arrays_from_first(np.array(len(text), np.int64)))
        text = self.arrays_from_first(text if self.is_first else np.zeros(size, np.uint8))
        return json.loads(text.tobytes().decode())

    def arrays_from_first(self, tree: PyTree) -> PyTree:
        """Process 0's arrays in all processes; those of the others have the same shapes."""
        if self.count == 1:
            return tree

        def broadcast(array):
            data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            found = np.asarray(multihost_utils.broadcast_one_to_all(data))
            return np.frombuffer(found.tobytes(), array.dtype).reshape(array.shape)

        return jax.tree.map(lambda q: broadcast(np.asarray(q)), tree)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise ProcessLost if work fails because another process has ended."""
        try:
            yield
        except Exception as error:
            # JAX has no exception for it.
            if self.count > 1 and "gloo" in str(error).lower():
                raise ProcessLost(f"process {self.index} of {self.count}: another process has ended") from None
            raise


ALONE = Group()
