"""One new file outside of the package adds a class of every kind: used, trained, saved and loaded elsewhere."""

import json
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
from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import draw
from s7.tasks import Problem, Task


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


@dataclass(frozen=True)
class Drift(Cell):
    """The layer of a baseline: a leaky sum of its inputs."""

    leak: float = 0.5

    def init(self, units, *, key, dtype):
        return draw({"W": ((units, units), 0.5), "b": ((units,), 0.1)}, key=key, dtype=dtype)

    def advance(self, parameters, drive, state, dt):
        return (self.leak * state[0] + drive,)


class DriftModel(Architecture, name="drift"):
    """A leaky sum."""

    settings = bare(Drift)


@dataclass(frozen=True)
class Hits(s7.CrossEntropy):
    """Cross-entropy with a metric of its own: the percentage of correct answers."""

    metric = "hits"

    def summary(self, means):
        return means | {"hits": 100 * means["accuracy"]}


@dataclass(frozen=True)
class Signs(Task):
    """A task: the sign of the sum of a sequence."""

    name = "signs"
    title = "The sign of a sum"
    source = "drawn at random"
    settings = {"model": {"width": 4, "depth": 1}, "train": {"epochs": 2, "batch_size": 8}}
    samples: int = 24

    def load(self, folder, protocol, say):
        x = np.random.default_rng(0).normal(size=(self.samples, 6, 1)).astype(np.float32)
        y = (x.sum((1, 2)) > 0).astype(int)
        splits = [s7.Samples.of(x[part], y[part]) for part in (slice(0, 16), slice(16, 20), slice(20, None))]
        return Problem(*splits, encoder=s7.LinearEncoder(1), head=s7.Last(2), objective=Hits(2))


class Plain(s7.EventFormat, name="plain"):
    """Rows of x y p t."""

    extensions = (".plain",)

    def blocks(self, path):
        x, y, p, t = np.loadtxt(path, ndmin=2, dtype=int).T
        yield s7.Events(x, y, t, p)
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
from pathlib import Path
model = s7.load("model.safetensors")
assert type(model.config.head).__module__ == "outside"
assert np.asarray(model(np.load("x.npy"))).tobytes() == np.load("y.npy").tobytes()
assert "loop" in s7.backends()
Path("a.plain").write_text("1 2 0 5\\n")
assert s7.read_events("a.plain").x.tolist() == [1]
"""


LOAD_RUN = """
import jax, numpy as np, s7
model = s7.load("run")
assert type(model.config.layer).__module__ == "outside"
result = s7.evaluate(model, (np.ones((4, 6, 1), np.float32), np.ones(4, int)))
assert "accuracy" in result
"""


def run(code, folder, **environment):
    return start(["-c", code], folder, **environment)


def start(arguments, folder, **environment):
    paths = os.pathsep.join([str(folder), str(Path(s7.__file__).parents[1])])
    env = os.environ | {"PYTHONPATH": paths} | environment
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True)


def test_classes_of_a_users_file_are_trained_saved_and_loaded_in_another_process(tmp_path):
    (tmp_path / "outside.py").write_text(PLUGIN)
    done = run(TRAIN, tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "y.npy")[0] > 50
    done = run(LOAD, tmp_path)
    assert "import outside first, or set S7_PLUGINS=outside" in done.stderr
    done = run(LOAD, tmp_path, S7_PLUGINS="outside")
    assert done.returncode == 0, done.stderr


def test_a_task_a_baseline_and_a_metric_of_a_users_file_are_trained_and_evaluated_by_commands(tmp_path):
    (tmp_path / "outside.py").write_text(PLUGIN)
    train = ["-m", "s7", "train", "outside:Signs", "--model", "drift", "--set", "data.samples=28", "--out", "run"]
    done = start(train, tmp_path, S7_PLUGINS="outside")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert 0 <= result["valid"]["hits"] == 100 * result["valid"]["accuracy"]
    done = start(["-m", "s7", "eval", "run", "--json"], tmp_path, S7_PLUGINS="outside")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["hits"] == result["test"]["hits"]
    done = run(LOAD_RUN, tmp_path)
    assert "import outside first, or set S7_PLUGINS=outside" in done.stderr
    done = run(LOAD_RUN, tmp_path, S7_PLUGINS="outside")
    assert done.returncode == 0, done.stderr
