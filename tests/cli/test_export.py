"""`s7 export`."""

import json

import jax
import pytest

import s7
from s7 import native
from s7.cli.main import main
from tests.edge import fixtures


@pytest.fixture
def run(capsys):
    """Runs a command in this process and returns its status, stdout and stderr."""

    def call(*arguments):
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a small model."""
    folder = tmp_path_factory.mktemp("model")
    s7.save(fixtures.models()["camera"], folder)
    return folder


def test_edge(run, saved, tmp_path):
    status, out, err = run("export", saved, "--to", "edge", "--out", tmp_path, "--json")
    assert status == 0, err
    result = json.loads(out)
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "golden.safetensors", "README.md"}
    assert len(result["files"]) == 3
    if native.available():
        assert result["difference"] < 1e-5


@pytest.mark.skipif(not native.available(), reason="no native kernels")
def test_a_difference_as_large_as_rounding_errors_is_reported(run, saved, tmp_path, monkeypatch):
    monkeypatch.setattr("s7.cli.export.TOLERANCE", 1e-12)
    status, out, err = run("export", saved, "--to", "edge", "--out", tmp_path)
    assert status == 0, err
    error = float(out.split("JAX in float32 differs from float64 by ")[1])
    assert 1e-9 < error < 1e-6
    monkeypatch.setattr("s7.export.edge.rounding_error", lambda model: error / 1e3)
    status, _, err = run("export", saved, "--to", "edge", "--out", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert "model.safetensors: libs7 differs from JAX by" in err


def test_stablehlo(run, saved, tmp_path):
    status, out, err = run("export", saved, "--to", "stablehlo", "--out", tmp_path)
    assert status == 0, err
    assert "step.stablehlo" in out


def test_errors_are_one_line(run, saved, tmp_path):
    status, _, err = run("export", saved, "--to", "stablehlo", "--out", tmp_path, "--time-unit", "s")
    assert (status, err.count("\n")) == (2, 1)
    assert "--time-unit is for --to edge" in err
    model = s7.S7Model(
        encoder=s7.TokenEncoder(3), head=s7.Mean(1), bidirectional=True, width=4, state=2, key=jax.random.key(0)
    )
    path = s7.save(model, tmp_path / "both.safetensors")
    status, _, err = run("export", path, "--to", "edge", "--out", tmp_path / "out")
    assert (status, err.count("\n")) == (2, 1)
    assert "both.safetensors: s7.Stream cannot run a bidirectional model" in err
    assert not (tmp_path / "out").exists()


def test_onnx(run, saved, tmp_path):
    pytest.importorskip("onnx")
    status, out, err = run("export", saved, "--to", "onnx", "--out", tmp_path)
    assert status == 0, err
    assert "model.onnx" in out
