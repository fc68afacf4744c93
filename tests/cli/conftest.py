"""A small data set and a finished run for the tests of the commands."""

import pytest

from tests.rollouts import write_rollouts

from .processes import SMALL, run


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder with a few short rollouts of walker2d."""
    return write_rollouts(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """The folder and the output of a run of 60 epochs without interruptions."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    settings = ("--data", data, "--out", folder, "--json", "--set", "train.epochs=60", *SMALL)
    status, out, err = run("train", "walker2d", *settings)
    assert status == 0, err
    return folder, out
