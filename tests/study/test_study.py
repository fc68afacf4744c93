"""The configuration of a study and of its trials."""

import pytest

from s7.study import Study, StudyConfig, Variant


def test_a_folder_holds_runs_of_one_configuration(make_study, run):
    run(make_study("s7", seeds=1, minutes=3.0))
    with pytest.raises(ValueError, match=r"out: its runs have minutes 3.0, not 5.0; choose another folder"):
        run(make_study("s7", seeds=1, minutes=5.0))
    with pytest.raises(ValueError, match=r"settings of the preset, not train\.batch_size=4"):
        run(make_study("s7", seeds=1, minutes=3.0, settings={"train": {"batch_size": 4}}))


def test_a_damaged_configuration_is_rejected(make_study, run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.json").write_text("[")
    with pytest.raises(ValueError, match=r"study.json: not the configuration of a study"):
        run(make_study("s7"))


def test_settings_of_a_variant_override_those_of_the_study(tmp_path):
    study = Study(
        StudyConfig("walker2d", settings={"train": {"batch_size": 4}, "model": {"form": {"rank": 8}}}, test=False),
        (Variant(label="half the rank", settings={"model": {"form": {"kind": "Factored", "rank": 4}}}),),
        1,
        tmp_path,
    )
    (trial,) = study.trials()
    job = study.job(trial.variant, trial.seed)
    assert (job.variant, job.test, job.tables["train"]["batch_size"]) == ("half the rank", False, 4)
    assert job.tables["model"]["form"]["rank"] == 4
    assert trial.folder.path == tmp_path / "half-the-rank-0"


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (("s7",), {"seeds": 0}, "seeds=0: must be at least 1"),
        (("s7",), {"minutes": 0.0}, "minutes=0: must be positive"),
        (("s7", "s7"), {}, "s7 is listed twice; list each model once"),
    ],
)
def test_invalid_studies_are_rejected(models, options, message, make_study):
    with pytest.raises(ValueError, match=message):
        make_study(*models, **options)
