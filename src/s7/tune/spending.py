"""The time of a search: the wall-clock time of all trials of all workers, and what is left of `--minutes`.

Every trial has its time in the storage, its worker updates it while the trial runs, and a trial that was put back and
resumed counts with all its parts. So all workers see the same sum, also those that join later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# The attributes of a trial: its own seconds, and those of the trials that it continues.
SECONDS, EARLIER = "seconds", "earlier"


@dataclass(frozen=True)
class Spending:
    """The time of a search at one moment, in seconds.

    Attributes:
        trials: All trials, as Optuna has them.
        total: The time of all trials together; None for no limit.
        trial: The time that a trial is expected to take.
    """

    trials: Sequence[Any]
    total: float | None
    trial: float

    def __str__(self) -> str:
        if self.left is None or self.total is None:
            return "no limit of time"
        return f"{self.left / 60:.1f} of {self.total / 60:g} min left"

    @property
    def spent(self) -> float:
        """The time of all trials so far."""
        return sum(trial.user_attrs.get(SECONDS, 0.0) for trial in self.trials)

    @property
    def left(self) -> float | None:
        """The time that is left; None for no limit."""
        return None if self.total is None else max(0.0, self.total - self.spent)

    @property
    def pace(self) -> int:
        """The number of trials that run at this moment: the seconds that are spent in a second."""
        return len(self._in("RUNNING"))

    @property
    def has_room(self) -> bool:
        """Whether another trial can end in time, beside those that are running. The first one always has room."""
        left, waiting = self.left, self._in("WAITING")
        if left is None or len(waiting) == len(self.trials):
            return True
        needed = self._remaining(waiting[0]) if waiting else self.trial
        return left > 0 and left >= needed + sum(map(self._remaining, self._in("RUNNING")))

    def _in(self, state: str) -> list[Any]:
        return [trial for trial in self.trials if trial.state.name == state]

    def _remaining(self, trial: Any) -> float:
        """The time that a trial still needs."""
        done = trial.user_attrs.get(SECONDS, 0.0) + trial.user_attrs.get(EARLIER, 0.0)
        return max(0.0, self.trial - done)
