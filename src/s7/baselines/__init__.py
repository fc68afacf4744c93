"""Peers of S7: other layers in the same frame, and the settings that make S7 one of them.

`ARCHITECTURES` has each by the name that `--model` takes. One that is not made of S7's own parts is a file here: a
`LayerKind`, settings of a layer, which the block runs in the place of S7.
"""

from typing import NamedTuple

from s7.baselines.augmented_lstm import AugmentedLstm
from s7.baselines.cfc import Cfc
from s7.baselines.chrono_lstm import ChronoLstm
from s7.baselines.cornn import CoRnn
from s7.baselines.ct_gru import CtGru
from s7.baselines.ct_lstm import CtLstm
from s7.baselines.ct_rnn import CtRnn
from s7.baselines.exprnn import ExpRnn
from s7.baselines.fastgrnn import FastGrnn
from s7.baselines.gru import Gru
from s7.baselines.gru_d import GruD
from s7.baselines.gru_ode import GruOde
from s7.baselines.indrnn import IndRnn
from s7.baselines.lem import Lem
from s7.baselines.lipschitz_rnn import LipschitzRnn
from s7.baselines.lstm import Lstm
from s7.baselines.mamba import Mamba
from s7.baselines.ode_lstm import OdeLstm
from s7.baselines.ode_rnn import OdeRnn
from s7.baselines.phased_lstm import PhasedLstm
from s7.baselines.rnn import Rnn
from s7.baselines.rnn_decay import RnnDecay
from s7.baselines.s4d import S4d
from s7.baselines.transformer import Transformer
from s7.baselines.unicornn import UniCornn
from s7.sequence_layer import LayerKind
from s7.settings import Table

LAYERS: tuple[type[LayerKind], ...] = (
    *(Rnn, Lstm, ChronoLstm, AugmentedLstm, Gru, IndRnn, FastGrnn, ExpRnn),
    *(RnnDecay, GruD, PhasedLstm, CtRnn, CtGru, CtLstm, OdeRnn, OdeLstm, GruOde, Cfc),
    *(CoRnn, UniCornn, Lem, LipschitzRnn),
    *(S4d, Mamba, Transformer),
)


class Architecture(NamedTuple):
    """What `--model` names: in a few words, where it comes from, the settings it stands for, and its family.

    Models of a family share what a task's presets say under the family's name.
    """

    summary: str
    source: str
    model: Table
    family: str


def _state_space(summary: str, source: str, **model) -> Architecture:
    return Architecture(summary, source, model, "state-space")


def _cell(kind: str, summary: str, source: str, **model) -> Architecture:
    """As published: the cell reads the encoder's output and the head reads the cell's, with nothing around it."""
    bare = {"norm": "none", "gate": False, "skip": False}
    return Architecture(summary, source, {"layer": {"kind": kind}} | bare | model, "cells")


ARCHITECTURES: dict[str, Architecture] = {
    "s7": Architecture("selective state space, stable by its parameterisation", "Soydan et al. 2024", {}, "s7"),
    "s5": _state_space(
        "a static spectrum, the input held between samples",
        "Smith et al. 2023",
        transition={"kind": "Step", "selective": False, "held": True},
        form={"kind": "Static"},
    ),
    "eventssm": _state_space(
        "S5 for events: the state decays over each gap, the event enters whole",
        "Schöne et al. 2024",
        transition={"kind": "Step", "selective": False},
        form={"kind": "Static"},
    ),
    "s4d": _state_space(
        "a diagonal state space for each channel",
        "Gu et al. 2022",
        layer={"kind": "S4d"},
        state=16,
    ),
    "lru": _state_space(
        "states on a ring in the unit disc",
        "Orvieto et al. 2023",
        transition={"kind": "Ring"},
        form={"kind": "Static"},
    ),
    # Its mixer has a gate of its own.
    "mamba": _state_space(
        "S6: each channel's step follows the input",
        "Gu & Dao 2023",
        layer={"kind": "Mamba"},
        state=16,
        gate=False,
    ),
    "lstm": _cell("Lstm", "long short-term memory", "Hochreiter & Schmidhuber 1997"),
    "gru": _cell("Gru", "gated recurrent unit", "Cho et al. 2014"),
    "chrono-lstm": _cell("ChronoLstm", "LSTM whose gates start at a range of time scales", "Tallec & Ollivier 2018"),
    "augmented-lstm": _cell("AugmentedLstm", "LSTM that reads the gap as one more input", "Lechner & Hasani 2020"),
    "bi-rnn": _cell("Rnn", "a plain network from both ends", "Schuster & Paliwal 1997", bidirectional=True),
    "rnn-decay": _cell("RnnDecay", "its state decays between events", "Rubanova et al. 2019"),
    "gru-d": _cell("GruD", "GRU whose state decays between events", "Che et al. 2018"),
    "phased-lstm": _cell("PhasedLstm", "LSTM whose units open periodically", "Neil et al. 2016"),
    "ct-rnn": _cell("CtRnn", "a network in continuous time", "Funahashi & Nakamura 1993"),
    "ct-gru": _cell("CtGru", "GRU with memories at several time scales", "Mozer et al. 2017"),
    "ct-lstm": _cell("CtLstm", "LSTM whose memory relaxes between events", "Mei & Eisner 2017"),
    "ode-lstm": _cell("OdeLstm", "LSTM whose output follows an equation", "Lechner & Hasani 2020"),
    "ode-rnn": _cell("OdeRnn", "its state follows an equation between events", "Rubanova et al. 2019"),
    "gru-ode": _cell("GruOde", "GRU as an equation in time", "De Brouwer et al. 2019"),
    "cfc": _cell("Cfc", "closed-form continuous-time network", "Hasani et al. 2022"),
    "cornn": _cell("CoRnn", "coupled, damped oscillators", "Rusch & Mishra 2021"),
    "unicornn": _cell("UniCornn", "independent undamped oscillators", "Rusch & Mishra 2021"),
    "lem": _cell("Lem", "long expressive memory: two states, each with its time scale", "Rusch et al. 2022"),
    "indrnn": _cell("IndRnn", "units that know of themselves alone", "Li et al. 2018"),
    "fastgrnn": _cell("FastGrnn", "a gate that shares its matrices with the state", "Kusupati et al. 2018"),
    "lipschitz-rnn": _cell("LipschitzRnn", "an equation with a bounded rate of growth", "Erichson et al. 2021"),
    "exprnn": _cell("ExpRnn", "an orthogonal recurrent matrix", "Lezcano-Casado & Martínez-Rubio 2019"),
    "transformer": Architecture(
        "causal attention, for scale",
        "Vaswani et al. 2017",
        {"layer": {"kind": "Transformer"}, "gate": False},
        "transformer",
    ),
}

__all__ = ["ARCHITECTURES", "LAYERS", "Architecture"]
