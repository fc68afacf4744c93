"""The step of a model as an ONNX graph with explicit state.

    inputs     event, dt (in a model that reads gaps), and the arrays of the state: blocks.0.x, …, head.mean, …
    outputs    answer, and the next state under the same names with the prefix "next."

All arrays of the state are zero before the first event. Single numbers have the shape (1,). A complex state of size P
has 2P rows, its real and its imaginary parts. The answer is that of `model.step`: the output for all events so far.
"""

import importlib.util
import json
import math
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from s7.block import Block
from s7.encoders import DenseEncoder, EventEncoder, ImageEncoder, LinearEncoder, TokenEncoder
from s7.export.onnx_graph import Graph
from s7.export.onnx_layer import layer_step, normalised
from s7.heads import Last, Mean, PerStep, TimeMean
from s7.layer import S7Layer
from s7.model import S7Model
from s7.storage import write_atomically

NEXT = "next."


def write_onnx(model: S7Model, path: str | PathLike, *, gaps: bool | None = None) -> None:
    """Write the step of a model as an ONNX file.

    Args:
        model: A causal float32 model of S7 layers with a head other than `Retrieval`.
        path: The file to write.
        gaps: Whether the step has an input `dt`, the gap before the event in the unit of the training data. By default
            it has one if the model has a unit of time, which models that were trained on data with gaps have. A model
            that ignores gaps never has one.

    Raises:
        ValueError: The model has no step, or has a part that cannot be written.
        ModuleNotFoundError: The package onnx is not installed.
    """
    if importlib.util.find_spec("onnx") is None:
        raise ModuleNotFoundError("ONNX files need onnx, which is missing; pip install 's7-ssm[onnx]'")
    config = model.config
    _check(model)
    graph = _Step(Graph())
    event = _event(graph, model)
    timed, gap = _gap(graph, model, config.time_unit is not None if gaps is None else gaps)
    signal = _encode(graph.graph, model, event)
    complete = None
    for number, block in enumerate(model.blocks):
        signal, gap, complete = _block(graph, f"blocks.{number}", block, signal, gap, complete, timed)
    features = _features(graph, model, signal, gap, complete)
    head = config.head
    answer = graph.graph.add(graph.graph.linear(model.head["W"], features), np.asarray(model.head["c"]))
    scale, mean = (np.broadcast_to(np.asarray(units, np.float32), head.outputs) for units in (head.scale, head.mean))
    answer = graph.graph.add(graph.graph.multiply(answer, scale), mean)
    graph.graph.output("answer", answer, np.float32, (head.outputs,))
    for name, (value, dtype, shape) in graph.after.items():
        graph.graph.output(NEXT + name, value, dtype, shape)
    metadata = {"state": json.dumps(list(graph.after))}
    if config.classes:
        metadata["classes"] = json.dumps(list(config.classes))
    write_atomically(Path(path), graph.graph.serialized(metadata))


class _Step:
    """The graph of a step with its state."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.after: dict[str, tuple[str, type, tuple[int, ...]]] = {}

    def state(self, name: str, dtype: type, shape: tuple[int, ...]) -> str:
        """Declare an array of the state and return its value before the event."""
        self.after[name] = name, dtype, shape
        return self.graph.input(name, dtype, shape)

    def set(self, name: str, value: str, complete: str | None) -> None:
        """Set the value after the event. It stays as it was unless the event is complete; None means that it is."""
        _, dtype, shape = self.after[name]
        kept = value if complete is None else self.graph.apply("Where", complete, value, name)
        self.after[name] = kept, dtype, shape

    def averaged(self, place: str, width: int, value: str, weight: str) -> dict[str, str]:
        """Add a value to a weighted mean in the state. Returns the arrays of the mean after it by their names."""
        graph = self.graph
        mean = self.state(f"{place}.mean", np.float32, (width,))
        total = graph.add(self.state(f"{place}.weight", np.float32, (1,)), weight)
        number = graph.add(self.state(f"{place}.number", np.float32, (1,)), 1.0)
        # While all weights are zero, the mean is unweighted.
        weighted = graph.positive(total)
        by_weight = graph.divide(weight, graph.where(weighted, total, 1.0))
        share = graph.where(weighted, by_weight, graph.divide(1.0, number))
        mean = graph.add(mean, graph.multiply(graph.subtract(value, mean), share))
        return {f"{place}.mean": mean, f"{place}.weight": total, f"{place}.number": number}


def _check(model: S7Model) -> None:
    config = model.config
    if config.dtype != "float32":
        raise ValueError(f"ONNX files are written for float32 models, this one is {config.dtype}")
    if config.head.documents > 1:
        raise ValueError("the Retrieval head compares two sequences; its step cannot be exported")
    for block in model.blocks:
        if block.backward is not None:
            raise ValueError("a bidirectional model has no step: it reads the sequence from its end too")
        if type(block.layer) is not S7Layer:
            name = type(block.layer if block.config.layer is None else block.config.layer).__name__
            raise ValueError(f"only S7 layers can be written as ONNX, not {name}")


def _event(step: _Step, model: S7Model) -> str:
    encoder: Any = model.config.encoder
    tokens = hasattr(encoder, "size")
    if not tokens:
        return step.graph.input("event", np.float32, tuple(encoder.event_shape))
    return step.graph.reshape(step.graph.input("event", np.int64, (1,)), ())


def _gap(step: _Step, model: S7Model, given: bool) -> tuple[bool, str]:
    """Whether there are gaps, and the gap in the model's unit of time (1 in regular time)."""
    config = model.config
    unit = np.float32(1.0 if config.time_unit is None else config.time_unit)
    if given and config.gaps != "ignored":
        return True, step.graph.divide(step.graph.input("dt", np.float32, (1,)), unit)
    if config.dt is not None:
        return True, step.graph.constant(np.float32(config.dt) / unit)
    return False, step.graph.constant(1.0)


def _encode(graph: Graph, model: S7Model, event: str) -> str:
    encoder: Any = model.config.encoder
    weights = {name: np.asarray(array) for name, array in model.encoder.items()}

    def row(table: str, index: str) -> str:
        return graph.apply("Gather", graph.constant(weights[table]), index)

    if type(encoder) is TokenEncoder:
        return row("token", event)
    if type(encoder) is EventEncoder:
        two, height = (graph.constant(number, np.int64) for number in (2, encoder.sensor[1]))
        pixel = graph.apply("Div", event, two)
        index = {"token": event, "x": graph.apply("Div", pixel, height), "y": graph.apply("Mod", pixel, height)}
        index["polarity"] = graph.apply("Mod", event, two)
        first, *others = [row(name, index[name]) for name in weights]
        for other in others:
            first = graph.add(first, other)
        return first
    if type(encoder) is LinearEncoder:
        mean, scale = (
            np.broadcast_to(np.asarray(units, np.float32), encoder.inputs) for units in (encoder.mean, encoder.scale)
        )
        features = graph.divide(graph.subtract(event, mean), scale)
    elif type(encoder) is DenseEncoder:
        flat = graph.divide(graph.reshape(event, (math.prod(encoder.shape),)), encoder.scale)
        features = graph.apply("Relu", graph.add(graph.linear(weights["W1"], flat), weights["c1"]))
    elif type(encoder) is ImageEncoder:
        features = _pictures(graph, encoder, weights, event)
    else:
        raise ValueError(f"the encoder {type(encoder).__name__} cannot be written as ONNX")
    return graph.add(graph.linear(weights["W"], features), weights["c"])


def _pictures(graph: Graph, encoder: ImageEncoder, weights: dict[str, np.ndarray], event: str) -> str:
    """The convolutions of the image encoder."""
    height, breadth, colours = encoder.shape
    z = graph.reshape(graph.divide(event, encoder.scale), (1, height, breadth, colours))
    z = graph.apply("Transpose", z, perm=[0, 3, 1, 2])
    for kernel, bias, stride in (("conv1", "c1", 1), ("conv2", "c2", 2)):
        W = graph.constant(weights[kernel].transpose(3, 2, 0, 1))
        z = graph.apply("Conv", z, W, auto_pad="SAME_UPPER", strides=[stride, stride])
        z = graph.apply("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        z = graph.apply("Relu", graph.add(z, weights[bias].reshape(1, -1, 1, 1)))
    return graph.reshape(graph.apply("Transpose", z, perm=[0, 2, 3, 1]), (weights["W"].shape[1],))


def _block(
    step: _Step, place: str, block: Block, u: str, gap: str, complete: str | None, timed: bool
) -> tuple[str, str, str | None]:
    """The output of a block, its gap, and whether it is final or that of an unfinished window."""
    graph, before = step.graph, block.config.norm_place == "before"
    read = normalised(graph, block.norm, u) if before else u
    assert isinstance(block.layer, S7Layer)
    rows = block.layer.state * (2 if block.layer.transition.complex_state else 1)
    z, x = layer_step(graph, block.layer, read, step.state(f"{place}.x", np.float32, (rows,)), gap, timed)
    step.set(f"{place}.x", x, complete)
    skip, above = u, complete
    if block.stride > 1:
        skip, window_gap, above = _window(step, f"{place}.window", block, u, gap, complete)
        gap = window_gap if timed else gap  # in regular time every window counts as one step
    if block.gate is not None:
        opened = graph.add(graph.linear(block.gate.W, _gelu(graph, z)), np.asarray(block.gate.c))
        z = graph.multiply(z, graph.apply("Sigmoid", opened))
    if block.config.skip:
        z = graph.add(skip, z)
    if not before:
        z = normalised(graph, block.norm, z)
    if block.project is not None:
        z = graph.add(graph.linear(block.project.W, z), np.asarray(block.project.c))
    return z, gap, above


def _gelu(graph: Graph, x: str) -> str:
    """x (1 + tanh(sqrt(2 / π) (x + 0.044715 x³))) / 2, the form that JAX uses."""
    cubed = graph.multiply(graph.multiply(x, x), x)
    inner = graph.multiply(graph.add(x, graph.multiply(cubed, 0.044715)), math.sqrt(2 / math.pi))
    return graph.multiply(graph.multiply(x, graph.add(graph.apply("Tanh", inner), 1.0)), 0.5)


def _window(step: _Step, place: str, block: Block, u: str, gap: str, complete: str | None) -> tuple[str, str, str]:
    """Add an event to the window. Returns what the skip adds, the window's gap, and whether the output is final."""
    graph = step.graph
    total = graph.add(step.state(f"{place}.gap", np.float32, (1,)), gap)
    events = graph.add(step.state(f"{place}.events", np.float32, (1,)), 1.0)
    full = graph.apply("Equal", events, graph.constant(float(block.stride)))
    after, skip = {f"{place}.gap": total, f"{place}.events": events}, u
    if block.pool != "last":
        weight = gap if block.pool == "time" else graph.constant(1.0)
        after |= step.averaged(place, block.layer.width, u, weight)
        skip = after[f"{place}.mean"]
    for name, value in after.items():
        emptied = graph.where(full, np.zeros(step.after[name][2]), value)  # a full window is followed by an empty one
        step.set(name, emptied, complete)
    return skip, total, full if complete is None else graph.apply("And", full, complete)


def _features(step: _Step, model: S7Model, signal: str, gap: str, complete: str | None) -> str:
    """What the head reads after this event."""
    head = model.config.head
    if type(head) in (Last, PerStep):
        step.state("head.last", np.float32, (model.out_width,))
        step.set("head.last", signal, complete)
        return signal
    if type(head) not in (Mean, TimeMean):
        raise ValueError(f"the head {type(head).__name__} cannot be written as ONNX")
    weight = gap if type(head) is TimeMean else step.graph.constant(1.0)
    after = step.averaged("head", model.out_width, signal, weight)
    for name, value in after.items():
        step.set(name, value, complete)
    return after["head.mean"]
