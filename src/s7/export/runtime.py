"""Exported models in the C library, called from Python as a C program would call it. For checks and measurements.

`s7.Stream` runs a model that is in memory. This module reads an exported file, with any build of the library.
"""

import ctypes
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int8, Int32, Int64, UInt16

from s7 import native

OK = 0
_ALIGNMENT = 64
_Pointer, _Whole = ctypes.c_void_p, ctypes.c_int64


class _Error(ctypes.Structure):
    _fields_ = (("status", ctypes.c_int), ("position", _Whole), ("text", ctypes.c_char * 240))


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "s7_abi": (ctypes.c_int, []),
    "s7_status_text": (ctypes.c_char_p, [ctypes.c_int]),
    "s7_model_load": (ctypes.c_int, [ctypes.c_char_p, _Pointer, _Pointer]),
    "s7_model_load_bytes": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, _Pointer, _Pointer]),
    "s7_model_close": (None, [_Pointer]),
    "s7_model_outputs": (_Whole, [_Pointer]),
    "s7_model_inputs": (_Whole, [_Pointer]),
    "s7_model_tokens": (_Whole, [_Pointer]),
    "s7_model_sensor_width": (_Whole, [_Pointer]),
    "s7_model_sensor_height": (_Whole, [_Pointer]),
    "s7_model_class": (ctypes.c_char_p, [_Pointer, _Whole]),
    "s7_model_check": (ctypes.c_int, [_Pointer, ctypes.c_char_p, _Pointer, _Pointer]),
    "s7_stream_size": (ctypes.c_size_t, [_Pointer]),
    "s7_stream_start": (ctypes.c_int, [_Pointer, _Pointer, ctypes.c_size_t, _Pointer]),
    "s7_stream_events": (_Whole, [_Pointer]),
    "s7_push_tokens": (ctypes.c_int, [_Pointer, _Pointer, _Pointer, _Whole, _Pointer]),
    "s7_push_vectors": (ctypes.c_int, [_Pointer, _Pointer, _Pointer, _Whole, _Pointer]),
    "s7_push_events": (ctypes.c_int, [_Pointer, _Pointer, _Pointer, _Pointer, _Pointer, _Whole, _Pointer]),
    "s7_read": (ctypes.c_int, [_Pointer, _Pointer]),
    "s7_state_size": (_Whole, [_Pointer]),
    "s7_save": (ctypes.c_int, [_Pointer, _Pointer]),
    "s7_restore": (ctypes.c_int, [_Pointer, _Pointer]),
}


class EdgeModel:
    """A model file in the C library.

    Args:
        path: A file that `write_edge` wrote.
        library: The library; by default the one of the installed package.

    Raises:
        ValueError: The file is damaged or cannot be read. The message names the position.
    """

    def __init__(self, path: str | os.PathLike, library: str | os.PathLike | None = None):
        # A handle of its own: other users of the library declare other types for the same functions.
        where = Path(native.library()._name) if library is None else Path(library)
        self.library = ctypes.CDLL(str(where))
        for name, (result, types) in _FUNCTIONS.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, types
        handle, error = ctypes.c_void_p(), _Error()
        status = self.library.s7_model_load(os.fsencode(path), ctypes.byref(handle), ctypes.byref(error))
        if status != OK:
            raise ValueError(error.text.decode())
        self.handle = handle.value
        weakref.finalize(self, self.library.s7_model_close, self.handle)
        self.outputs: int = self.library.s7_model_outputs(self.handle)
        self.inputs: int = self.library.s7_model_inputs(self.handle)

    @property
    def classes(self) -> list[str]:
        """The names of the outputs; empty if they have none."""
        names = [self.library.s7_model_class(self.handle, n) for n in range(self.outputs)]
        return [name.decode() for name in names if name is not None]

    @property
    def sensor(self) -> tuple[int, int]:
        """(width, height) in pixels, or (0, 0)."""
        return (
            self.library.s7_model_sensor_width(self.handle),
            self.library.s7_model_sensor_height(self.handle),
        )

    def check(self, golden: str | os.PathLike) -> float:
        """The largest difference from the outputs of a golden file, relative to the largest of these."""
        difference, error = ctypes.c_double(), _Error()
        if self.library.s7_model_check(self.handle, os.fsencode(golden), ctypes.byref(difference), ctypes.byref(error)):
            raise ValueError(error.text.decode())
        return difference.value


class EdgeStream:
    """A stream of an exported model.

    Args:
        model: The model.
    """

    def __init__(self, model: EdgeModel):
        self.model, self.library = model, model.library
        size = self.library.s7_stream_size(model.handle)
        self._memory = np.empty(size + _ALIGNMENT, np.uint8)
        self._pointer = self._memory.ctypes.data + -self._memory.ctypes.data % _ALIGNMENT
        self._check(self.library.s7_stream_start(model.handle, self._pointer, size, ctypes.byref(ctypes.c_void_p())))

    @property
    def events(self) -> int:
        """The number of events so far."""
        return self.library.s7_stream_events(self._pointer)

    def push(
        self, events: Int32[np.ndarray, " L"] | Float32[np.ndarray, "L I"], gaps: Float32[np.ndarray, " L"] | None
    ) -> None:
        """Process tokens or vectors, with gaps or in regular time."""
        call = self.library.s7_push_vectors if self.model.inputs else self.library.s7_push_tokens
        bad = _Whole()
        events = np.ascontiguousarray(events)
        place = None if gaps is None else np.ascontiguousarray(gaps).ctypes.data
        self._check(call(self._pointer, events.ctypes.data, place, len(events), ctypes.byref(bad)), bad)

    def push_events(
        self,
        x: UInt16[np.ndarray, " L"],
        y: UInt16[np.ndarray, " L"],
        p: Int8[np.ndarray, " L"],
        t: Int64[np.ndarray, " L"] | None,
    ) -> None:
        """Process the events of a camera, with times in microseconds or in regular time."""
        bad = _Whole()
        columns = [None if q is None else np.ascontiguousarray(q).ctypes.data for q in (x, y, p, t)]
        self._check(self.library.s7_push_events(self._pointer, *columns, len(x), ctypes.byref(bad)), bad)

    def answer(self) -> Float[np.ndarray, " O"]:
        """The answer after all events so far."""
        answer = np.empty(self.model.outputs, np.float32)
        self._check(self.library.s7_read(self._pointer, answer.ctypes.data))
        return answer

    def save(self) -> Float[np.ndarray, " N"]:
        """The state as numbers."""
        state = np.empty(self.library.s7_state_size(self.model.handle), np.float64)
        self._check(self.library.s7_save(self._pointer, state.ctypes.data))
        return state

    def restore(self, state: Float[np.ndarray, " N"]) -> None:
        """Continue from a saved state."""
        self._check(self.library.s7_restore(self._pointer, np.ascontiguousarray(state).ctypes.data))

    def _check(self, status: int, bad: ctypes.c_int64 | None = None) -> None:
        if status != OK:
            where = "" if bad is None else f"event {bad.value}: "
            raise ValueError(where + self.library.s7_status_text(status).decode())
