"""One new file outside of the package adds a class of every kind: used, trained, saved and loaded elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import s7

PLUGIN = '''
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

import s7
from s7.events.recordings import Events


@dataclass(frozen=True)
class Leaky(s7.Stable):
    """A transition with a fixed extra leak."""

    leak: float = 0.1

    def rate(self, w):
        return super().rate(w) + self.leak


@dataclass(frozen=True)
class Half(s7.Static):
    """A form that halves its outputs."""

    def output(self, parameters, x, u):
        return super().output(parameters, x, u) / 2


@dataclass(frozen=True)
class Squares(s7.LinearEncoder):
    """An encoder of squares."""

    def __call__(self, parameters, inputs):
        return super().__call__(parameters, inputs**2)


@dataclass(frozen=True)
class Mean(s7.Mean):
    """A head with the name of a built-in one."""

    def read(self, parameters, memory):
        return super().read(parameters, memory) + 100


@dataclass(frozen=True)
class Absolute(s7.Objective):
    """The mean absolute error, as loss and metric."""

    metric = "mae"

    @property
    def outputs(self):
        return 1

    def values(self, outputs, targets):
        error = jnp.mean(jnp.abs(outputs - targets), -1)
        return {"loss": error, "mae": error}


@dataclass(frozen=True)
class Same(s7.Augmentation):
    """An augmentation that changes nothing."""

    def longest(self, lengths):
        return lengths

    def __call__(self, samples, chosen, seed, epoch):
        return samples.take(chosen)


class Loop(s7.Backend, name="loop"):
    """The recurrence by lax.scan."""

    def recurrence(self, a, v, initial, reverse):
        def step(x, av):
            x = av[0] * x + av[1]
            return x, x

        return lax.scan(step, initial, (a, v), reverse=reverse)[1]


class Plain(s7.EventFormat, name="plain"):
    """Rows of x y p t."""

    extensions = (".plain",)

    def read(self, path):
        x, y, p, t = np.loadtxt(path, ndmin=2).T
        return Events(*(q.astype(int) for q in (x, y, p)), t)
'''

TRAIN = """
import jax, numpy as np, s7, outside
x = np.random.default_rng(0).normal(size=(8, 6, 2)).astype(np.float32)
y = x.mean((1, 2))[:, None] + 100
model = s7.S7Model(encoder=outside.Squares(2), head=outside.Mean(1), transition=outside.Leaky(), form=outside.Half(),
                   width=4, state=3, depth=1, key=jax.random.key(0))
with s7.backend("loop"):
    trained = s7.train(model, (x, y), (x, y), objective=outside.Absolute(), augmentation=outside.Same(), epochs=1,
                       progress=False)
assert "mae" in trained.history[-1]["valid"]
s7.save(trained.model, "model.safetensors")
np.save("x.npy", x[0])
np.save("y.npy", trained.model(x[0]))
"""

LOAD = """
import numpy as np, s7
from s7.events.formats import find_format
from pathlib import Path
model = s7.load("model.safetensors")
assert type(model.config.head).__module__ == "outside"
assert np.asarray(model(np.load("x.npy"))).tobytes() == np.load("y.npy").tobytes()
assert "loop" in s7.backends()
Path("a.plain").write_text("1 2 0 0.5\\n")
assert find_format(Path("a.plain")).read(Path("a.plain")).x.tolist() == [1]
"""


def run(code, folder, **environment):
    paths = os.pathsep.join([str(folder), str(Path(s7.__file__).parents[1])])
    env = os.environ | {"PYTHONPATH": paths} | environment
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)


def test_classes_of_a_users_file_are_trained_saved_and_loaded_in_another_process(tmp_path):
    (tmp_path / "outside.py").write_text(PLUGIN)
    done = run(TRAIN, tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "y.npy")[0] > 50
    done = run(LOAD, tmp_path)
    assert "import outside first, or set S7_PLUGINS=outside" in done.stderr
    done = run(LOAD, tmp_path, S7_PLUGINS="outside")
    assert done.returncode == 0, done.stderr
