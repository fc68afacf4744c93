"""The linear recurrent unit, made of S7's own parts.

Orvieto et al., Resurrecting recurrent neural networks for long sequences, ICML 2023.
"""

from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.settings import Table


class Lru(Architecture, name="lru"):
    """Linear recurrent unit: eigenvalues initialized on a ring in the unit disc."""

    source = "Orvieto et al. 2023"
    family = "state-space"
    settings: ClassVar[Table] = {"transition": {"kind": "Ring"}, "form": {"kind": "Static"}}
