"""The exported step, read back from its file, gives the outputs of the model."""

import json
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from safetensors import safe_open

import s7
from s7.export.edge import random_events
from s7.export.stablehlo import STATE, WITH_GAPS, WITHOUT_GAPS, write_stablehlo


def make_model(**settings) -> s7.S7Model:
    defaults: dict[str, Any] = {"encoder": s7.LinearEncoder(2), "head": s7.TimeMean(3), "stages": (s7.Stage(1, 3),)}
    return s7.S7Model(width=6, state=4, form=s7.Factored(rank=3), key=jax.random.key(0), **(defaults | settings))


@pytest.mark.parametrize("encoder", [s7.LinearEncoder(2), s7.EventEncoder((4, 3))], ids=str)
def test_the_step_read_back(tmp_path, encoder):
    model = make_model(encoder=encoder, time_unit=0.5)
    write_stablehlo(model, tmp_path)
    with safe_open(tmp_path / STATE, "numpy") as file:
        initial = [file.get_tensor(name) for name in json.loads(file.metadata()["order"])]
    events, gaps = random_events(model, 7)
    for name, dt in ((WITH_GAPS, gaps), (WITHOUT_GAPS, None)):
        program = jax.export.deserialize(bytearray((tmp_path / name).read_bytes()))
        call, state = jax.jit(program.call), initial
        for k, event in enumerate(events):
            answer, *state = call(event, *([] if dt is None else [dt[k]]), *state)
        expected = eqx.filter_jit(model)(events, dt)
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("settings", [{"bidirectional": True}, {"head": s7.Retrieval()}])
def test_models_without_a_step_are_refused(tmp_path, settings):
    with pytest.raises(ValueError, match=r"bidirectional|Retrieval"):
        write_stablehlo(make_model(**settings), tmp_path)
    assert list(tmp_path.iterdir()) == []
