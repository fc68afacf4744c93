"""Runs the reference implementation with the parameters and settings of a layer."""

import numpy as np

from s7 import Factored, Plain, Ring, S7Layer, Stable, Step, reference


def numpy_parameters(parameters) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, np.float64) for name, value in parameters.items()}


def reference_of(layer: S7Layer):
    """The transition and the form of a layer, as arguments of `reference.layer`."""
    rates, maps = numpy_parameters(layer.rates), numpy_parameters(layer.maps)
    settings = layer.transition
    if isinstance(settings, Stable):
        transition = reference.stable(rates, settings.a, settings.b, settings.gain)
    elif isinstance(settings, Plain):
        transition = reference.plain(rates, settings.gain)
    elif isinstance(settings, Step):
        transition = reference.step(rates, settings.held)
    else:
        assert isinstance(settings, Ring)
        transition = reference.ring(rates)
    transition = reference.counting(transition) if settings.counting else transition
    make = reference.factored if isinstance(layer.form, Factored) else reference.full
    return transition, make(maps, layer.transition.complex_state)


def reference_call(layer: S7Layer, u, dt=None, state=None):
    """The outputs and the final state of the reference for this layer."""
    transition, form = reference_of(layer)
    initial = np.asarray(layer.init_state() if state is None else state)
    initial = initial.astype(np.result_type(initial.dtype, np.float64))
    gaps = None if dt is None else np.asarray(dt, np.float64)
    return reference.layer(np.asarray(u, np.float64), gaps, transition, form, initial)
