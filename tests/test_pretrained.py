"""The models that come with the package: small, described, and computing what they computed when they were written."""

import json

import equinox as eqx
import numpy as np
import pytest
from safetensors.numpy import load_file

import s7
from s7 import hub, native
from s7.data.image_patches import events_of_images
from s7.publishing.text import metric_value
from s7.tasks.pathfinder_dashes import PATH_X
from s7.tasks.pathfinder_pictures import make_block
from tests.programs import ROOT

NAMES = hub.bundled_models()
STREAMING = [name for name in NAMES if name != "s7/path-x"]  # which reads in both directions
FILES = {"model.safetensors", "config.json", "README.md", "result.json"}


def folder(name):
    return hub.BUNDLED / name.partition("/")[2]


def test_they_are_small():
    assert sum(path.stat().st_size for path in hub.BUNDLED.rglob("*") if path.is_file()) < 2_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_described(name):
    golden = {"golden.safetensors"} if name in STREAMING else set()
    assert {path.name for path in folder(name).iterdir()} == FILES | golden
    result = json.loads((folder(name) / "result.json").read_text())
    card = (folder(name) / "README.md").read_text()
    front = card.split("---\n")[1]
    assert "library_name: s7-ssm\n" in front
    assert f"- {result['task']}\n" in front
    assert result["protocol"] == "strict"
    assert f"| test | {metric_value(result['metric'], result['test'][result['metric']])} |" in card
    assert f"s7 train {result['task']} " in card
    assert ("s7.Stream(" in card) == ("golden.safetensors" in card) == (name in STREAMING)


@pytest.mark.parametrize("name", STREAMING)
def test_a_model_computes_its_golden_outputs(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = s7.load(name)
    golden = load_file(folder(name) / "golden.safetensors")
    events = golden["tokens"] if "tokens" in golden else golden["inputs"]
    last = int(golden["at"][-1])
    outputs = eqx.filter_jit(model)(events[:last], golden["gaps"][:last])
    outputs = outputs[-1] if model.config.head.per_step else outputs
    np.testing.assert_allclose(outputs, golden["outputs"][-1], rtol=1e-3, atol=1e-4)
    if native.available():
        stream = s7.Stream(model)
        for start, end, wanted in zip([0, *golden["at"]], golden["at"], golden["outputs"], strict=False):
            stream.push(events[start:end], golden["gaps"][start:end])
            np.testing.assert_allclose(stream.answer(), wanted, rtol=1e-3, atol=1e-4)


def test_path_x_tells_contours_apart():
    # Images of another seed than those it was trained and tested on.
    pictures = make_block(PATH_X, 1, 0)
    events = events_of_images(pictures.images[..., None], 8, 8)
    answers = s7.predict(s7.load("s7/path-x"), list(events))
    assert np.mean(answers == np.array(["apart", "joined"])[pictures.labels]) >= 0.9


def test_the_page_lists_them():
    page = (ROOT / "docs" / "sharing.md").read_text()
    assert [name for name in NAMES if f'`s7.load("{name}")`' not in page] == []
