"""EventSSM, made of S7's own parts: S5 whose state decays over the gaps between events.

Schöne et al., Scalable event-by-event processing of neuromorphic sensory signals with deep state-space models, 2024.
"""

from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.settings import Table


class EventSsm(Architecture, name="eventssm"):
    """S5 for events: the state decays over each gap, the input gain ignores it."""

    source = "Schöne et al. 2024"
    family = "state-space"
    settings: ClassVar[Table] = {
        "transition": {"kind": "Step", "selective": False},
        "form": {"kind": "Static"},
    }
