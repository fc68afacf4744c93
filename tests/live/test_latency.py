"""Percentiles of durations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.live.latency import LONGEST, SHORTEST, Latencies

DURATIONS = st.lists(st.floats(SHORTEST, LONGEST), min_size=1, max_size=300)


def filled(durations) -> Latencies:
    latencies = Latencies()
    for duration in durations:
        latencies.add(duration)
    return latencies


@given(durations=DURATIONS, percent=st.floats(0, 100))
def test_percentiles_are_those_of_the_sorted_durations(durations, percent):
    expected = np.percentile(durations, percent, method="inverted_cdf")
    assert filled(durations).percentile(percent) == pytest.approx(expected, rel=0.023)


@given(durations=DURATIONS, other=DURATIONS)
def test_merged_histograms_are_those_of_all_durations(durations, other):
    merged = filled(durations)
    merged.merge(filled(other))
    together = filled([*durations, *other])
    assert merged.summary() == together.summary()
    assert len(merged) == len(durations) + len(other)


@given(durations=DURATIONS)
def test_counts_below_edges_grow_to_all(durations):
    edges = [1e-4, 1e-2, 1.0, 2 * LONGEST]
    counts = filled(durations).below(edges)
    assert counts == sorted(counts)
    assert counts[-1] == len(durations)
    exact = [sum(d <= edge for d in durations) for edge in edges]
    near = [sum(edge / 1.05 < d < edge * 1.05 for d in durations) for edge in edges]
    assert all(abs(a - b) <= c for a, b, c in zip(counts, exact, near, strict=True))


def test_extremes_are_exact_and_nothing_has_no_percentiles():
    latencies = filled([0.0, -1.0, 5e3])
    assert latencies.percentile(100) == 5e3
    assert latencies.percentile(1) <= SHORTEST
    assert math.isnan(Latencies().percentile(50))
    assert Latencies().summary() == {}
