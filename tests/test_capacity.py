"""Models that need more memory than there is say so before they start."""

import numpy as np
import pytest

from s7 import capacity
from s7.baselines.mega import Mega
from s7.baselines.transformer import Transformer
from s7.capacity import attention_bytes, check_capacity
from s7.cli.main import main
from s7.config import build_config
from s7.data.samples import Samples
from s7.encoders import LinearEncoder
from s7.heads import Mean
from s7.job import Job
from s7.tasks import Problem
from s7.training.objectives import CrossEntropy

GIVEN = {"encoder": LinearEncoder(1), "head": Mean(2)}
STAGES = [{"depth": 1, "stride": 4}, {"depth": 2}]


def config(layer=None, **settings):
    return build_config({"stages": STAGES, "layer": layer, **settings}, "model", GIVEN)


def test_attention_is_quadratic_in_the_length():
    layer = Transformer(heads=4)
    # The first block compares 1,000 events with 250 outputs; the others 250 events with each other.
    assert attention_bytes(config(layer), 1000, 8, training=True) == 3 * 8 * 4 * 1000 * 250 * 4
    assert attention_bytes(config(layer, bidirectional=True), 1000, 8, training=False) == 2 * 8 * 2 * 4 * 1000 * 250 * 4
    assert attention_bytes(config(Mega()), 1000, 1, training=False) == 2 * 1000 * 1000 * 4
    assert attention_bytes(config(Mega(chunk=64)), 1000, 1, training=True) == 0
    assert attention_bytes(config(), 10**9, 64, training=True) == 0


def problem(length):
    samples = Samples.of(np.zeros((2, length, 1), np.float32), np.zeros(2, int))
    return Problem(samples, samples, samples, *GIVEN.values(), CrossEntropy(2))


def test_the_message_names_the_memory(monkeypatch):
    monkeypatch.setattr(capacity, "memory_bytes", lambda: 10**9)
    check_capacity("transformer", config(Transformer()), problem(1000), 2, test=True)
    message = (
        "transformer: attention over 20,000 events needs about 10 GB for a batch of 2, more than the 1 GB of this "
        "machine; use smaller batches, pool more, or another model"
    )
    with pytest.raises(ValueError, match=message):
        check_capacity("transformer", config(Transformer()), problem(20_000), 2, test=True)


def test_which_models_depend_on_the_data():
    found = {model for model in ("s7", "transformer", "mega", "cnn-s5", "lstm") if Job("nmnist", model).depends_on_data}
    assert found == {"transformer", "mega", "cnn-s5"}


def test_a_comparison_reports_it_before_anything_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(capacity, "memory_bytes", lambda: 10**6)
    options = ["--seeds", "1", "--epochs", "1", "--out", str(tmp_path / "out"), "--data", str(tmp_path)]
    assert main(["compare", "fitzhugh-nagumo", "--models", "s7,mega", *options]) == 2
    assert "mega: attention over 1,000 events needs about" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["compare", "fitzhugh-nagumo", "--models", "s7,cnn-s5", *options]) == 2
    assert "the inputs of this task are not tokens; choose another model" in capsys.readouterr().err
