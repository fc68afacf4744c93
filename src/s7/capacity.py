"""Whether a model can be trained on a problem at all: attention over long sequences needs more memory than there is.

Other layers need memory in proportion to the length of a sequence, which batches and buckets limit.
"""

import numpy as np

from s7.config import ModelConfig
from s7.machine import memory_bytes
from s7.tasks import Problem

# The scores, their softmax and the gradient of both, of which the compiler merges some.
_COPIES_IN_TRAINING, _COPIES = 3, 2


def attention_bytes(config: ModelConfig, length: int, batch: int, *, training: bool) -> int:
    """The memory that attention needs for a batch of sequences; 0 for a model without attention over the whole past.

    Scores are computed block by block and again in the backward pass, so the largest block counts.
    """
    if config.layer is None:
        return 0
    largest, events = 0, length
    directions = 2 if config.bidirectional else 1
    for stage in config.stages:
        for place in range(stage.depth):
            outputs = -(-events // stage.stride) if place == 0 else events
            largest = max(largest, directions * config.layer.attention_scores(events, outputs))
            events = outputs
    copies = _COPIES_IN_TRAINING if training else _COPIES
    return copies * batch * config.head.documents * largest * np.dtype(config.dtype).itemsize


def check_capacity(model: str, config: ModelConfig, problem: Problem, batch: int, *, test: bool) -> None:
    """Raise an error if attention over the longest sequence does not fit into memory.

    Args:
        model: The name of the model, for the message.
        config: Its configuration.
        problem: The data.
        batch: The number of sequences in a batch.
        test: Whether the test data are evaluated.

    Raises:
        ValueError: If it does not fit, with the memory that it would need.
    """
    trained = problem.train.lengths
    if problem.augmentation is not None:
        trained = problem.augmentation.longest(trained)
    needs = {int(np.max(trained)): attention_bytes(config, int(np.max(trained)), batch, training=True)}
    for split in (problem.valid, problem.test) if test else (problem.valid,):
        longest = int(np.max(split.lengths))
        needed = attention_bytes(config, longest, min(batch, len(split)), training=False)
        needs[longest] = max(needed, needs.get(longest, 0))
    length, most = max(needs.items(), key=lambda item: item[1])
    available = memory_bytes()
    if most > available:
        raise ValueError(
            f"{model}: attention over {length:,} events needs about {most / 1e9:,.0f} GB for a batch of {batch}, "
            f"more than the {available / 1e9:.0f} GB of this machine; use smaller batches, pool more, or another model"
        )
