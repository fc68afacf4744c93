"""Several models on one task: the same data, the same budget, each seed a run of its own."""

from s7.contest.contest import Contest, Entrant
from s7.contest.tally import Tally

__all__ = ["Contest", "Entrant", "Tally"]
