"""StableSSM, made of S7's own parts: a static diagonal state space with the stable reparameterization.

Wang & Li, StableSSM: Alleviating the curse of memory in state-space models through stable reparameterization,
ICML 2024.
"""

from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.settings import Table


class StableSsm(Architecture, name="stablessm"):
    """Time-invariant state space with real eigenvalues 1 - 1/(w² + 0.5)."""

    source = "Wang & Li 2024"
    family = "state-space"
    settings: ClassVar[Table] = {
        "transition": {"kind": "Stable", "selective": False, "gain": "none"},
        "form": {"kind": "Static"},
    }
