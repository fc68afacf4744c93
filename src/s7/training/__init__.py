"""Training: the loop, what it makes small, how it is kept on disk."""

from s7.training.api import Trained, train
from s7.training.config import TrainConfig
from s7.training.evaluation import evaluate
from s7.training.loop import Diverged, Interrupted, Progress, Watcher
from s7.training.objectives import CrossEntropy, GaussianNLL, MeanSquared, Objective

__all__ = [
    "CrossEntropy",
    "Diverged",
    "GaussianNLL",
    "Interrupted",
    "MeanSquared",
    "Objective",
    "Progress",
    "TrainConfig",
    "Trained",
    "Watcher",
    "evaluate",
    "train",
]
