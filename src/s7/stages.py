"""The blocks of a model, stage by stage."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import PRNGKeyArray

from s7.block import Block, BlockConfig
from s7.config import ModelConfig


def init_blocks(config: ModelConfig, keys: Sequence[PRNGKeyArray], dtype: Any) -> tuple[Block, ...]:
    """Initialize the blocks of all stages, each with its own key. The first block of a stage pools and widens."""
    blocks: list[Block] = []
    width, collector = config.width, config.encoder.collector()
    for stage in config.stages:
        for place in range(stage.depth):
            kind = config.block
            if not blocks and collector is not None:  # the encoder's events are collected in frames first
                kind = BlockConfig(layer=collector, norm="none", gate=False, skip=False)
            out, stride = (stage.width, stage.stride) if place == 0 else (None, 1)
            shape: Any = {"out": out, "stride": stride, "pool": stage.pool}
            blocks.append(Block(width, config.state, kind, key=keys[len(blocks)], dtype=dtype, **shape))
            width = out or width
    return tuple(blocks)
