"""A search on validation data before a study."""

import json

import pytest

from s7.study import Study, StudyConfig, Summary, Variant
from s7.study.search import Search, applied, outcomes, write

RATES = Search("train.learning_rate", (0.001, 0.01, 0.1))


def finish(trial, mse):
    """Write the result of a trial with this validation error."""
    trial.folder.path.mkdir(parents=True)
    result = {"metric": "mse", "better": "min", "valid": {"mse": mse}, "test": {}}
    (trial.folder.path / "result.json").write_text(json.dumps(result))


@pytest.fixture
def study(tmp_path):
    return Study(StudyConfig("walker2d", minutes=8.0), (Variant("s7"), Variant("lstm")), 3, tmp_path)


def test_the_trials_of_a_search(study):
    inner = RATES.study(study)
    assert (inner.config.minutes, inner.config.test, inner.seeds, inner.out) == (2.0, False, 1, study.out / "search")
    names = [variant.name for variant in inner.variants]
    assert names[:2] == ["s7 learning_rate=0.001", "s7 learning_rate=0.01"]
    assert len(names) == 6
    assert inner.job(inner.variants[1], 0).training().learning_rate == 0.01
    inner.check()


@pytest.mark.parametrize(
    ("settings", "budget"), [({"train": {"steps": 100}}, ("steps", 25)), ({"train": {"epochs": 6}}, ("epochs", 2))]
)
def test_a_share_of_steps_or_epochs(settings, budget, tmp_path):
    study = Study(StudyConfig("walker2d", settings=settings), (Variant("s7"),), 1, tmp_path)
    inner = RATES.study(study)
    name, value = budget
    assert getattr(inner.job(inner.variants[0], 0).training(), name) == value


def test_the_best_value_on_validation_data_is_used(study):
    errors = {"s7": (3.0, 1.0, 2.0), "lstm": (2.0, None, None)}
    for trial in RATES.study(study).trials():
        name, _, value = trial.variant.name.partition(" learning_rate=")
        mse = errors[name][RATES.values.index(float(value))]
        if mse is not None:
            finish(trial, mse)
    found = outcomes(RATES, study)
    assert {name: one.chosen for name, one in found.items()} == {"s7": 0.01, "lstm": 0.001}
    assert (found["s7"].at_the_edge, found["lstm"].at_the_edge) == (False, True)
    assert found["lstm"].tried == {"0.001": 2.0, "0.01": None, "0.1": None}
    changed = applied(RATES, study, found)
    assert [variant.settings["train"]["learning_rate"] for variant in changed.variants] == [0.01, 0.001]
    write(RATES, found, study.out)
    record = json.loads((study.out / "search.json").read_text())
    assert (record["share"], record["outcomes"]["s7"]["chosen"]) == (0.25, 0.01)
    summary = Summary.of(changed, {}, found)
    assert summary.searched == "learning rate"
    head, *lines = summary.table().splitlines()
    assert head.endswith("learning rate")
    assert lines[0].split()[-1] == "0.01"
    assert "lstm: train.learning_rate=0.001 is at the edge of the range that was searched" in lines
    assert Summary.read(_written(summary, study.out)) == summary


def _written(summary, out):
    path = out / "comparison.json"
    path.write_text(json.dumps(summary.record()))
    return path


def test_a_variant_without_a_finished_trial_keeps_its_preset(study):
    found = outcomes(RATES, study)
    assert found["s7"].chosen is None
    assert applied(RATES, study, found).variants == study.variants
    assert "no trial of the search finished" in Summary.of(study, {}, found).table()


def test_searches_are_read_from_the_command_line():
    assert Search.parse("learning_rate=1e-2,1e-3", 0.5) == Search("train.learning_rate", (0.001, 0.01), 0.5)
    assert Search.parse("model.dropout=0,0.1", 0.25).setting == "model.dropout"


@pytest.mark.parametrize(("setting", "value"), [("model.width=8,16", 8), ("train.learning_rate=1,0.5", 1.0)])
def test_whole_numbers_suit_settings_of_both_kinds(setting, value, study):
    search = Search.parse(setting, 0.25)
    section, _, name = search.setting.partition(".")
    assert value in search.values
    inner = search.study(study)
    inner.check()
    assert any(variant.settings[section][name] == value for variant in inner.variants)


@pytest.mark.parametrize(
    ("text", "share", "message"),
    [
        ("learning_rate", 0.25, "expected a setting and numbers, such as"),
        ("learning_rate=fast,slow", 0.25, "expected a setting and numbers, such as"),
        ("learning_rate=0.1", 0.25, "give at least two different values"),
        ("learning_rate=0.1,0.2", 2.0, "a share of 2 is not above 0 and at most 1"),
    ],
)
def test_invalid_searches_are_rejected(text, share, message):
    with pytest.raises(ValueError, match=message):
        Search.parse(text, share)
