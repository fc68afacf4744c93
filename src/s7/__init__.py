"""S7: selective state-space models for long, irregular and event-driven sequences.

Names are imported when they are first used: the command line answers at once, and `import s7` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from s7.version import __version__

if TYPE_CHECKING:
    from s7.backend_selection import backend, backends
    from s7.block import Block, BlockConfig
    from s7.checks import checked
    from s7.config import ModelConfig, Stage
    from s7.data import Samples, gaps, pack
    from s7.encoders import DenseEncoder, EventEncoder, ImageEncoder, LinearEncoder, TokenEncoder
    from s7.files import load, load_state, save, save_state
    from s7.forms import Factored, Full, Static
    from s7.heads import Last, Mean, PerStep, Retrieval, TimeMean
    from s7.inference import evaluate, predict, predict_proba
    from s7.layer import S7Layer
    from s7.model import S7Model
    from s7.stream import Stream
    from s7.tokens import detokenize, tokenize
    from s7.training.api import train
    from s7.transitions import Plain, Ring, Stable, Step

_PUBLIC = {
    "s7.block": ("Block", "BlockConfig"),
    "s7.checks": ("checked",),
    "s7.config": ("ModelConfig", "Stage"),
    "s7.data": ("Samples", "gaps", "pack"),
    "s7.encoders": ("DenseEncoder", "EventEncoder", "ImageEncoder", "LinearEncoder", "TokenEncoder"),
    "s7.tokens": ("detokenize", "tokenize"),
    "s7.files": ("load", "load_state", "save", "save_state"),
    "s7.forms": ("Factored", "Full", "Static"),
    "s7.heads": ("Last", "Mean", "PerStep", "Retrieval", "TimeMean"),
    "s7.inference": ("evaluate", "predict", "predict_proba"),
    "s7.layer": ("S7Layer",),
    "s7.model": ("S7Model",),
    "s7.stream": ("Stream",),
    "s7.backend_selection": ("backend", "backends"),
    "s7.training.api": ("train",),
    "s7.transitions": ("Plain", "Ring", "Stable", "Step"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
_MODULES = ("data", "events", "presets", "reference", "report", "tasks", "training")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = import_module(f"s7.{name}")
    else:
        raise AttributeError(f"module 's7' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


__all__ = [
    "Block",
    "BlockConfig",
    "DenseEncoder",
    "EventEncoder",
    "Factored",
    "Full",
    "ImageEncoder",
    "Last",
    "LinearEncoder",
    "Mean",
    "ModelConfig",
    "PerStep",
    "Plain",
    "Retrieval",
    "Ring",
    "S7Layer",
    "S7Model",
    "Samples",
    "Stable",
    "Stage",
    "Static",
    "Step",
    "Stream",
    "TimeMean",
    "TokenEncoder",
    "__version__",
    "backend",
    "backends",
    "checked",
    "detokenize",
    "evaluate",
    "gaps",
    "load",
    "load_state",
    "pack",
    "predict",
    "predict_proba",
    "save",
    "save_state",
    "tokenize",
    "train",
]
