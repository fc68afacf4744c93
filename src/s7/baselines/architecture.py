"""Architectures, which `--model` selects by name: settings of the model."""

from typing import Any, ClassVar

from s7.registry import Registered
from s7.sequence_layer import LayerKind
from s7.settings import Table


class Architecture(Registered, kind="model", package="s7.baselines"):
    """An architecture that commands select by name. Subclasses declare it and are not instantiated.

        class LstmModel(Architecture, name="lstm"):
            \"\"\"Long short-term memory.\"\"\"            # the summary that `s7 models` prints

            source = "Hochreiter & Schmidhuber 1997"
            family = "cells"
            settings = bare(Lstm)

    Attributes:
        source: The publication, as authors and year.
        family: Presets may hold a table of this name, which applies to every model of the family.
        settings: The model settings that the architecture stands for.
    """

    source: ClassVar[str] = ""
    family: ClassVar[str] = ""
    settings: ClassVar[Table] = {}


def layered(kind: type[LayerKind], **settings: Any) -> Table:
    """The settings of a model with another layer in place of S7, in the same blocks."""
    return {"layer": {"kind": kind.registry.name_of(kind)}} | settings


def bare(kind: type[LayerKind], **settings: Any) -> Table:
    """The settings of a model whose layers stand alone, as cells are published: no norm, gate or skip connection."""
    return layered(kind, norm="none", gate=False, skip=False, **settings)
