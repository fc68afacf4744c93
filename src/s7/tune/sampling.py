"""The sampler of a search, which proposes the settings of a trial. Optuna is imported on use."""

from typing import Any
from zlib import crc32

# Trials with random settings before the sampler learns from them.
RANDOM = 8


def sampler(seed: int) -> Any:
    """A sampler whose choices are a function of the seed, the number of the trial and the trials so far.

    Workers of one search therefore never draw the same settings.
    """
    from optuna.samplers import BaseSampler, TPESampler

    class PerTrial(BaseSampler):
        """Makes a multivariate TPE sampler for each trial."""

        def _tpe(self, trial: Any) -> TPESampler:
            return TPESampler(seed=(seed + trial.number) % 2**32, multivariate=True, n_startup_trials=RANDOM)

        def infer_relative_search_space(self, study, trial):
            return self._tpe(trial).infer_relative_search_space(study, trial)

        def sample_relative(self, study, trial, search_space):
            return self._tpe(trial).sample_relative(study, trial, search_space)

        def sample_independent(self, study, trial, param_name, param_distribution):
            own = crc32(param_name.encode())  # otherwise all settings would get the same random number
            tpe = TPESampler(seed=(seed + trial.number + own) % 2**32, n_startup_trials=RANDOM)
            return tpe.sample_independent(study, trial, param_name, param_distribution)

    return PerTrial()
