"""Fitting an ensemble to series: random states with a closed-form readout, and trained S7 models.

Each trained model leaves out one fold of the training data, which it is validated on. The share of the trained models
is the one with the smallest loss on all data that were left out; random states have leave-one-out predictions of their
own. So everything is chosen on training data, by cross-validation.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from s7.data.samples import Samples
from s7.estimation import ridge
from s7.estimation.defaults import Plan, Traits, head_for, members_for, plan_for
from s7.estimation.ensemble import Ensemble, Member
from s7.estimation.random_states import RandomStates, features_of, random_states, with_thresholds
from s7.series.collection import Collection
from s7.series.preparation import Preparation
from s7.training.api import train
from s7.training.callbacks import Callback
from s7.training.objectives import CrossEntropy, MeanSquared

# Random kernels of each bank of random states, in each direction of time.
KERNELS = 42
# Trained models leave out one of this many folds, if there are not more models.
FOLDS = 5
# The smallest temperature: no answer is more certain than a data set of moderate size can justify.
SHARPEST = 0.2
# With fewer samples than this, single epochs are not compared: the last average of the weights is kept.
ENOUGH_TO_VALIDATE = 40
# With fewer samples per class than this, leave-one-out errors say little: a class may lose half of its samples. They
# prefer outputs that hardly depend on the features, so the penalty is limited, in units of the mean eigenvalue.
ENOUGH_OF_A_CLASS = 5
LARGEST_PENALTY = 0.1
# With more samples than this, the decomposition of the ridge regression is too slow; models are trained instead.
MOST_FOR_RIDGE = 8000
# Readings of irregular series are compared on this many samples at most: each comparison costs a decomposition.
MOST_TO_COMPARE = 1000


@dataclass(frozen=True)
class Target:
    """What is to be predicted.

    Attributes:
        values: Indices of classes or numbers: (N,), (N, O), or per step a list of N arrays (L_n,) or (L_n, O).
        classes: The labels in the order of the indices; empty in regression.
        per_step: Whether there is one target per step.
        causal: Whether a prediction may depend on the past only.
    """

    values: Any
    classes: tuple[Any, ...] = ()
    per_step: bool = False
    causal: bool = False

    @classmethod
    def of_classes(
        cls, codes: Int[np.ndarray, " N"], classes: tuple[Any, ...], where: Callable[[int], str] = "series {}".format
    ) -> "Target":
        """One class for each series.

        Args:
            codes: The index of the class of each series.
            classes: The labels of all classes.
            where: The place of a series, for error messages.

        Raises:
            ValueError: If a class has one series only.
        """
        counts = np.bincount(codes, minlength=len(classes))
        if (counts == 1).any():
            alone = int(np.argmax(counts == 1))
            raise ValueError(
                f"{where(int(np.argmax(codes == alone)))}: class {classes[alone]!r} has one series; a class needs at "
                "least two, one to learn from and one to validate on"
            )
        return cls(codes, classes)

    @property
    def outputs(self) -> int:
        """The number of outputs that a model needs."""
        if self.classes:
            return len(self.classes)
        first = np.asarray(self.values[0])
        return int(np.prod(first.shape[1:] if self.per_step else first.shape, dtype=int))

    def take(self, chosen: Int[np.ndarray, " M"]) -> "Target":
        """The targets of some series."""
        if self.per_step:
            return replace(self, values=[self.values[n] for n in chosen.tolist()])
        return replace(self, values=self.values[chosen])


@dataclass(frozen=True)
class Request:
    """How to fit.

    Attributes:
        members: The number of trained models; None for a number that follows from the data.
        minutes: About how long fitting may take; None for the default number of steps of each model.
        seed: The random seed.
        random_states: Whether a model with random states is fitted too.
        out: The run folder of the first trained model.
        settings: Fields of `Plan` to use instead of the defaults.
        callbacks: Callbacks of training.
        about: Entries for the result of the run.
        say: Is given a line about each part of the work.
    """

    members: int | None = 1
    minutes: float | None = None
    seed: int = 0
    random_states: bool = True
    out: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    about: dict[str, Any] = field(default_factory=dict)
    say: Callable[[str], None] = lambda text: None
    progress: bool = False


def fit_ensemble(series: Collection, target: Target, request: Request) -> Ensemble:
    """Fit an ensemble.

    Args:
        series: The training series.
        target: What is to be predicted for each.
        request: How to fit.
    """
    began = time.perf_counter()
    preparation = Preparation.of(series)
    about_classes: dict[str, Any] = {"classes": bool(target.classes), "per_step": target.per_step}
    traits = Traits.of(series, preparation, target.outputs, causal=target.causal, **about_classes)
    plan = plan_for(traits, **request.settings)
    candidates: list[Candidate] = []
    if request.random_states and not target.per_step and len(series) <= MOST_FOR_RIDGE:
        candidates.append(_closed_form(series, target, preparation, request.seed))
        request.say(f"random states: {_score(candidates[0], target)} (leave-one-out)")
    members = request.members
    if members is None:
        members = members_for(
            len(series), per_step=target.per_step, minutes=request.minutes, random_states=request.random_states
        )
    folds = folds_of(target, len(series), max(FOLDS, members), request.seed)
    trained = []
    for number in range(members):
        minutes = None
        if request.minutes is not None:
            left = request.minutes - (time.perf_counter() - began) / 60
            minutes = left / (members - number)
            if minutes <= 0 and candidates:
                break
            minutes = max(minutes, 0.02)
        one = _trained(series, target, traits, plan, preparation, folds, number, minutes, request)
        request.say(f"trained model {number + 1} of {members}: {_score(one, target)} (left out)")
        trained.append(one)
    return Ensemble(
        _weighted(candidates, trained, target),
        target.classes,
        series.channels,
        target.per_step,
    )


@dataclass(frozen=True)
class Candidate:
    """A fitted model with its outputs for `rows`, the samples that it was not fitted to."""

    member: Member
    rows: Int[np.ndarray, " M"]
    outputs: Any


def folds_of(target: Target, samples: int, count: int, seed: int) -> list[Int[np.ndarray, " M"]]:
    """Divide the samples into folds, each class in equal parts."""
    rng = np.random.default_rng(seed)
    if samples < 2:
        raise ValueError("there is one sample (n_samples=1); fitting needs at least 2, one of them to validate on")
    count = min(count, samples)
    labels = np.asarray(target.values) if target.classes and not target.per_step else np.zeros(samples, int)
    order = rng.permutation(samples)
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[n::count]) for n in range(count)]


def _closed_form(series: Collection, target: Target, preparation: Preparation, seed: int) -> Candidate:
    """Random states with the readings of irregular series that have the smallest leave-one-out error together."""
    rng = np.random.default_rng(seed)
    wanted = _as_numbers(target)
    rare = bool(target.classes) and len(series) < ENOUGH_OF_A_CLASS * len(target.classes)
    largest = LARGEST_PENALTY if rare else np.inf
    # Fractions of steps are fractions of time only if the steps are even.
    readings = preparation.readings(series)
    parts = [_random_states(series, reading, target.outputs, rng) for reading in readings]
    features = [found for _, found in parts]
    rows = rng.permutation(len(series))[:MOST_TO_COMPARE]
    # Readings one after the other, or the last one alone, for which the times have no meaning.
    candidates = [tuple(range(n + 1)) for n in range(len(readings))]
    candidates += [(len(readings) - 1,)] if len(readings) > 1 else []
    chosen = candidates[0]
    if len(candidates) > 1:
        chosen = ridge.best_blocks([part[rows] for part in features], wanted[rows], candidates, largest=largest)
    solved = ridge.solve([features[n] for n in chosen], wanted, largest=largest)
    temperature = _temperature(solved.left_out, target.values) if target.classes else 1.0
    members: list[Member] = []
    for n, W in zip(chosen, solved.W, strict=True):
        # The constant is that of all readings together.
        c = np.zeros_like(solved.c) if members else solved.c
        readout = jnp.asarray(W.T, jnp.float32), jnp.asarray(c, jnp.float32)
        members.append(Member(eqx.tree_at(lambda q: (q.W, q.c), parts[n][0], readout), readings[n]))
    first, *others = members
    member = replace(first, temperature=temperature, others=tuple(others))
    return Candidate(member, np.arange(len(series)), solved.left_out)


def _random_states(
    series: Collection, reading: Preparation, outputs: int, rng: np.random.Generator
) -> tuple[RandomStates, Float[np.ndarray, "N F"]]:
    """Random states for one reading of the series, without a readout, and their features."""
    values, dt = reading.arrays(series)
    samples = Samples.of(values, np.zeros(len(series), int), dt)
    duration = float(np.median(samples.lengths)) if dt is None else float(np.mean([gaps.sum() for gaps in dt]))
    model = random_states(samples.event_shape[0], duration, rng, kernels=KERNELS, outputs=outputs)
    model = with_thresholds(model, values, dt, rng)
    return model, features_of(model, samples)


def _as_numbers(target: Target) -> Float[np.ndarray, "N O"]:
    if not target.classes:
        return np.reshape(np.asarray(target.values, float), (len(target.values), -1))
    return np.where(np.eye(len(target.classes), dtype=bool)[target.values], 1.0, -1.0)


def _trained(
    series: Collection,
    target: Target,
    traits: Traits,
    plan: Plan,
    preparation: Preparation,
    folds: list[Int[np.ndarray, " M"]],
    number: int,
    minutes: float | None,
    request: Request,
) -> Candidate:
    preparation = replace(preparation, patch=plan.patch)
    left_out = folds[number % len(folds)]
    kept = np.setdiff1d(np.arange(len(series)), left_out)
    seed = request.seed + number
    model = plan.model(traits, preparation, head_for(traits, target.values), seed)
    objective: CrossEntropy | MeanSquared = MeanSquared(traits.outputs)
    if target.classes:
        names = tuple(map(str, target.classes))
        model, objective = model.with_classes(names), CrossEntropy(traits.outputs, names)
    else:
        objective = MeanSquared(traits.outputs, unit=float(np.mean(np.square(model.config.head.scale))) or 1.0)
    parts = [
        preparation(series.take(rows), target.take(rows).values, per_step=target.per_step, name=name)
        for rows, name in ((kept, "train"), (left_out, "valid"))
    ]
    if not target.classes:
        parts = [replace(part, targets=_columns(part.targets)) for part in parts]
    result = train(
        model,
        *parts,
        objective=objective,
        augmentation=plan.augmentation(traits),
        minutes=minutes,
        steps=plan.steps,
        seed=seed,
        out=request.out if number == 0 else None,
        callbacks=request.callbacks,
        progress=request.progress,
        about=request.about,
        keep="best" if len(left_out) >= ENOUGH_TO_VALIDATE else "last",
        **plan.train_settings(),
    )
    member = Member(result.model, preparation)
    return Candidate(member, left_out, member.outputs(series.take(left_out)))


def _columns(targets: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "N O"]:
    return np.reshape(targets, (len(targets), -1)).astype(np.float32)


def _weighted(random: list[Candidate], trained: list[Candidate], target: Target) -> tuple[Member, ...]:
    """All members with their weights: that of the trained models together is chosen on the data that they left out."""
    trained = _calibrated(trained, target)
    share = 1.0 if not random else 0.0
    if random and trained:
        losses = {n / 10: _loss_of_mixture(random[0], trained, n / 10, target) for n in range(11)}
        share = min(losses, key=losses.__getitem__)
    members = [replace(one.member, weight=(1 - share) / len(random)) for one in random]
    return (*members, *(replace(one.member, weight=share / len(trained)) for one in trained))


def _calibrated(trained: list[Candidate], target: Target) -> list[Candidate]:
    """Trained classifiers with the temperature that suits the data that they left out, the same for all."""
    if not target.classes or target.per_step or not trained:
        return trained
    labels = np.concatenate([np.asarray(target.values)[one.rows] for one in trained])
    temperature = _temperature(np.concatenate([one.outputs for one in trained]), labels)
    return [replace(one, member=replace(one.member, temperature=temperature)) for one in trained]


def _loss_of_mixture(random: Candidate, trained: list[Candidate], share: float, target: Target) -> float:
    losses = []
    for one in trained:
        theirs, mine = random.outputs[one.rows], one.outputs
        values = np.asarray(target.values)[one.rows]
        if not target.classes:
            mixed = share * mine + (1 - share) * theirs
            losses.append(np.square(mixed - _columns(values)).mean(1))
            continue
        theirs, mine = softmax(theirs / random.member.temperature, 1), softmax(mine / one.member.temperature, 1)
        mixed = share * mine + (1 - share) * theirs
        losses.append(-np.log(np.maximum(mixed[np.arange(len(values)), values], 1e-6)))
    return float(np.concatenate(losses).mean())


def _temperature(outputs: Float[np.ndarray, "N K"], labels: Int[np.ndarray, " N"]) -> float:
    """The divisor of the outputs with which their softmax has the smallest loss."""
    outputs = outputs.astype(float)

    def loss(log_temperature: float) -> float:
        likelihood = log_softmax(outputs / np.exp(log_temperature), 1)
        return -float(likelihood[np.arange(len(labels)), labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(SHARPEST), 3), method="bounded").x))


def _score(one: Candidate, target: Target) -> str:
    if target.per_step:
        return f"{len(one.rows)} series"
    values = np.asarray(target.values)[one.rows]
    if target.classes:
        return f"accuracy {(one.outputs.argmax(1) == values).mean():.3f}"
    return f"mean squared error {np.square(one.outputs - _columns(values)).mean():.4g}"
