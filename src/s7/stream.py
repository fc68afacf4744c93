"""Event by event, without JAX in the loop: a trained model on a live stream of events.

    stream = s7.Stream(model)                  # or s7.Stream.load("runs/gesture")
    for token, gap in camera:
        stream.push(token, gap)                # a microsecond or so in a pooled model
    stream.answer()                            # what model(tokens, gaps) gives on all events so far

The engine is C++. A model is packed once, when the stream is made; after that nothing is allocated, and the state
lies in one block of memory.
"""

import ctypes
import hashlib
import os
import weakref
from collections.abc import Mapping
from functools import cache
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from s7 import native
from s7.encoders import EventEncoder
from s7.files import load, to_json
from s7.model import S7Model
from s7.storage import read_arrays, write_arrays
from s7.stream_program import program

_OK, _NO_MEMORY, _BAD_EVENT, _BAD_GAP, _MISSING_GAP, _UNEXPECTED_GAP, _BAD_STATE = 0, 2, 4, 5, 6, 7, 9
_ALIGNMENT = 64


class Stream:
    """A model that reads events as they arrive.

    It gives the numbers of `model.step`, `model.chunk` and a call on the whole sequence, up to rounding. It runs causal
    float32 models of S7 layers with any transition, form, encoder, norm and pooling, and every head but `Retrieval`.

    One thread at a time may use a stream. Several streams run in parallel: `push` releases the GIL.

    Args:
        model: The model. Its parameters are copied.

    Raises:
        ValueError: The model cannot stream, or has a part that the engine does not know.
        RuntimeError: s7 was installed without its native kernels.

    Examples:
        >>> import jax, numpy as np, s7
        >>> model = s7.S7Model(encoder=s7.TokenEncoder(9), head=s7.Mean(2), width=8, state=4, key=jax.random.key(0))
        >>> stream = s7.Stream(model)
        >>> stream.push(np.array([3, 1, 4]), np.array([0.0, 0.5, 0.5]))
        >>> stream.push(1, 0.25)
        >>> stream.events, stream.answer().shape
        (4, (2,))
    """

    def __init__(self, model: S7Model):
        if not isinstance(model, S7Model):
            raise TypeError(f"s7.Stream takes an S7Model, not a {type(model).__name__}; s7.Stream.load reads a file")
        self._start(_Packed(model))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Stream":
        """A stream of the model in a file or in a run's folder, before its first event."""
        return cls(load(path))

    def push(self, events: Any, dt: Any = None) -> None:
        """Feed one event, or an array of events.

        Everything is checked first: after an error the state is what it was before the call.

        Args:
            events: One event as the model's encoder reads it (a token, or an array of numbers), or an array of events,
                (length, ...).
            dt: The gap before the event, or one gap for each event; None in regular time. A stream has gaps from its
                first event on, or never.

        Raises:
            ValueError: An event off the sensor or outside of the vocabulary, a number that is not finite, a gap that is
                negative or not finite, or a wrong shape. The message names the event.
        """
        if self._reads_tokens:
            try:
                token = index(events)
            except TypeError:
                return self._push_many(events, dt)
            if not 0 <= token < self._tokens:  # ctypes would cut off what is beyond 64 bits
                self._refuse(_BAD_EVENT, [token], dt, None)
            try:
                status = (
                    self._push_token(self._pointer, token)
                    if dt is None
                    else self._push_token_after(self._pointer, token, dt)
                )
            except ctypes.ArgumentError:
                status = self._push_token_after(self._pointer, token, _single_gap(dt))
        else:
            if np.shape(events) != self._shape:
                return self._push_many(events, dt)
            self._event[...] = events
            try:
                status = (
                    self._push_vector(self._pointer, self._event_pointer)
                    if dt is None
                    else self._push_vector_after(self._pointer, self._event_pointer, dt)
                )
            except ctypes.ArgumentError:
                status = self._push_vector_after(self._pointer, self._event_pointer, _single_gap(dt))
        if status != _OK:
            self._refuse(status, np.asarray(events)[None], dt, None)

    def answer(self) -> Float[np.ndarray, " O"]:
        """The model's output after all events so far; with the `PerStep` head, the last row of it.

        A pooled model counts the events of its unfinished windows, as a call on the sequence so far does. The stream is
        not changed. Before the first event the answer is the one for a feature vector of zeros.
        """
        self._read(self._pointer, self._answer_pointer)
        return self._answer.copy()

    @property
    def events(self) -> int:
        """How many events were pushed so far."""
        return self._packed.library.s7_stream_events(self._pointer)

    def reset(self) -> None:
        """Go back to the state before the first event."""
        self._packed.start(self._pointer)

    def copy(self) -> "Stream":
        """A stream in the same state that shares the model and nothing else."""
        twin = object.__new__(Stream)
        twin._start(self._packed)
        ctypes.memmove(twin._pointer, self._pointer, self._packed.stream_size)
        return twin

    def save(self, path: str | os.PathLike, notes: Mapping[str, np.ndarray] | None = None) -> Path:
        """Write the state to a safetensors file.

        Args:
            path: The file.
            notes: Arrays of the caller's that are written to the file too. `restore` does not read them.

        Returns:
            The path.
        """
        state = np.empty(self._packed.state_size, np.float64)
        self._packed.library.s7_save(self._pointer, state.ctypes.data)
        path = Path(path)
        write_arrays(path, "stream", {**(notes or {}), "state": state}, self._packed.identity)
        return path

    @classmethod
    def restore(cls, model: S7Model, path: str | os.PathLike) -> "Stream":
        """Continue a stream of this model from a file that `save` wrote."""
        stream = cls(model)
        path = Path(path)
        arrays, identity = read_arrays(path, "stream")
        if identity["model"] != stream._packed.identity["model"]:
            raise ValueError(f"{path}: the stream is of a model with another configuration")
        if identity != stream._packed.identity:
            raise ValueError(f"{path}: the stream is of a model with other parameters")
        state = arrays.get("state")
        if state is None or state.shape != (stream._packed.state_size,) or state.dtype != np.float64:
            raise ValueError(f"{path}: does not hold the state of such a stream")
        if stream._packed.library.s7_restore(stream._pointer, np.ascontiguousarray(state).ctypes.data) != _OK:
            raise ValueError(f"{path}: its numbers are not the state of a stream")
        return stream

    def _start(self, packed: "_Packed") -> None:
        self._packed = packed
        self._reads_tokens, self._tokens, self._shape = packed.reads_tokens, packed.tokens, packed.event_shape
        self._memory = np.empty(packed.stream_size + _ALIGNMENT, np.uint8)
        address = self._memory.ctypes.data
        self._pointer = address + -address % _ALIGNMENT
        packed.start(self._pointer)
        self._answer = np.empty(packed.outputs, np.float32)
        self._event = np.empty(packed.event_shape, np.float32)
        self._answer_pointer, self._event_pointer = self._answer.ctypes.data, self._event.ctypes.data
        library = packed.library
        self._push_token, self._push_token_after = library.s7_push_token, library.s7_push_token_after
        self._push_vector, self._push_vector_after = library.s7_push_vector, library.s7_push_vector_after
        self._read = library.s7_read

    def _push_many(self, events: Any, dt: Any) -> None:
        events = self._array(events)
        count = len(events)
        gaps = None
        if dt is not None:
            with np.errstate(over="ignore"):  # it becomes infinite, which is refused below
                gaps = np.ascontiguousarray(dt, np.float32)
            if np.shape(dt) != (count,):
                raise ValueError(f"dt has shape {np.shape(dt)}, expected ({count},): one gap for each event")
        bad = ctypes.c_int64()
        library = self._packed.library
        call = library.s7_push_tokens if self._reads_tokens else library.s7_push_vectors
        status = call(
            self._pointer, events.ctypes.data, None if gaps is None else gaps.ctypes.data, count, ctypes.byref(bad)
        )
        if status != _OK:
            self._refuse(status, events, dt, bad.value)

    def _array(self, events: Any) -> np.ndarray:
        """Many events as the engine reads them."""
        events = np.asarray(events)
        if events.ndim != 1 + len(self._shape) or events.shape[1:] != self._shape:
            one = f"{self._shape} for one event" if self._shape else "() for one token"
            many = ", ".join(["length", *map(str, self._shape)]) + "," * (not self._shape)
            raise ValueError(f"events have shape {events.shape}, expected {one} or ({many}) for many")
        if not self._reads_tokens:
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(events, np.float32)
        if events.size == 0:
            return np.empty(0, np.int32)
        if events.dtype.kind not in "iu":
            raise TypeError(f"tokens must be whole numbers, not {events.dtype}")
        if events.dtype.itemsize > 2 and events.dtype != np.int32:
            wrong = (events < 0) | (events >= self._packed.tokens)
            if wrong.any():
                self._refuse(_BAD_EVENT, events, None, int(wrong.argmax()))
        return np.ascontiguousarray(events, np.int32)

    def _refuse(self, status: int, events: Any, dt: Any, at: int | None) -> None:
        """Raise the error that a status stands for; `at` is the event's index, None where it was pushed alone."""
        place = "" if at is None else f"[{at}]"
        if status == _BAD_EVENT and self._reads_tokens:
            what = f"outside of 0 to {self._packed.tokens - 1}{self._packed.sensor}"
            raise ValueError(f"{'event' if at is None else 'events'}{place} = {events[at or 0]} is {what}")
        if status == _BAD_EVENT:
            event = np.asarray(events[at or 0], np.float32)
            first = np.argwhere(~np.isfinite(event))[0].tolist()
            number = event[tuple(first)]
            raise ValueError(f"{'event' if at is None else 'events'}{place} is not finite: {number} at {first}")
        if status == _BAD_GAP:
            gap = float(dt if at is None else np.asarray(dt)[at])
            raise ValueError(f"dt{place} = {gap} is {'negative' if gap < 0 else 'not finite'}")
        if status == _MISSING_GAP:
            raise ValueError("dt is missing: the earlier events of this stream had gaps")
        if status == _UNEXPECTED_GAP:
            raise ValueError("dt is given, but the earlier events of this stream had no gaps")
        raise RuntimeError(f"the streaming engine failed with status {status}")


class _Packed:
    """A model laid out for the engine, shared by streams and never changed."""

    def __init__(self, model: S7Model):
        self.library = _library()
        settings, weights = program(model)
        handle = ctypes.c_void_p()
        status = self.library.s7_model_open(
            settings.ctypes.data, settings.size, weights.ctypes.data, weights.size, ctypes.byref(handle)
        )
        if status == _NO_MEMORY:
            raise MemoryError(f"a model of {weights.size} weights does not fit in memory")
        if status != _OK:
            raise ValueError("the streaming engine does not know a model with these sizes")
        self.handle = handle.value
        weakref.finalize(self, self.library.s7_model_close, self.handle)
        encoder: Any = model.config.encoder
        self.event_shape = tuple(encoder.event_shape)
        self.tokens = int(getattr(encoder, "size", 0))
        self.reads_tokens = self.tokens > 0
        self.sensor = ", a sensor of {}×{}".format(*encoder.sensor) if isinstance(encoder, EventEncoder) else ""
        self.outputs = model.config.head.outputs
        self.stream_size: int = self.library.s7_stream_size(self.handle)
        self.state_size: int = self.library.s7_state_size(self.handle)
        digest = hashlib.sha256(settings.tobytes() + weights.tobytes()).hexdigest()
        self.identity = {"model": to_json(model.config), "weights": digest}

    def start(self, pointer: int) -> None:
        """Put a stream before its first event into memory."""
        stream = ctypes.c_void_p()
        if self.library.s7_stream_start(self.handle, pointer, self.stream_size, ctypes.byref(stream)) != _OK:
            raise RuntimeError("the streaming engine refused the memory of a stream")


def _single_gap(dt: Any) -> float:
    """One gap, of a type that ctypes does not take as it is."""
    if np.shape(dt) != ():
        raise ValueError(f"dt has shape {np.shape(dt)}, expected one gap for one event")
    if np.asarray(dt).dtype.kind not in "iuf":
        raise TypeError(f"dt is {dt!r}, expected a number; convert times with s7.gaps(times, unit=...)")
    return float(dt)


@cache
def _library() -> ctypes.CDLL:
    """The library, with the types of its streaming functions."""
    library = native.library()
    pointer, whole, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    arguments: dict[str, tuple[Any, list[Any]]] = {
        "s7_abi": (ctypes.c_int, []),  # missing in libraries whose functions take other arguments
        "s7_model_open": (ctypes.c_int, [pointer, whole, pointer, whole, pointer]),
        "s7_model_close": (None, [pointer]),
        "s7_model_table_rows": (whole, [pointer]),
        "s7_stream_size": (ctypes.c_size_t, [pointer]),
        "s7_stream_start": (ctypes.c_int, [pointer, pointer, ctypes.c_size_t, pointer]),
        "s7_stream_events": (whole, [pointer]),
        "s7_push_tokens": (ctypes.c_int, [pointer, pointer, pointer, whole, pointer]),
        "s7_push_vectors": (ctypes.c_int, [pointer, pointer, pointer, whole, pointer]),
        "s7_push_token": (ctypes.c_int, [pointer, whole]),
        "s7_push_token_after": (ctypes.c_int, [pointer, whole, number]),
        "s7_push_vector": (ctypes.c_int, [pointer, pointer]),
        "s7_push_vector_after": (ctypes.c_int, [pointer, pointer, number]),
        "s7_read": (ctypes.c_int, [pointer, pointer]),
        "s7_state_size": (whole, [pointer]),
        "s7_save": (ctypes.c_int, [pointer, pointer]),
        "s7_restore": (ctypes.c_int, [pointer, pointer]),
    }
    for name, (result, types) in arguments.items():
        if not hasattr(library, name):
            raise RuntimeError("the native library is older than this version of s7; install s7 again")
        function = getattr(library, name)
        function.restype, function.argtypes = result, types
    return library
