"""Settings of blocks for property-based tests."""

from collections.abc import Sequence

from hypothesis import strategies as st

import s7
from s7.block import BlockConfig


def block_configs(forms: Sequence[s7.Form], transitions: Sequence[s7.Transition]) -> st.SearchStrategy[BlockConfig]:
    """Draws the settings of a block in every combination of its parts."""
    return st.builds(
        BlockConfig,
        transition=st.sampled_from(transitions),
        form=st.sampled_from(forms),
        norm=st.sampled_from(["layer", "rms", "batch", "none"]),
        norm_place=st.sampled_from(["before", "before", "after"]),
        gate=st.booleans(),
        skip=st.booleans(),
        dropout=st.sampled_from([0.0, 0.3]),
        bidirectional=st.booleans(),
    )
