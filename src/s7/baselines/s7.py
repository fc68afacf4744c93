"""S7 itself, under the name that commands use.

Soydan et al., S7: Selective and simplified state space layers for sequence modeling, 2024.
"""

from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.settings import Table


class S7(Architecture, name="s7"):
    """Selective state space with a stable reparameterization."""

    source = "Soydan et al. 2024"
    family = "s7"


class S7Full(Architecture, name="s7-full"):
    """S7 with the full form of B and C, whatever the form of the preset."""

    source = "Soydan et al. 2024"
    family = "s7"
    settings: ClassVar[Table] = {"form": {"kind": "Full"}}
