"""Training: the loop and its callbacks, objectives, optimizers, checkpoints."""

from s7.training.api import train
from s7.training.callbacks import Callback, EarlyStopping, Progress, StopOnSignal
from s7.training.checkpoint import Checkpointing
from s7.training.config import TrainConfig
from s7.training.display import ProgressBar
from s7.training.evaluation import evaluate
from s7.training.objectives import CrossEntropy, GaussianNLL, MeanSquared, Objective
from s7.training.run import Trained
from s7.training.trainer import Diverged, Interrupted, Trainer

__all__ = [
    "Callback",
    "Checkpointing",
    "CrossEntropy",
    "Diverged",
    "EarlyStopping",
    "GaussianNLL",
    "Interrupted",
    "MeanSquared",
    "Objective",
    "Progress",
    "ProgressBar",
    "StopOnSignal",
    "TrainConfig",
    "Trained",
    "Trainer",
    "evaluate",
    "train",
]
