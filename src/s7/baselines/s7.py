"""S7 itself, under the name that commands use.

Soydan et al., S7: Selective and simplified state space layers for sequence modeling, 2024.
"""

from s7.baselines.architecture import Architecture


class S7(Architecture, name="s7"):
    """Selective state space with a stable reparameterization."""

    source = "Soydan et al. 2024"
    family = "s7"
