"""Simulated rollouts: the layout of the data set, determinism, and a stable gait."""

import sys

import numpy as np
import pytest

from s7.tasks.walker_rollouts import Rollouts, generate, write


@pytest.fixture(scope="module")
def walks():
    """Three walks of at most 200 steps."""
    _needs_mujoco()
    return generate(3, seed=1, steps=200)


def _needs_mujoco():
    for name in ("gymnasium", "mujoco", "imageio"):
        pytest.importorskip(name, reason=f"{name} is missing; pip install 's7-ssm[walker]'")


def test_rollouts_are_concatenated(walks):
    obs, offsets, names = walks
    assert obs.dtype == np.float32
    assert obs.shape == (offsets[-1], 17)
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    assert names.tolist() == ["rollout_000.npy", "rollout_001.npy", "rollout_002.npy"]
    lengths = np.diff(offsets)
    assert lengths.min() > 100
    assert lengths.max() <= 200


def test_it_starts_standing_stays_up_and_walks_forward(walks):
    assert np.isfinite(walks.obs).all()
    starts = walks.obs[walks.offsets[:-1]]
    np.testing.assert_allclose(starts[:, :2], [[1.25, 0]] * 3, atol=0.006)
    height, pitch, speed = walks.obs[:, 0], walks.obs[:, 1], walks.obs[:, 8]
    assert height.min() > 0.8
    assert np.abs(pitch).max() < 1
    assert speed.mean() > 0.3
    # Both knees bend and stretch: the robot walks and does not slide.
    assert walks.obs[:, [3, 6]].std(0).min() > 0.1


def test_a_walk_depends_on_the_seed_and_its_place_only(walks):
    heard = []
    again = generate(2, seed=1, steps=60, watch=lambda done, of: heard.append((done, of)))
    assert heard == [(1, 2), (2, 2)]
    np.testing.assert_array_equal(again.offsets, [0, 60, 120])
    for n in range(2):
        np.testing.assert_array_equal(again.obs[60 * n : 60 * n + 60], walks.obs[walks.offsets[n] :][:60])
    other = generate(1, seed=2, steps=60)
    assert not np.array_equal(other.obs[:60], again.obs[:60])
    assert not np.array_equal(again.obs[:60], again.obs[60:])


def some_rollouts():
    """Rollouts that need no physics."""
    return Rollouts(np.ones((5, 17), np.float32), np.array([0, 2, 5]), np.array(["rollout_000.npy", "rollout_001.npy"]))


def test_a_file_round_trips(tmp_path):
    data = some_rollouts()
    path = write(tmp_path / "new" / "walker.npz", data)
    with np.load(path) as file:
        for name, array in data._asdict().items():
            np.testing.assert_array_equal(file[name], array)
    assert [p.name for p in path.parent.iterdir()] == ["walker.npz"]


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = write(tmp_path / "walker.npz", some_rollouts())
    before = path.read_bytes()

    def full(handle):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write(path, some_rollouts())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["walker.npz"]


@pytest.mark.parametrize("missing", ["gymnasium", "mujoco", "imageio"])
def test_without_mujoco_the_error_names_the_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=r"needs MuJoCo; pip install 's7-ssm\[walker\]'$"):
        generate(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "rollouts=0 must be at least 1"), ((1, -1), "seed=-1 must be at"), ((1, 0, 0), "steps=0 must be at")],
)
def test_invalid_numbers_of_rollouts_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate(*arguments)
