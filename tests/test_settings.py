"""Settings and tables: conversion in both directions, and errors for invalid tables."""

import re
import string
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.config import ModelConfig
from s7.data.position_augmentation import PositionAugmentation
from s7.settings import build, convert, from_assignments, merge, table_of, to_toml, unknown
from s7.training import TrainConfig

GIVEN = {"encoder": s7.LinearEncoder(1), "head": s7.Mean(1)}

ENCODERS = [
    s7.TokenEncoder(7),
    s7.EventEncoder((3, 2), token=False),
    s7.LinearEncoder(2, mean=(0.1, -3e-20), scale=1e30),
    s7.ImageEncoder((8, 9, 1), scale=255),
]
HEADS = [s7.Mean(2, 0.5, (1 / 3, 2)), s7.TimeMean(2), s7.Last(2), s7.PerStep(1, mean=(-0.0,)), s7.Retrieval()]
TRANSITIONS = [s7.Stable(oscillate=True, gain=None, tau=(1, 9)), s7.Plain(gain="variance"), s7.Step(), s7.Ring()]
FORMS = [s7.Full(D="full", selective="C"), s7.Factored(rank=2, bias=False), s7.Static()]
STAGES = [(s7.Stage(),), (s7.Stage(3, stride=2, width=5, pool="time"), s7.Stage(pool="last"))]
CHANGES = (
    [{"encoder": q} for q in ENCODERS]
    + [{"head": q} for q in HEADS]
    + [{"transition": q} for q in TRANSITIONS]
    + [{"form": q} for q in FORMS]
    + [{"stages": q} for q in STAGES]
    + [{"norm": "none", "dt": None}, {"norm": "batch", "dt": 0.1, "dropout": 0.3, "bidirectional": True}]
)

sizes = st.integers(1, 10**9)
rates = st.floats(0, 1e300)
trainings = st.fixed_dictionaries(
    {},
    optional={
        "epochs": sizes,
        "learning_rate": rates,
        "ssm_learning_rate": st.none() | rates,
        "selective_weight_decay": st.none() | rates,
        "warmup": st.floats(0, 1),
        "pack": st.none() | sizes,
    },
)

keys = st.text(string.ascii_letters + string.digits + "_-", min_size=1)
plain = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(plain, lambda q: st.lists(q, max_size=3) | st.dictionaries(keys, q, max_size=3), max_leaves=8)
tables = st.dictionaries(keys, values, max_size=4)


def assert_comes_back(config):
    assert build(type(config), tomllib.loads(to_toml(table_of(config))), "here") == config


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_model_round_trips_through_toml(changes):
    assert_comes_back(ModelConfig(**{**GIVEN, **changes}))


@settings(max_examples=40)
@given(trainings)
def test_training_comes_back_from_toml(changes):
    assert_comes_back(TrainConfig(**changes))


@settings(max_examples=60)
@given(tables)
def test_any_table_comes_back_from_toml(table):
    assert tomllib.loads(to_toml(table)) == table


@given(st.text())
def test_any_string_comes_back_from_toml(text):
    table = {"plain": text, "listed": [text, [text]], "section": {"name": text, "inner": {"name": text}}}
    assert tomllib.loads(to_toml(table)) == table


def test_a_section_stands_behind_the_plain_values():
    assert to_toml({"section": {"a": 1}, "b": [True, 0.5]}) == "b = [true, 0.5]\n\n[section]\na = 1\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "known: PositionAugmentation"), ("TokenAugmentation", "did you mean 'PositionAugmentation'?")],
)
def test_only_kinds_that_fit_are_suggested(name, message):
    with pytest.raises(ValueError, match=re.escape(f"data.augment: no augmentation {name!r}; {message}")):
        convert(name, PositionAugmentation, "data.augment")


@pytest.mark.parametrize("form", ["Factored", {"kind": "Factored"}, s7.Factored()])
def test_a_kind_is_a_name_a_table_or_an_object(form):
    assert build(ModelConfig, {"form": form}, "model", GIVEN).form == s7.Factored()


def test_the_only_kind_needs_no_name():
    assert convert([{"depth": 3}], tuple[s7.Stage, ...], "stages") == (s7.Stage(depth=3),)


def test_none_is_written_as_a_string():
    table = {"dt": "none", "norm": "none", "transition": {"kind": "Stable", "gain": "none"}}
    config = build(ModelConfig, table, "model", GIVEN)
    assert config.dt is None
    assert config.norm == "none"
    assert config.transition == s7.Stable(gain=None)
    assert table_of(config)["dt"] == "none"


def test_a_whole_number_serves_as_a_number():
    rate = build(TrainConfig, {"learning_rate": 1}, "train").learning_rate
    assert isinstance(rate, float)
    assert rate == 1


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"widht": 3}, "^model.widht: no setting 'widht'; did you mean 'width'"),
        ({"q": 3}, "^model.q: no setting 'q'; known: transition, form, "),
        ({"head": "Mean"}, "^model.head: no setting 'head'"),
        ({"width": 1.5}, "^model.width=1.5 is not a whole number"),
        ({"width": True}, "^model.width=True is not a whole number"),
        ({"dropout": "much"}, "^model.dropout='much' is not a number"),
        ({"dropout": True}, "^model.dropout=True is not a number"),
        ({"dropout": 1.5}, "^model: dropout=1.5 must be at least 0 and below 1"),
        ({"dt": "never"}, "^model.dt='never' is not a number"),
        ({"bidirectional": 1}, "^model.bidirectional=1 is not true or false"),
        ({"dtype": 32}, "^model.dtype=32 is not a string"),
        ({"norm": "bach"}, "^model.norm='bach' is not one of 'layer', 'rms', 'batch', 'none'"),
        ({"stages": 2}, "^model.stages=2 is not a list"),
        ({"stages": [{}, {"depht": 2}]}, r"^model.stages\[1\].depht: no setting 'depht'; did you mean 'depth'"),
        ({"form": "Fulll"}, "^model.form: no form 'Fulll'; did you mean 'Full'"),
        ({"form": 3}, "^model.form=3 is not a table or the name of one of Full, Factored, Static"),
        ({"form": {"rank": 3}}, "^model.form.kind: needed, one of Full, Factored, Static"),
        ({"form": {"kind": "Static", "rank": 3}}, "^model.form.rank: no setting 'rank'"),
        ({"form": {"kind": "Factored", "rank": 0}}, "^model.form: Factored: rank=0 must be at least 1"),
        ({"transition": {"kind": "Stable", "tau": [1]}}, r"^model.transition.tau=\[1\] has 1 entries, expected 2"),
        ({"transition": {"kind": "Stable", "tau": [1, "x"]}}, r"^model.transition.tau\[1\]='x' is not a number"),
        pytest.param(
            {"form": {"kind": ["Full"]}},
            "^model.form: no kind",
        ),
    ],
    ids=str,
)
def test_invalid_settings_are_rejected(table, message):
    with pytest.raises(ValueError, match=message):
        build(ModelConfig, table, "model", GIVEN)


def test_what_is_needed_is_rejected():
    with pytest.raises(ValueError, match=r"^model\.head: ModelConfig needs it"):
        build(ModelConfig, {"encoder": {"kind": "LinearEncoder", "inputs": 2}}, "model")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rate", "learning_rate"),
        ("decay", "weight_decay"),
        ("batch", "batch_size"),
        ("warm_up", "warmup"),
        ("clip", "clip_norm"),
        ("shapes", "buckets"),
        ("ssm_rate", "ssm_learning_rate"),
        ("ssm_decay", "ssm_weight_decay"),
        ("selective_rate", "selective_learning_rate"),
        ("selective_decay", "selective_weight_decay"),
    ],
)
def test_an_old_name_is_rejected_with_the_new_one(old, new):
    with pytest.raises(ValueError, match=f"^train.{old}: '{old}' is now called {new}$"):
        build(TrainConfig, {old: 1}, "train")


def test_step_sizes_are_two_settings_now():
    with pytest.raises(ValueError, match=r"^model.transition.steps: 'steps' is now called dt_min and dt_max$"):
        build(ModelConfig, {"transition": {"kind": "Step", "steps": [0.1, 1]}}, "model", GIVEN)


def test_an_unknown_name_meets_its_nearest_or_all_of_them():
    assert unknown("task", "pendulm", ["walker2d", "pendulum"]) == "no task 'pendulm'; did you mean 'pendulum'?"
    assert unknown("task", "x", ["walker2d", "pendulum"]) == "no task 'x'; known: walker2d, pendulum"


@settings(max_examples=60)
@given(tables, tables)
def test_merged_tables_take_precedence_without_modification(below, above):
    before = to_toml(below), to_toml(above)
    merged = merge(below, above)
    assert (to_toml(below), to_toml(above)) == before
    assert set(merged) == set(below) | set(above)
    assert merge(merged, above) == merged
    assert merge(below, {}) == below
    assert merge({}, above) == above


FACTORED = {"kind": "Factored", "rank": 8, "D": "static"}


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        (FACTORED, {"rank": 4}, {"kind": "Factored", "rank": 4, "D": "static"}),
        (FACTORED, {"kind": "Factored", "rank": 4}, {"kind": "Factored", "rank": 4, "D": "static"}),
        (FACTORED, {"kind": "Full"}, {"kind": "Full"}),
        (FACTORED, "Full", "Full"),
        ("Factored", {"rank": 4}, {"kind": "Factored", "rank": 4}),
        ("Static", FACTORED, FACTORED),
    ],
)
def test_another_kind_starts_anew(below, above, merged):
    assert merge({"form": below, "width": 3}, {"form": above}) == {"form": merged, "width": 3}


def test_a_preset_of_one_kind_can_be_set_to_another():
    table = merge({"form": FACTORED}, from_assignments(["form.kind=Full", "form.D=full"]))
    assert build(ModelConfig, table, "model", GIVEN) == replace(ModelConfig(**GIVEN), form=s7.Full(D="full"))


def test_assignments_are_read_as_toml_and_else_as_strings():
    assignments = [
        "model.width=32",
        "model.form=Static",
        "model.form.bias=false",
        "train.learning_rate = 1e-3",
        'data.name="a b"',
        "data.text= a=b ",
        "model.stages=[{depth=2}]",
        "model.width=16",
    ]
    assert from_assignments(assignments) == {
        "model": {"width": 16, "form": {"kind": "Static", "bias": False}, "stages": [{"depth": 2}]},
        "train": {"learning_rate": 1e-3},
        "data": {"name": "a b", "text": "a=b"},
    }


@pytest.mark.parametrize("assignment", ["model.width", "=3", "model..width=3", ""])
def test_an_assignment_that_is_none_is_rejected(assignment):
    with pytest.raises(ValueError, match=f"^{assignment!r}: expected key=value, such as model.width=32"):
        from_assignments([assignment])
