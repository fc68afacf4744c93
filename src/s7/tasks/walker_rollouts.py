"""Simulated rollouts of a walking robot, as a substitute for the Walker2d data: 17 numbers every 8 ms until it falls.

    φ = φ0 + ω t,  the other leg at φ + π                               the clock of a leg
    hip   = h0 + h1 sin φ + (p0 + p1 cos φ) pitch + (r0 + r1 cos φ) pitch' + (s0 + s1 cos φ) (speed − v)
    knee  = k0 + k1 sin(φ + k2)
    ankle = a0 + a1 sin(φ + a2) + a3 pitch
    torque = clip(stiffness (wanted − angle) − damping angle', −1, 1)

The body, the observations and the file layout are those of the ODE-LSTM data: MuJoCo's Walker2d, with height and
angles, then velocities clipped to ±10. A rollout starts in an upright position and ends before the robot falls or after
`steps`. The policy is the formula above, not the published one, and the gait is slower and smoother: the speed is 1.2
m/s instead of 2.2 m/s, and the mean squared change between steps is 0.9 instead of 4.3. Errors are therefore not
comparable with published ones.
"""

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from math import cos, pi, sin
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from s7.data.folder import save_arrays

STEP = 0.008  # seconds: four steps of the physics
# The variation between rollouts: each number of the gait varies by about 2 %, and in 3 % of the steps all torques are
# random.
OFF, CHANCE = 0.02, 0.03


class Gait(NamedTuple):
    """The constants of the formulas above; angles in radians, torques in hundreds of newton metres."""

    omega: float
    h0: float
    h1: float
    p0: float
    p1: float
    r0: float
    r1: float
    s0: float
    s1: float
    v: float
    k0: float
    k1: float
    k2: float
    a0: float
    a1: float
    a2: float
    a3: float
    stiffness: float
    damping: float
    ankle_stiffness: float
    ankle_damping: float


# Found by the cross-entropy method: the best 12 of 80 gaits around a mean give the next mean and spread, scored by the
# distance walked and the time before a fall, under OFF and noise of 0.05 on the torques. The search started from a
# slower gait, with a faster clock and longer steps.
WALK = Gait(
    *(10.029, -0.369, 1.088),
    *(-0.866, -0.483, 0.118, -0.088, -0.089, 0.025, 1.833),
    *(-0.447, 0.747, 2.264),
    *(0.406, 0.423, -0.027, -0.879),
    *(1.287, 0.152, 1.341, 0.067),
)


class Rollouts(NamedTuple):
    """Concatenated rollouts: rollout n is obs[offsets[n] : offsets[n + 1]]."""

    obs: Float32[np.ndarray, "N 17"]
    offsets: Int64[np.ndarray, " R1"]
    names: Shaped[np.ndarray, " R"]


def generate(
    rollouts: int = 400, seed: int = 0, steps: int = 1000, watch: Callable[[int, int], None] | None = None
) -> Rollouts:
    """Simulate `rollouts` rollouts of at most `steps` observations; `watch` is called with the number of finished ones.

    A rollout is a function of the seed and its index; `steps` only limits its length. Results may differ between
    versions of MuJoCo by rounding.
    """
    for name, value, least in (("rollouts", rollouts, 1), ("seed", seed, 0), ("steps", steps, 1)):
        if value < least:
            raise ValueError(f"walker2d: {name}={value} must be at least {least}")
    env = _gymnasium().make("Walker2d-v5", exclude_current_positions_from_observation=True, disable_env_checker=True)
    walks = []
    try:
        for n in range(rollouts):
            walk = _walk(env, np.random.default_rng([seed, n]), steps)
            walks.append(np.array(list(walk), np.float32))
            if watch is not None:
                watch(n + 1, rollouts)
    finally:
        env.close()
    offsets = np.cumsum([0, *map(len, walks)], dtype=np.int64)
    return Rollouts(np.concatenate(walks), offsets, np.array([f"rollout_{n:03}.npy" for n in range(rollouts)]))


def write(path: str | os.PathLike, data: Rollouts) -> Path:
    """Write rollouts atomically, in the .npz format of the data set."""
    path = Path(path)
    save_arrays(path, data._asdict())
    return path


def torques(gait: Gait, phase: float, obs: list[float]) -> list[float]:
    """The torques of the six motors, right leg first, before clipping. Plain floats are faster than small arrays."""
    g = gait
    pitch, angles = obs[1], obs[2:8]
    speed, pitching, turning = obs[8], obs[10], obs[11:17]
    action = []
    for leg in (0, 1):
        phi = phase + pi * leg
        c = cos(phi)
        lean = (g.p0 + g.p1 * c) * pitch + (g.r0 + g.r1 * c) * pitching + (g.s0 + g.s1 * c) * (speed - g.v)
        hip = g.h0 + g.h1 * sin(phi) + lean
        knee = g.k0 + g.k1 * sin(phi + g.k2)
        ankle = g.a0 + g.a1 * sin(phi + g.a2) + g.a3 * pitch
        q, w = angles[3 * leg : 3 * leg + 3], turning[3 * leg : 3 * leg + 3]
        action.append(g.stiffness * (hip - q[0]) - g.damping * w[0])
        action.append(g.stiffness * (knee - q[1]) - g.damping * w[1])
        action.append(g.ankle_stiffness * (ankle - q[2]) - g.ankle_damping * w[2])
    return action


def _walk(env: Any, rng: np.random.Generator, steps: int) -> Iterator[list[float]]:
    """The observations from the start to the last one before the fall."""
    obs, _ = env.reset(seed=int(rng.integers(2**31)))
    gait = Gait(*(np.array(WALK) * (1 + OFF * rng.standard_normal(len(WALK)))).tolist())
    phase = rng.uniform(0, 0.3)
    for t in range(steps):
        now = obs.tolist()
        yield now
        action = torques(gait, phase + gait.omega * STEP * t, now)
        if rng.random() < CHANCE:
            action = rng.uniform(-1, 1, 6).tolist()
        obs, _, fallen, _, _ = env.step(np.clip(action, -1, 1))
        if fallen:
            return


def _gymnasium() -> ModuleType:
    try:
        # gymnasium would report the other two as missing later, with another message.
        gymnasium, *_ = [import_module(name) for name in ("gymnasium", "mujoco", "imageio")]
    except ModuleNotFoundError as error:
        message = "walker2d: generating rollouts needs MuJoCo; pip install 's7-ssm[walker]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return gymnasium
