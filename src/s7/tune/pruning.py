"""Pruning: a trial ends early if it is not among the better half of the trials at the same rung.

A rung is a fraction of the training budget (see study/rungs.py), so trials are compared after equal budgets. The first
trials run to their end, since half of a few says little.
"""

import math
from collections.abc import Sequence

# Fractions of the budget at which trials are compared.
RUNGS = (0.25, 0.5)
# Trials that must have reached a rung before one is pruned there.
STARTUP = 4
# The fraction of trials that continue.
KEEP = 0.5


def is_promising(score: float, others: Sequence[float], startup: int = STARTUP, keep: float = KEEP) -> bool:
    """Whether a trial continues.

    Args:
        score: Its score at the rung; smaller is better.
        others: The scores of all other trials that reached the rung.
    """
    if len(others) < startup:
        return True
    better = sum(other < score for other in others)
    return better < math.ceil(keep * (len(others) + 1))
