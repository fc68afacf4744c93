"""A small data set and a finished run for the tests of the commands."""

import numpy as np
import pytest

from .processes import SMALL, run


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder with a few short rollouts of walker2d."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    lengths = rng.integers(100, 160, 20)
    obs = np.cumsum(rng.normal(size=(lengths.sum(), 17)), 0).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = np.array([f"rollout_{n:03d}.npy" for n in range(20)])
    (folder / "walker2d").mkdir()
    np.savez(folder / "walker2d" / "rollouts.npz", obs=obs, offsets=offsets, names=names)
    return folder


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """The folder and the output of a run of 60 epochs without interruptions."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    settings = ("--data", data, "--out", folder, "--json", "--set", "train.epochs=60", *SMALL)
    status, out, err = run("train", "walker2d", *settings)
    assert status == 0, err
    return folder, out
