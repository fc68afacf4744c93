"""The S7 layer and the norms on one event, as parts of an ONNX graph."""

from typing import Any

import numpy as np

from s7.export.onnx_graph import Graph
from s7.forms import Factored, Full, Static
from s7.layer import S7Layer
from s7.norm import EPSILON, BatchNorm, LayerNorm, NoNorm, RMSNorm
from s7.transitions import Plain, Ring, Stable, Step


def normalised(graph: Graph, norm: Any, u: str) -> str:
    """The normalised vector."""
    if type(norm) is NoNorm:
        return u
    if type(norm) is BatchNorm:
        factor = np.asarray(norm.scale) / np.sqrt(np.asarray(norm.running.variance) + np.float32(EPSILON))
        centred = graph.subtract(u, np.asarray(norm.running.mean))
        return graph.add(graph.multiply(centred, factor), np.asarray(norm.shift))
    if type(norm) not in (LayerNorm, RMSNorm):
        raise ValueError(f"the norm {type(norm).__name__} cannot be written as ONNX")
    if type(norm) is LayerNorm:
        u = graph.subtract(u, graph.apply("ReduceMean", u, axes=[0], keepdims=1))
    variance = graph.apply("ReduceMean", graph.multiply(u, u), axes=[0], keepdims=1)
    u = graph.divide(u, graph.apply("Sqrt", graph.add(variance, EPSILON)))
    u = graph.multiply(u, np.asarray(norm.scale))
    return graph.add(u, np.asarray(norm.shift)) if type(norm) is LayerNorm else u


def layer_step(graph: Graph, layer: S7Layer, u: str, x: str, gap: str, timed: bool) -> tuple[str, str]:
    """The output y_k and the state x_k, as rows, from the layer's input and the state before it."""
    transition: Any = layer.transition
    if type(transition) not in (Stable, Plain, Step, Ring):
        raise ValueError(f"the transition {type(transition).__name__} cannot be written as ONNX")
    w = graph.constant(layer.rates["w"])
    if transition.selective:
        w = graph.add(graph.linear(layer.rates["W_w"], u), w)
    input = _input(graph, layer, u)
    if timed and transition.counting:
        counts = (np.arange(layer.state) % 2).astype(np.float32)
        gap = graph.add(graph.multiply(gap, 1 - counts), counts)
    if transition.complex_state:
        x = _rotate(graph, layer, w, input, x, gap if timed else None)
    else:
        x = _decay(graph, transition, w, input, x, gap if timed else None)
    return _output(graph, layer, u, x), x


def _input(graph: Graph, layer: S7Layer, u: str) -> str:
    """B_k u_k + b."""
    form, maps = layer.form, layer.maps
    if type(form) not in (Static, Full, Factored):
        raise ValueError(f"the form {type(form).__name__} cannot be written as ONNX")
    input = graph.linear(maps["B"], u)
    if "W_B" in maps:
        input = graph.add(input, graph.bilinear(maps["W_B"], u, u))
    if "V1" in maps:
        factors = graph.multiply(graph.linear(maps["V1"], u), graph.linear(maps["V2"], u))
        input = graph.add(input, graph.linear(maps["V3"], factors))
    return graph.add(input, np.asarray(maps["b"])) if "b" in maps else input


def _output(graph: Graph, layer: S7Layer, u: str, x: str) -> str:
    """C_k x_k + D_k u_k."""
    maps, form = layer.maps, layer.form
    y = graph.linear(maps["C"], x)
    if "W_C" in maps:
        y = graph.add(y, graph.bilinear(maps["W_C"], u, x))
    if "U1" in maps:
        factors = graph.multiply(graph.linear(maps["U1"], x), graph.linear(maps["U2"], u))
        y = graph.add(y, graph.linear(maps["U3"], factors))
    if form.D == "full":
        return graph.add(y, graph.add(graph.linear(maps["D"], u), graph.bilinear(maps["W_D"], u, u)))
    D = graph.constant(maps["D"])
    if form.D == "diagonal":
        D = graph.add(graph.linear(maps["W_D"], u), D)
    return graph.add(y, graph.multiply(D, u))


def _decay(graph: Graph, transition: Any, w: str, input: str, x: str, gap: str | None) -> str:
    """a_k x + g_k input for real states; `gap` is None in regular time."""
    rate = _rate(graph, transition, w) if type(transition) is Stable else graph.subtract(1.0, w)
    a = graph.subtract(1.0, rate)
    if gap is not None:
        a = graph.apply("Exp", graph.multiply(graph.apply("Neg", rate), gap))
    if transition.gain == "rate":
        input = graph.multiply(input, rate)
    if transition.gain == "variance":
        # r (2 - r) is 1 - (1 - r)².
        lost = graph.multiply(rate, graph.subtract(2.0, rate)) if gap is None else _lost_in_a_unit(graph, rate)
        input = graph.multiply(input, _root(graph, lost))
    return graph.add(graph.multiply(a, x), input)


def _rotate(graph: Graph, layer: S7Layer, w: str, input: str, x: str, gap: str | None) -> str:
    """a_k x + g_k input for complex states, as rows of real and imaginary parts."""
    transition: Any = layer.transition
    omega = np.asarray(layer.rates["omega"])
    one = graph.constant(1.0)
    if type(transition) is Step:
        decay = np.maximum(np.exp(np.asarray(layer.rates["decay"], np.float64)), 1e-4)
        size = graph.apply("Softplus", w)
        rate, frequency = graph.multiply(size, decay), graph.multiply(size, omega)
        a = _turned(graph, rate, frequency, one if gap is None else gap)
        unit = a if gap is None or transition.held else _turned(graph, rate, frequency, one)
        inverse = 1 / (-decay + 1j * omega.astype(np.float64))
        moved = graph.subtract(unit[0], 1.0), unit[1]
        gain = _product(graph, moved, (graph.constant(inverse.real), graph.constant(inverse.imag)))
        driven = _product(graph, _parts(graph, input), gain)
    else:
        rate = _rate(graph, transition, w) if type(transition) is Stable else graph.apply("Exp", w)
        a = _turned(graph, rate, graph.constant(omega), one if gap is None else gap)
        kind = "variance" if type(transition) is Ring else transition.gain
        real, imaginary = _parts(graph, input)
        if kind is not None:
            factor = rate if kind == "rate" else _root(graph, _lost_in_a_unit(graph, rate))
            real, imaginary = graph.multiply(real, factor), graph.multiply(imaginary, factor)
        driven = real, imaginary
    kept = _product(graph, a, _parts(graph, x))
    return graph.apply("Concat", *(graph.add(old, new) for old, new in zip(kept, driven, strict=True)), axis=0)


def _rate(graph: Graph, transition: Stable, w: str) -> str:
    """1 / (a w² + b)."""
    return graph.divide(1.0, graph.add(graph.multiply(graph.multiply(w, w), transition.a), transition.b))


def _turned(graph: Graph, rate: str, frequency: str, gap: str) -> tuple[str, str]:
    """exp((-rate + i frequency) gap)."""
    modulus = graph.apply("Exp", graph.multiply(graph.apply("Neg", rate), gap))
    angle = graph.multiply(frequency, gap)
    return tuple(graph.multiply(modulus, graph.apply(name, angle)) for name in ("Cos", "Sin"))  # type: ignore[return-value]


def _parts(graph: Graph, rows: str) -> tuple[str, str]:
    """The real and the imaginary parts."""
    both = graph.reshape(rows, (2, -1))
    return tuple(graph.apply("Gather", both, graph.constant(n, np.int64)) for n in (0, 1))  # type: ignore[return-value]


def _product(graph: Graph, first: tuple[str, str], second: tuple[str, str]) -> tuple[str, str]:
    """The product of complex numbers."""
    real = graph.subtract(graph.multiply(first[0], second[0]), graph.multiply(first[1], second[1]))
    return real, graph.add(graph.multiply(first[0], second[1]), graph.multiply(first[1], second[0]))


def _lost_in_a_unit(graph: Graph, rate: str) -> str:
    """1 - exp(-2 rate) = tanh(rate) (1 + exp(-2 rate)), without cancellation."""
    kept = graph.apply("Exp", graph.multiply(rate, -2.0))
    return graph.multiply(graph.apply("Tanh", rate), graph.add(kept, 1.0))


def _root(graph: Graph, value: str) -> str:
    """The square root; zero where the value is negative."""
    return graph.apply("Sqrt", graph.apply("Relu", value))
