"""The report: pages show the contents of run folders and are self-contained."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

import s7
from s7.publishing.plots import envelope, thin
from s7.publishing.text import duration, metric_mean_std, number
from s7.report import write
from s7.report.comparison import grouped, winner
from s7.report.layer_views import layer_views, one_sequence
from s7.report.run import Example, read

VOID = {"meta", "link", "br", "img", "input", "hr"}
LENGTH = 40


class Page(HTMLParser):
    """Reads a page: complains of tags that are not closed, keeps the attributes and the text."""

    def __init__(self, path: Path):
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.parts: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.parts.append(data)

    @property
    def text(self) -> str:
        """All that can be read."""
        return " ".join(" ".join(self.parts).split())

    def ids(self) -> list[str]:
        """Every id, in order."""
        return [value for _, name, value in self.attributes if name == "id"]


def page_of(folder: Path, *runs: Path) -> Page:
    """The report of the runs, after checks that apply to every report."""
    page = Page(write(list(runs), folder / "page" / "report.html"))
    assert "http:" not in page.source
    assert "https:" not in page.source
    for tag, name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            assert value.startswith(("#", "data:image/png;base64,")), f"{tag} {name}={value[:60]}"
    assert "script" not in {tag for tag, _, _ in page.attributes}
    assert len(set(page.ids())) == len(page.ids())
    for _, name, value in page.attributes:
        if name == "aria-labelledby":
            assert value in page.ids()
        if name == "href" and value.startswith("#"):
            assert value[1:] in page.ids()
        if name == "clip-path":
            assert value.removeprefix("url(#").removesuffix(")") in page.ids()
    assert not re.search(r"#0101[0-9a-f]{2}", page.source), "a stand-in was left in place of a colour"
    assert [path.name for path in (folder / "page").iterdir()] == ["report.html"], "the draft is gone"
    return page


def make_run(folder: Path, *, seed: int = 0, metric: str = "mse", finished: bool = True, **result: Any) -> Path:
    """A run's folder without models."""
    folder.mkdir(parents=True)
    model = result.pop("model", "s7")
    head = f'format = 1\ntask = "walker2d"\npreset = "ours"\nprotocol = "strict"\nseed = {seed}\n'
    sections = f'[model]\nkind = "{model}"\nform = {{kind = "Factored", rank = 8}}\n[train]\nepochs = 4\nrate = 0.002\n'
    (folder / "config.toml").write_text(f'{head}\n[data]\nnote = "<b>&amp;"\n{sections}')
    lines = []
    for epoch in range(1, 5 if finished else 3):
        value = 0.5 / epoch + 0.01 * seed if metric == "mse" else 1 - 0.5 / epoch
        values = {"loss": 0.7 / epoch**1.5, metric: value}
        times = {"epoch": epoch, "step": 10 * epoch, "seconds": 2.5 * epoch, "rate": 0.002 / epoch}
        lines.append(times | {"train": values, "valid": values, "best": True})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if finished:
        about = {"task": "walker2d", "title": "Walker, one <step> ahead", "model": model, "preset": "ours"}
        about |= {"protocol": "strict", "protocol_note": "All of the test set counts.", "seed": seed}
        numbers: dict[str, Any] = {
            "parameters": 12345,
            "epochs": 4,
            "best_epoch": 4,
            "seconds": 754.2,
            "steps_per_second": 31.25,
        }
        numbers |= {"peak_memory_mb": 812, "metric": metric, "better": "min" if metric == "mse" else "max"}
        measured = {"valid": lines[-1]["valid"], "test": {"loss": 0.1, metric: 0.1234 + 0.01 * seed}, "baselines": {}}
        around = {"objective": "MeanSquared", "data_sha256": {"train": "ab12" * 16}, "machine": "a <machine>"}
        versions = {"versions": {"s7": "0.1.0", "jax": "0.10.2"}}
        whole = about | numbers | measured | around | versions | result
        (folder / "result.json").write_text(json.dumps(whole))
    return folder


def save_examples(folder: Path, examples: list[dict[str, np.ndarray]], **about: Any) -> None:
    """The file that `s7 train` writes."""
    arrays = {f"{n}.{name}": array for n, example in enumerate(examples) for name, array in example.items()}
    save_file(arrays, folder / "examples.safetensors", metadata={"s7": json.dumps(about)})


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    """Numbers."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def regression(tmp_path_factory, rng) -> Path:
    """A number at each of 40 steps."""
    folder = make_run(tmp_path_factory.mktemp("regression") / "run", baselines={"persistence": {"mse": 0.4936}})
    settings: dict[str, Any] = {"width": 4, "state": 3, "depth": 1}
    for seed, name in enumerate(("initial", "best")):
        model = s7.S7Model(
            encoder=s7.LinearEncoder(2), head=s7.PerStep(outputs=4), key=jax.random.key(seed), **settings
        )
        s7.save(model, folder / f"{name}.safetensors")
    targets = rng.normal(size=(LENGTH, 4)).astype(np.float32) * np.array([1, 0, 2, 3], np.float32)
    inputs = rng.normal(size=(LENGTH, 2)).astype(np.float32)
    example = {"inputs": inputs, "targets": targets, "outputs": targets + np.float32(0.1)}
    save_examples(folder, [example] * 3, columns=["x", "still", "$y$ <i>", "z"], about="Units are <metres>.")
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory, regression) -> Page:
    """Its report."""
    return page_of(tmp_path_factory.mktemp("page"), regression)


def test_regression(page):
    for told in ("Walker, one <step> ahead", "0.1234", "0.125", "12,345 parameters", "12 min 34 s", "persistence"):
        assert told in page.text
    assert "(4×)" in page.text  # 0.4936 / 0.1234
    assert "All of the test set counts." in page.text
    assert "s7 train walker2d --preset ours --protocol strict --seed 0" in page.text
    assert "ab12" * 16 in page.text
    assert "Units are <metres>." in page.text
    # The columns that vary, named as they are, a dollar and all.
    assert "$y$ <i>" in page.text
    assert "still" not in page.text
    for name in ("training", "predictions", "memory", "selectivity", "settings"):
        assert name in page.ids()
    assert "block 1" in page.text
    assert "form.kind Factored" in page.text


def test_text_is_escaped(page):
    assert "a <machine>" in page.text
    assert "<machine>" not in page.source
    assert "<metres>" not in page.source
    assert "<b>&amp;" in page.text  # of config.toml, as it stands there
    assert "&lt;b&gt;&amp;amp;" in page.source


def test_uncertain_pictures(tmp_path, rng):
    folder = make_run(tmp_path / "run", objective="GaussianNLL")
    model = s7.S7Model(
        encoder=s7.ImageEncoder((8, 8, 1), channels=2, scale=255.0),
        head=s7.PerStep(outputs=4),
        transition=s7.Stable(oscillate=True),
        bidirectional=True,
        width=4,
        state=2,
        depth=1,
        key=jax.random.key(0),
    )
    s7.save(model, folder / "best.safetensors")
    targets = rng.normal(size=(20, 2)).astype(np.float32)
    wide = np.concatenate([targets, np.full((20, 2), 3, np.float32)], 1)
    example = {"inputs": rng.integers(0, 255, (20, 8, 8, 1), np.uint8), "dt": np.full(20, 0.5, np.float32)}
    save_examples(folder, [example | {"targets": targets, "outputs": wide}])
    page = page_of(tmp_path, folder)
    assert "100.0% of the targets" in page.text
    assert page.source.count("data:image/png;base64,") == 24  # a strip over the traces, one over the selection
    assert "block 1 →" in page.text
    assert "block 1 ←" in page.text
    assert "in the unit of the gaps" in page.text
    assert "initial" not in page.text  # there is no model from before training


def test_classes_of_tokens(tmp_path, rng):
    classes = ["no", "yes & <maybe>", "off"]
    confusion = [[90, 10, 0], [7, 93, 0], [1, 0, 49]]
    folder = make_run(
        tmp_path / "run", metric="accuracy", objective="CrossEntropy", classes=classes, confusion=confusion
    )
    model = s7.S7Model(
        encoder=s7.EventEncoder((3, 4)),
        head=s7.Mean(outputs=3),
        transition=s7.Step(),
        stages=(s7.Stage(1), s7.Stage(1, stride=4, width=6)),
        width=4,
        state=2,
        key=jax.random.key(0),
    )
    for name in ("initial", "best"):
        s7.save(model, folder / f"{name}.safetensors")
    gaps = rng.exponential(size=LENGTH + 1).astype(np.float32)
    tokens = rng.integers(0, 24, LENGTH + 1).astype(np.int32)
    example = {"inputs": tokens, "dt": gaps, "targets": np.asarray([1]), "outputs": np.float32([0, 2, 0])}
    save_examples(folder, [example])
    page = page_of(tmp_path, folder)
    assert "12.34 %" in page.text  # the accuracy on the test set
    assert "90.0 %" in page.text  # of the first class
    assert "250 test predictions, 92.80 % correct" in page.text
    assert "no taken for yes & <maybe> (10)" in page.text
    assert "✓ yes & <maybe>" in page.text
    assert "block 2" in page.text


def test_many_classes_are_percent(tmp_path):
    confusion = np.eye(20, dtype=int) * 150 + np.eye(20, k=1, dtype=int) * 50
    page = page_of(tmp_path, make_run(tmp_path / "run", metric="accuracy", confusion=confusion.tolist(), classes=[]))
    assert "Cells are percent of their row" in page.text
    assert "0 75.0 % 200 75 25 1" in page.text  # the first row: name, right, of, cells; the next row's name


@pytest.mark.parametrize("per_step", [True, False])
def test_other_answers(tmp_path, rng, per_step):
    """Classes along a sequence, and a number for all of it."""
    folder = make_run(tmp_path / "run", classes=["a", "b"], objective="CrossEntropy" if per_step else "GaussianNLL")
    inputs = rng.normal(size=(LENGTH, 2)).astype(np.float32)
    if per_step:
        example = {"targets": np.arange(LENGTH) % 2, "outputs": rng.normal(size=(LENGTH, 2)).astype(np.float32)}
    else:
        example = {"targets": np.float32([1.25]), "outputs": np.float32([1.5, 0])}
    save_examples(folder, [{"inputs": inputs} | example], split="valid")
    page = page_of(tmp_path, folder)
    assert ("A validation sequence" if per_step else "1 1.25 1.5 ± 1.665") in page.text
    assert "no best.safetensors" in page.text


def test_another_architecture(tmp_path, rng):
    folder = make_run(tmp_path / "run", model="lstm")
    numbers = rng.normal(size=(LENGTH, 1)).astype(np.float32)
    save_examples(folder, [{"inputs": numbers, "targets": numbers, "outputs": numbers}])
    save_file({"W": numbers}, folder / "best.safetensors")
    page = page_of(tmp_path, folder)
    assert "the model cannot be loaded" in page.text
    assert "--model lstm" in page.text


def test_unfinished(tmp_path):
    page = page_of(tmp_path, make_run(tmp_path / "run", finished=False))
    assert "unfinished 2 of 4 epochs done" in page.text
    assert "0.25 MSE on the validation set, so far (epoch 2)" in page.text


def test_just_begun(tmp_path):
    folder = make_run(tmp_path / "run", finished=False)
    (folder / "metrics.jsonl").unlink()
    assert "No epoch has finished yet" in page_of(tmp_path, folder).text


def test_started_from_python(tmp_path):
    """`s7.train(out=…)` writes no config.toml, knows of no task and may have no test set."""
    folder = make_run(tmp_path / "run", task="", title="", preset="", protocol="", test={})
    (folder / "config.toml").unlink()
    page = page_of(tmp_path, folder)
    assert "0.125 MSE on the validation set" in page.text
    assert "s7 train" not in page.text


def test_several(tmp_path):
    runs = [make_run(tmp_path / f"s7-{seed}", seed=seed) for seed in range(3)]
    runs += [make_run(tmp_path / "lstm", model="lstm", valid={"mse": 0.9}, test={"mse": 0.8})]
    runs += [make_run(tmp_path / "late", seed=3, finished=False)]
    page = page_of(tmp_path, *runs)
    assert "0.133 ± 0.010 MSE on the test set over 3 seeds, s7: best on the validation set" in page.text
    assert "5 runs in 2 groups" in page.text
    assert "1 run is unfinished" in page.text
    assert "s7 3 of 4 12,345 0.135 ± 0.010 0.133 ± 0.010" in page.text
    assert "model.kind s7 lstm" in page.text
    assert "All runs (5)" in page.text


def test_several_tasks(tmp_path):
    runs = [make_run(tmp_path / "one"), make_run(tmp_path / "two", task="listops", metric="accuracy")]
    page = page_of(tmp_path, *runs)
    assert "2 tasks, 2 runs" in page.text
    assert "Comparison: listops" in page.text


def test_groups_and_their_best(tmp_path):
    good, bad = make_run(tmp_path / "good", seed=1), make_run(tmp_path / "bad", model="gru", valid={"mse": 7.0})
    groups = grouped([read(bad), read(good)])
    assert [group[0].group.model for group in groups] == ["gru", "s7"]
    assert winner(groups) == 1


def test_factors_are_those_of_the_layer(regression):
    """The figure shows the values of `matrices`."""
    model, run = s7.load(regression / "best.safetensors"), read(regression)
    block, inputs = model.blocks[0], run.examples[0].inputs
    u = model.config.encoder(model.encoder, jax.numpy.asarray(inputs))
    u = block.norm.prepare(u, None, None)[0](u)
    matrices = block.layer.matrices(u)
    (seen,) = layer_views(model, run.examples[0])
    np.testing.assert_allclose(seen.factor, np.abs(matrices.transition), rtol=1e-5)
    np.testing.assert_allclose(np.exp(-1 / seen.tau), np.abs(matrices.transition), rtol=1e-4)
    static = np.einsum("ph,lh->lp", block.layer.maps["B"], u)
    W_B, _ = block.layer.form.selected_matrices(block.layer.maps, u)
    selected = np.einsum("lph,lh->lp", W_B, u)
    np.testing.assert_allclose(
        seen.selective["B"], np.linalg.norm(selected, axis=1) / np.linalg.norm(static, axis=1), rtol=1e-4
    )
    direct = np.einsum("lhi,li->lh", matrices.D, u) - block.layer.maps["D"] * u
    np.testing.assert_allclose(
        seen.selective["D"],
        np.linalg.norm(direct, axis=1) / np.linalg.norm(block.layer.maps["D"] * u, axis=1),
        rtol=1e-4,
    )


def test_an_example_that_does_not_fit(tmp_path, regression):
    folder = make_run(tmp_path / "run")
    (folder / "best.safetensors").write_bytes((regression / "best.safetensors").read_bytes())
    odd = np.zeros((LENGTH, 5), np.float32)
    save_examples(folder, [{"inputs": odd, "targets": odd, "outputs": odd}])
    assert "the example does not fit the model" in page_of(tmp_path, folder).text


def test_thinning_keeps_peaks_and_gaps():
    y = np.sin(np.arange(100_000) / 50)
    y[31_234], y[77_777] = 9, -9
    y[50_000:60_000] = np.nan
    x, thinned = thin(np.arange(len(y)), y)
    assert len(thinned) <= 2000
    assert (np.diff(x) > 0).all()
    assert (np.nanmax(thinned), np.nanmin(thinned)) == (9, -9)
    assert np.isnan(thinned).any()
    _, low, high = envelope(np.arange(len(y)), y - 1, y + 1)
    assert (np.nanmin(low), np.nanmax(high)) == (-10, 10)


def test_words():
    assert [duration(q) for q in (3.14, 75, 125, 7300)] == ["3.1 s", "75 s", "2 min 05 s", "2 h 01 min"]
    assert [number(q) for q in (0, 12, 0.123456, 1.5e-6, 123456.7)] == ["0", "12", "0.1235", "1.5e-06", "123,457"]
    assert metric_mean_std("mse", [1e-5, 2e-5]) == "(1.50 ± 0.71)e-05"
    assert metric_mean_std("accuracy", [0.9, 0.92]) == "91.0 ± 1.4 %"
    assert metric_mean_std("mse", [0.5]) == "0.5"


def test_a_long_run_makes_a_small_page(tmp_path, rng):
    folder = make_run(tmp_path / "run")
    numbers = rng.normal(size=(20_000, 3)).astype(np.float32)
    save_examples(folder, [{"inputs": numbers, "targets": numbers, "outputs": numbers + 1}] * 3)
    assert len(page_of(tmp_path, folder).source) < 600_000


@pytest.mark.usefixtures("as_users_see_it")
class TestErrors:
    """One line that names the file and a remedy."""

    def test_no_runs(self, tmp_path):
        with pytest.raises(ValueError, match="at least one run"):
            write([], tmp_path / "report.html")

    def test_not_a_run(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"nothing: no such folder; give a folder that `s7 train` wrote"):
            write([tmp_path / "nothing"], tmp_path / "report.html")
        with pytest.raises(FileNotFoundError, match=r"not a run's folder \(it has none of config.toml"):
            write([tmp_path], tmp_path / "report.html")

    @pytest.mark.parametrize(
        "line", ["{", "[1, 2]", '{"epoch": 1}', '{"epoch": "x", "train": {}, "valid": {}}', "\x00"]
    )
    def test_a_bad_line(self, tmp_path, line):
        folder = make_run(tmp_path / "run")
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(ValueError, match=r"metrics.jsonl, line 5: not an epoch; each line is a JSON object"):
            write([folder], tmp_path / "report.html")

    @pytest.mark.parametrize("name", ["config.toml", "result.json", "examples.safetensors"])
    def test_a_bad_file(self, tmp_path, name):
        folder = make_run(tmp_path / "run")
        (folder / name).write_text("= = =")
        with pytest.raises(ValueError, match=rf"{name}: [^\n]*$"):
            write([folder], tmp_path / "report.html")
        assert not (tmp_path / "report.html").exists()

    def test_an_example_in_parts(self, tmp_path):
        folder = make_run(tmp_path / "run")
        save_file({"0.inputs": np.zeros(3)}, folder / "examples.safetensors")
        with pytest.raises(ValueError, match="sequence 0 has no targets, outputs"):
            write([folder], tmp_path / "report.html")

    def test_out_is_a_folder(self, tmp_path):
        with pytest.raises(ValueError, match=r"a folder; give the name of a file, such as .*report.html"):
            write([make_run(tmp_path / "run")], tmp_path)

    def test_no_matplotlib(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(
            ValueError, match=r"^the report needs matplotlib, which is not installed: pip install 's7-ssm\[report\]'$"
        ):
            write([make_run(tmp_path / "run")], tmp_path / "report.html")


def test_pairs_are_seen_by_their_first_document(rng):
    model = s7.S7Model(
        encoder=s7.TokenEncoder(9), head=s7.Retrieval(), width=4, state=2, depth=1, key=jax.random.key(0)
    )
    tokens = rng.integers(0, 9, (2, 12)).astype(np.int32)
    example = one_sequence(model, Example(tokens, None, np.asarray(1), np.zeros(2, np.float32)))
    (seen,) = layer_views(model, example)
    assert seen.factor.shape == (12, 2)
