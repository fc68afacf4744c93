"""Ranges of settings for a search."""

from dataclasses import dataclass

import pytest

from s7.ranges import Choice, Range, declared, searched


def test_ranges_grow_to_include_a_value():
    assert Range(1e-4, 1e-2, log=True).including(0.03) == Range(1e-4, 0.03, log=True)
    assert Range(16, 128, step=8).including(48) == Range(16, 128, step=8)
    assert Range(16, 128, step=8).including(12) == Range(12, 128, step=4)
    assert Range(16, 128, step=8).including(256) == Range(16, 256, step=8)
    assert Choice((1, 2)).including(7) == Choice((7, 1, 2))
    for over, value in ((Range(1, 8), 2.5), (Range(1, 8), True), (Range(1, 8), "x"), (Range(0.1, 1.0, log=True), 0)):
        with pytest.raises(ValueError, match="include"):
            over.including(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Range(2, 1),
        lambda: Range(0, 1, log=True),
        lambda: Range(0, float("inf")),
        lambda: Range(0, 8, step=9),
        lambda: Choice((1,)),
        lambda: Choice((1, 1)),
    ],
)
def test_ranges_are_checked(make):
    with pytest.raises(ValueError, match=r"^\S+: "):
        make()


def test_ranges_are_found_in_nested_settings():
    @dataclass(frozen=True)
    class Inner:
        rank: int = searched(3, Range(1, 8))
        tau: tuple[float, float] = searched((1.0, 9.0), Range(5.0, 50.0, item=1, optional=True))

    @dataclass(frozen=True)
    class Outer:
        inner: Inner = Inner()
        stages: tuple[Inner, ...] = (Inner(),)
        other: int = 3

    names = [f"model.{place}.{name}" for place in ("inner", "stages.0") for name in ("rank", "tau.1")]
    assert [name for name, _ in declared(Outer(), "model")] == names
    assert Outer().inner == Inner(3, (1.0, 9.0))
