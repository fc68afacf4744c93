"""Packing concatenates sequences and rejects inconsistent arguments."""

import numpy as np
import pytest

from s7.data import pack


def test_sequences_start_at_multiples_of_the_stride():
    packed = pack([np.full(n, n) for n in (3, 4, 1)], [np.full(n, 0.5) for n in (3, 4, 1)], stride=4, length=14)
    assert packed.segments.tolist() == [0, 0, 0, -1, 1, 1, 1, 1, 2, -1, -1, -1, -1, -1]
    assert packed.inputs[packed.segments >= 0].tolist() == [3, 3, 3, 4, 4, 4, 4, 1]
    assert packed.dt is not None
    assert packed.dt[packed.segments >= 0].tolist() == [0.5] * 8
    assert packed.sequences == 3


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "there are no sequences"),
        (([np.zeros(2), np.zeros(0)],), "sequence 1 has no events"),
        (([np.zeros(2)], [np.zeros(3)]), "sequence 0 has 2 events but 3 gaps"),
    ],
)
def test_inconsistent_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        pack(*arguments)


@pytest.mark.usefixtures("as_users_see_it")
def test_a_too_short_length_is_rejected():
    with pytest.raises(ValueError, match="take 8 places, more than length=7"):
        pack([np.zeros(3), np.zeros(3)], stride=4, length=7)
