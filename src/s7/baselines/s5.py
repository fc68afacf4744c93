"""S5, made of S7's own parts: static matrices and a static step size, with zero-order hold.

Smith, Warrington & Linderman, Simplified state space layers for sequence modeling, ICLR 2023.
"""

from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.settings import Table


class S5(Architecture, name="s5"):
    """Time-invariant state space with zero-order hold."""

    source = "Smith et al. 2023"
    family = "state-space"
    settings: ClassVar[Table] = {
        "transition": {"kind": "Step", "selective": False, "held": True},
        "form": {"kind": "Static"},
    }
