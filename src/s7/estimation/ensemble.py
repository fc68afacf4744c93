"""A fitted ensemble: models with what is done to series before they read them."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from s7.estimation.random_states import RandomStates, outputs_of
from s7.inference import outputs_for
from s7.model import S7Model
from s7.series.collection import Collection
from s7.series.preparation import Preparation


class Member(eqx.Module):
    """One model of an ensemble.

    Attributes:
        model: An S7Model or RandomStates.
        preparation: What is done to series before the model reads them.
        weight: The share of the model in the answer of the ensemble.
        temperature: The divisor of its logits; 1 in regression.
        others: Random states that read the series differently and were fitted together with the model, whose own
            outputs are added to theirs.
    """

    model: eqx.Module
    preparation: Preparation = eqx.field(static=True)
    weight: float = eqx.field(static=True, default=1.0)
    temperature: float = eqx.field(static=True, default=1.0)
    others: tuple["Member", ...] = ()

    def outputs(self, series: Collection, name: str = "x") -> Any:
        """The outputs: (N, outputs), or a list of (steps, outputs) with one output per step."""
        samples = self.preparation(series, name=name)
        if not isinstance(self.model, RandomStates):
            return outputs_for(self.model, samples)
        return sum((other.outputs(series, name) for other in self.others), outputs_of(self.model, samples))


class Ensemble(eqx.Module):
    """Models whose answers are averaged: probabilities in classification, numbers in regression.

    Attributes:
        members: The models. Their weights sum to 1.
        classes: The labels, in the order of the outputs; empty in regression.
        channels: The names of the channels that the series have.
        per_step: Whether there is one answer per step.
    """

    members: tuple[Member, ...]
    classes: tuple[Any, ...] = eqx.field(static=True)
    channels: tuple[str, ...] = eqx.field(static=True)
    per_step: bool = eqx.field(static=True, default=False)

    def __call__(self, series: Collection, name: str = "x") -> Any:
        """The answers.

        Args:
            series: The series.
            name: What they are called in error messages.

        Returns:
            Probabilities (N, classes), or numbers (N, outputs). With one answer per step, a list of N arrays
            (steps, classes or outputs). Steps without any value repeat the answer before them.
        """
        total: Any = None
        for member in self.members:
            found = member.outputs(series, name)
            parts = found if self.per_step else [found]
            if self.classes:
                parts = [softmax(part.astype(float) / member.temperature, -1) for part in parts]
            parts = [member.weight * part for part in parts]
            total = parts if total is None else [one + two for one, two in zip(total, parts, strict=True)]
        if not self.per_step:
            return total[0]
        return [_at_every_step(answer, part) for answer, part in zip(total, series.values, strict=True)]

    @property
    def selective(self) -> Member | None:
        """The S7 model with the largest weight, of which the selection can be looked at."""
        trained = [member for member in self.members if isinstance(member.model, S7Model)]
        return max(trained, key=lambda member: member.weight, default=None)

    @property
    def parameter_count(self) -> int:
        """The number of parameters of all members."""
        arrays = eqx.filter(self.members, eqx.is_inexact_array)
        return sum(q.size for q in jax.tree.leaves(arrays))


def _at_every_step(answers: Float[np.ndarray, "K O"], values: Float[np.ndarray, "L C"]) -> Float[np.ndarray, "L O"]:
    known = ~np.isnan(values).all(1)
    return answers[np.maximum(np.cumsum(known) - 1, 0)]
