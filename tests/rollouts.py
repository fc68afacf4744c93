"""Small data sets in the format of walker2d."""

from pathlib import Path

import numpy as np


def write_rollouts(folder: Path) -> Path:
    """Write a few short rollouts to a data folder and return the folder."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(100, 160, 20)
    obs = np.cumsum(rng.normal(size=(lengths.sum(), 17)), 0).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = np.array([f"rollout_{n:03d}.npy" for n in range(20)])
    (folder / "walker2d").mkdir()
    np.savez(folder / "walker2d" / "rollouts.npz", obs=obs, offsets=offsets, names=names)
    return folder
