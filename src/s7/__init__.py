"""S7: selective state-space models for long, irregular and event-driven sequences."""

from s7.block import Block, BlockConfig
from s7.checks import checked
from s7.config import ModelConfig, Stage
from s7.data import pack
from s7.encoders import EventEncoder, ImageEncoder, LinearEncoder, TokenEncoder
from s7.events.tokens import detokenize, tokenize
from s7.files import load, load_state, save, save_state
from s7.forms import Factored, Full, Static
from s7.heads import Last, Mean, PerStep, Retrieval, TimeMean
from s7.layer import S7Layer
from s7.model import S7Model
from s7.recurrence import backend, backends
from s7.transitions import Plain, Ring, Stable, Step

__version__ = "0.1.0"

__all__ = [
    "Block",
    "BlockConfig",
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
    "Stable",
    "Stage",
    "Static",
    "Step",
    "TimeMean",
    "TokenEncoder",
    "backend",
    "backends",
    "checked",
    "detokenize",
    "load",
    "load_state",
    "pack",
    "save",
    "save_state",
    "tokenize",
]
