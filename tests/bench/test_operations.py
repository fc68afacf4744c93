"""Multiply-adds, counted from the weights, against formulas."""

import jax
import pytest

import s7
from s7.bench import operations
from s7.block import Block, BlockConfig

H, P, R = 6, 4, 3


def block(**settings) -> Block:
    more = {name: settings.pop(name) for name in ("out", "stride") if name in settings}
    settings.setdefault("form", s7.Static())
    settings.setdefault("gate", False)
    settings.setdefault("transition", s7.Stable(selective=False))
    return Block(H, P, BlockConfig(**settings), key=jax.random.key(0), **more)


@pytest.mark.parametrize(
    ("settings", "event", "output"),
    [
        ({}, P * H, H * P),
        ({"transition": s7.Stable()}, P * H + P * H, H * P),
        ({"transition": s7.Stable(oscillate=True)}, P * H + 2 * P * H, H * 2 * P),
        ({"form": s7.Static(D="full")}, P * H, H * P + H * H + H**3),
        ({"form": s7.Full()}, P * H + P * H * H, H * P + H * P * H + H * H),
        ({"form": s7.Full(selective="B", D="static")}, P * H + P * H * H, H * P),
        ({"form": s7.Factored(R, D="static")}, P * H + 2 * R * H + P * R, H * P + R * P + R * H + H * R),
        ({"gate": True}, P * H, H * P + H * H),
        ({"out": 5}, P * H, H * P + 5 * H),
        ({"bidirectional": True}, 2 * P * H, 2 * H * P),
    ],
)
def test_a_block_costs_its_products(settings, event, output):
    one = block(**settings)
    assert operations.of_block(one, 1, 0) == event
    assert operations.of_block(one, 0, 1) == output
    assert operations.of_block(one, 100, 25, rows=7) == 7 * event + 25 * output


def test_the_papers_layer():
    assert operations.paper_layer(48, 8, "diagonal") == 2 * 8 * 48**2
    assert operations.paper_layer(48, 8, "full") == 2 * 8 * 48**2 + 48**3


@pytest.mark.parametrize(
    ("encoder", "event"),
    [
        (s7.TokenEncoder(9), 0),
        (s7.EventEncoder((3, 3)), 0),
        (s7.LinearEncoder(5), 5 * H),
        (s7.DenseEncoder((3, 2), hidden=7), 6 * 7 + 7 * H),
        (s7.ImageEncoder((9, 8, 2), channels=3), 25 * 2 * 3 * 72 + 9 * 3 * 3 * 3 * 2 + 2 * 1 * 3 * H),
    ],
)
def test_an_encoder_costs_its_products(encoder, event):
    model = s7.S7Model(encoder=encoder, head=s7.Mean(2), width=H, state=P, key=jax.random.key(0))
    assert operations.of_encoder(model) == event


def test_a_model_costs_its_parts():
    settings = {"form": s7.Static(), "gate": False, "transition": s7.Stable(selective=False), "width": H, "state": P}
    stages = (s7.Stage(1, 4), s7.Stage(1))
    tokens = s7.S7Model(encoder=s7.TokenEncoder(9), head=s7.Mean(2), stages=stages, key=jax.random.key(0), **settings)
    windows = 3 * 3  # of 10 events, three times
    forward = 9 * P * H + windows * H * P + windows * 2 * P * H + 3 * 2 * H
    assert operations.of_model(tokens, 3, 10, training=False) == forward
    assert operations.of_model(tokens, 3, 10, training=True) == 3 * forward
    vectors = s7.S7Model(encoder=s7.LinearEncoder(5), head=s7.PerStep(2), depth=1, key=jax.random.key(0), **settings)
    steps, encoder = 30 * (2 * P * H + 2 * H), 30 * 5 * H
    assert operations.of_model(vectors, 3, 10, training=False) == steps + encoder
    assert operations.of_model(vectors, 3, 10, training=True) == 3 * steps + 2 * encoder


def test_a_rate_counts_two_operations_per_multiply_add():
    assert operations.rate(5e9, 2.0) == 5.0
