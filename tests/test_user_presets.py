"""Preset files of users: read as written, expanded by commands, and rejected if they do not fit."""

from argparse import Namespace

import pytest

from s7.cli.train import expand_preset
from s7.job import Job
from s7.presets.user_file import PresetFile
from s7.settings import from_assignments

TABLES = {
    "model": {"form": {"kind": "Factored", "rank": 4}, "stages": [{"depth": 2}]},
    "train": {"learning_rate": 0.02},
}


@pytest.fixture
def path(tmp_path):
    PresetFile("pendulum", "s7", "ours", TABLES).write(tmp_path / "mine.toml", "Found by\nchance.")
    return tmp_path / "mine.toml"


def options(path, **changes) -> Namespace:
    defaults = {"task": "pendulum", "model": "s7", "preset": str(path), "set": [], "given": {"preset"}}
    return Namespace(**(defaults | changes))


def test_a_file_is_read_as_written(path):
    assert path.read_text().startswith("# Found by\n# chance.\ntask = ")
    assert PresetFile.read(path) == PresetFile("pendulum", "s7", "ours", TABLES)


def test_a_command_uses_the_settings_of_the_file_over_those_of_its_preset(path):
    mine = options(path, set=["train.learning_rate=0.5", "model.depth=1"])
    expand_preset(mine)
    assert (mine.model, mine.preset) == ("s7", "ours")
    job = Job("pendulum", settings=from_assignments(mine.set))
    assert job.training().learning_rate == 0.5
    config = job.base_config()
    assert (config.depth, config.form.rank, config.width) == (1, 4, 48)


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("task = 'pendulum'", {"task": "text"}, "for pendulum, not for text"),
        ("[model]\nkind = 'gru-d'", {"given": {"model"}}, "for the model gru-d, not for s7"),
        ("[model]\nkind = 'gru-d'", {"models": ["s7", "s5"]}, "for the model gru-d, not for s7, s5"),
        ("tusk = 'text'", {}, "no entry 'tusk'; did you mean 'task'?"),
        ("model = 3", {}, "model is not a table"),
        ("[model]\nkind = 3", {}, "model.kind is not a string"),
        ("= 3", {}, "not TOML"),
    ],
)
def test_files_that_do_not_fit_are_rejected(tmp_path, text, changes, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.toml: ") as error:
        expand_preset(options(path, **changes))
    assert message in str(error.value)
