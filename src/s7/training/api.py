"""`s7.train`: train a model on arrays."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.run_folder import RunFolder
from s7.settings import build, unknown_setting
from s7.training.callbacks import Callback, EarlyStopping
from s7.training.class_weights import with_class_weights
from s7.training.config import TrainConfig
from s7.training.display import ProgressBar
from s7.training.group import Group
from s7.training.objectives import Objective
from s7.training.run import Run, Trained
from s7.training.splits import prepare

Data = Samples | tuple

# Settings of the default optimizer, which another optimizer does not read.
_OF_DEFAULT_OPTIMIZER = frozenset(
    [
        *("learning_rate", "ssm_learning_rate", "selective_learning_rate"),
        *("weight_decay", "ssm_weight_decay", "selective_weight_decay"),
        *("warmup", "clip_norm", "accumulate"),
    ]
)
# Names that other libraries use for arguments of `train`.
_ELSEWHERE = {
    "lr": "learning_rate",
    "max_lr": "learning_rate",
    "patience": "early_stopping",
    "validation_split": "valid",
    "class_weight": "class_weights",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "max_steps": "steps",
    "max_norm": "clip_norm",
    "grad_clip": "clip_norm",
    "random_state": "seed",
    "verbose": "progress",
}


def train(
    model: Any,
    train: Data,
    valid: Data | float,
    test: Data | None = None,
    *,
    objective: Objective | None = None,
    augmentation: Augmentation | None = None,
    optimizer: Any = None,
    early_stopping: int | EarlyStopping | None = None,
    class_weights: str | Sequence[float] | Mapping[Any, float] | None = None,
    minutes: float | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    about: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Trained:
    """Train a model and return the checkpoint with the best validation metric. The test set is evaluated once.

    Args:
        model: an S7Model, or any Equinox module called as model(inputs, dt, length, key=key) on one sequence.
        train: `s7.Samples`, or a tuple (inputs, targets) or (inputs, targets, dt). Sequences are the first axis of an
            array, or the items of a list.
        valid: as `train`, or the fraction of the training data to use for validation, such as 0.1 (stratified).
        test: as `train`; None if the model is not tested.
        objective: loss and metrics; by default cross-entropy for labels and the mean squared error otherwise.
        augmentation: random changes of the training samples.
        optimizer: an optax transformation, such as optax.adam(1e-3), in place of the default AdamW. It sees the
            parameters as a dictionary of arrays by name ("blocks.0.layer.maps.B"), so that optax.multi_transform can
            label them by name. Or an optax schedule, which the default AdamW follows.
        early_stopping: stop after this many epochs without improvement, or an EarlyStopping.
        class_weights: factors of the loss for each class: "balanced" for the inverse of the class frequencies, a
            sequence in the order of the classes, or a dictionary by class.
        minutes: train for about this long, in place of `epochs`: the speed is measured first. With `steps`, train on at
            most that many batches.
        out: a folder for the run: settings, history, result, checkpoints.
        resume: continue the run in `out` from its last checkpoint, to the same numbers as if it had never stopped.
        seed: random seed of batches, dropout, augmentation and of the validation split.
        callbacks: `s7.training.Callback` objects.
        progress: show a progress bar in terminals and notebooks.
        about: entries to add to the result.
        settings: those of `s7.training.TrainConfig`, such as epochs, batch_size and learning_rate. `learning_rate` may
            be an optax schedule: a function from the number of the update to the learning rate.

    Returns:
        The best model, the history (one dictionary for each epoch) and the result (a dictionary).

    Raises:
        ValueError: an argument or the data cannot be used; the message names the position.
        Diverged: a loss, gradient or parameter is not finite.
        Interrupted: Ctrl-C or SIGTERM, if `out` is given; the run can be resumed.

    Examples:
        >>> import jax, numpy as np, s7
        >>> x = np.random.default_rng(0).normal(size=(32, 10, 1))
        >>> y = np.where(x.sum((1, 2)) > 0, "up", "down")
        >>> model = s7.S7Model(encoder=s7.LinearEncoder.of(x), head=s7.Mean(2), width=8, state=4, key=jax.random.key(0))
        >>> trained = s7.train(model, (x, y), valid=0.25, epochs=2, learning_rate=1e-2, progress=False)
        >>> trained.model.config.classes
        ('down', 'up')
    """
    schedule = settings.pop("learning_rate") if callable(settings.get("learning_rate")) else None
    config = _config(settings, optimizer, schedule)
    if schedule is None and callable(optimizer):
        schedule, optimizer = optimizer, None
    _check_arguments(seed, minutes, early_stopping, callbacks, settings)
    if resume and out is None:
        raise ValueError("resume=True needs out=, the folder of the run")
    prepared = prepare(model, train, valid, test, objective=objective, seed=seed)
    run = Run(
        prepared.model,
        prepared.splits,
        with_class_weights(prepared.objective, class_weights, prepared.splits["train"], prepared.model),
        config,
        int(seed),
        augmentation,
        optimizer=optimizer,
        schedule=schedule,
        early_stopping=EarlyStopping(early_stopping) if isinstance(early_stopping, int) else early_stopping,
        minutes=minutes,
        about=dict(about or {}),
    )
    first = Group.current().is_first
    shown = [*callbacks, *([ProgressBar()] if progress and first else [])]
    if out is None:
        return run.fit(shown)
    folder = RunFolder(Path(out))
    if resume and first and not folder.is_begun:
        raise FileNotFoundError(f"{folder.path}: no run to resume; start it without resume")
    with folder.locked() if first else nullcontext():
        return run.fit_in(folder, resume=resume, callbacks=shown)


def _check_arguments(seed: Any, minutes: Any, early_stopping: Any, callbacks: Any, settings: Mapping[str, Any]) -> None:
    # Random keys are made of 32 bits; larger seeds would be cut to them.
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"seed={seed!r} must be a whole number from 0 to 2**32 - 1")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise ValueError(f"minutes={minutes!r} must be positive")
    if minutes is not None and "epochs" in settings:
        raise ValueError(f"minutes={minutes:g} and epochs={settings['epochs']}: omit one of them")
    if early_stopping is not None and not isinstance(early_stopping, int | EarlyStopping):
        raise ValueError(f"early_stopping={early_stopping!r} must be a whole number of epochs or an EarlyStopping")
    if not isinstance(callbacks, Sequence) or not all(isinstance(one, Callback) for one in callbacks):
        raise TypeError(f"callbacks={callbacks!r} must be a list of s7.training.Callback objects")


def _config(settings: Mapping[str, Any], optimizer: Any, schedule: Any) -> TrainConfig:
    for name in settings:
        if name in _ELSEWHERE:
            raise ValueError(f"train has no argument {name!r}; it is called {_ELSEWHERE[name]!r}")
    if optimizer is not None:
        unused = sorted(_OF_DEFAULT_OPTIMIZER & set(settings))
        unused += ["learning_rate"] if schedule is not None else []
        if unused:
            raise ValueError(f"{unused[0]} has no effect with optimizer=; give it to the optimizer")
    if schedule is not None:
        for name in ("warmup", "ssm_learning_rate", "selective_learning_rate"):
            if name in settings:
                raise ValueError(f"{name} has no effect with a schedule as learning_rate; omit one of them")
    known = {one.name for one in fields(TrainConfig)}
    arguments = ("optimizer", "early_stopping", "class_weights", "minutes", "callbacks", "progress", "augmentation")
    for name in settings:
        if name not in known:
            raise ValueError(f"train: {unknown_setting(name, [*known, *arguments])}")
    return build(TrainConfig, settings, "train")
