"""Prediction of the next token: a task that needs no labels, from which a model can start on one that has few."""

from dataclasses import replace

import numpy as np

import s7
from s7.data.samples import Samples
from s7.tasks.task import Problem, most_frequent


def next_token(train: Samples, valid: Samples, test: Samples, encoder: "s7.TokenEncoder") -> Problem:
    """The sequences of a task, each token with the one after it as its target.

    Args:
        train: The training sequences; their targets are not used.
        valid: The validation sequences.
        test: The test sequences.
        encoder: The encoder of the tokens.
    """
    train, valid, test = (shifted(samples) for samples in (train, valid, test))
    tokens = encoder.tokens
    baselines = most_frequent(train, test, tokens)
    return Problem(
        train,
        valid,
        test,
        encoder=encoder,
        head=s7.PerStep(tokens),
        objective=s7.CrossEntropy(tokens),
        baselines={name.replace("class", "token"): values for name, values in baselines.items()},
    )


def shifted(samples: Samples) -> Samples:
    """The samples with the next token as the target of each. Nothing follows the last, which does not count."""
    counts = np.ones(len(samples.inputs), bool)
    counts[samples.offsets[1:] - 1] = False
    return replace(samples, targets=np.roll(samples.inputs, -1).astype(np.int32), counts=counts, per_step=True)
