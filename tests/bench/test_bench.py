"""`s7 bench`: records, operation counts, pages and figures. No test depends on a speed."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7 import native
from s7.bench import (
    cases,
    implementations,
    layer,
    machine,
    materialised,
    records,
    scan,
    stream,
    timing,
    torch_layer,
)
from s7.bench.cases import LayerCase
from s7.bench.memory import peak_in_child
from s7.bench.page import write
from s7.cli.main import main
from s7.machine import usable_cores
from s7.settings import build, table_of

TINY = LayerCase(2, 6, 4, 3)
# Each backend, and the materialised version.
IMPLEMENTATIONS = len(implementations.backend_names()) + 1


@pytest.fixture
def only_xla(monkeypatch):
    """One backend, to compile less."""
    monkeypatch.setattr(stream, "backend_names", lambda: ["xla"])


@pytest.fixture
def nothing_computed(monkeypatch):
    """The command with all that takes time taken out."""
    monkeypatch.setattr(layer, "program", lambda name, case, gradient: lambda: np.ones(3))
    monkeypatch.setattr(machine, "sgemm_rate", lambda sizes, clock: 100.0)
    monkeypatch.setattr(layer, "sgemm_rate", lambda: 100.0)
    monkeypatch.setattr(torch_layer, "find", lambda: None)


@pytest.fixture(scope="module")
def layer_rows():
    """Of one tiny layer."""
    return list(layer.rows([TINY], runs=2))


@pytest.mark.parametrize(
    ("D", "transition"),
    [
        ("diagonal", s7.Stable(gain="rate")),
        ("full", s7.Stable(gain=None)),
        ("static", s7.Stable(a=2.0, b=0.75, gain="variance")),
    ],
)
def test_the_materialised_version_is_the_layer(D, transition, key):
    one = s7.S7Layer(4, 3, key=key, transition=transition, form=s7.Full(D=D), dtype=jnp.float64)
    u = jax.random.normal(key, (6, 4), jnp.float64)

    def values(call):
        return jax.jit(jax.value_and_grad(lambda layer, u: jnp.sum(jnp.sin(call(layer, u))), (0, 1)))(one, u)

    ours, plain = values(lambda layer, u: layer(u)[0]), values(materialised.call)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("settings", [{"transition": s7.Plain()}, {"form": s7.Static()}])
def test_the_materialised_version_rejects_unsupported_settings(settings, key):
    one = s7.S7Layer(4, 3, key=key, **settings)
    with pytest.raises(ValueError, match="is supported, not"):
        materialised.call(one, jnp.zeros((6, 4)))


def test_rows_have_all_fields_and_agree_with_themselves(layer_rows):
    assert [row["implementation"] for row in layer_rows] == [*implementations.backend_names(), "materialised"]
    for row in layer_rows:
        assert (row["batch"], row["length"], row["width"], row["state"]) == (2, 6, 4, 3)
        assert (row["tasks"], row["D"], row["gain"]) == ([], "diagonal", "rate")
        assert row["skipped"] is None
        assert row["memory_mb"] is None
        for name, count in (("forward", 4 * 3 * 4**2), ("gradient", 3 * 4 * 3 * 4**2)):
            assert row[f"{name}_ratio"] == pytest.approx(row[f"{name}_ns"] / layer_rows[0][f"{name}_ns"])
            assert row[f"{name}_gflops"] == pytest.approx(count / row[f"{name}_ns"])
            assert row[f"{name}_of_sgemm"] == pytest.approx(row[f"{name}_gflops"] / row["sgemm_gflops"])


def test_the_native_backend_is_preferred_if_available(monkeypatch):
    monkeypatch.setattr(s7, "backends", lambda: {"xla": "", "parallel": "", "native": ""})
    assert implementations.backend_names() == ["native", "xla", "parallel"]


def test_what_would_not_fit_is_skipped(monkeypatch, nothing_computed):
    big = LayerCase(1, 131_072, 120, 64, form=s7.Full(D="full"))
    assert 131_072 * (2 * 64 * 120 + 120**2) * 4 * 6 > 4e9
    assert layer.too_large(big)
    assert not layer.too_large(TINY)
    skipped = [row for row in layer.rows([big]) if row["skipped"]]
    assert [(row["implementation"], row["skipped"], row["forward_ns"]) for row in skipped] == [
        ("materialised", "too large", None)
    ]
    monkeypatch.setattr(machine, "available_memory", lambda: 1000.0)
    assert layer.too_large(TINY)


def test_implementations_that_disagree_are_not_timed(monkeypatch):
    answers = {"xla": 1.0, "parallel": 1.0, "materialised": 1.01}
    monkeypatch.setattr(layer, "program", lambda name, case, gradient: lambda: np.full(3, answers.get(name, 1.0)))
    with pytest.raises(ArithmeticError, match="materialised differs from "):
        list(layer.rows([TINY]))
    with pytest.raises(ArithmeticError, match="b differs"):
        implementations.require_agreement({"a": np.ones(2), "b": np.array([1, np.nan])}, "here")


def test_the_papers_layers_are_those_of_the_presets(monkeypatch):
    found = cases.paper_cases()
    assert {task for case in found for task in case.tasks} == set(cases.paper_tasks())
    shd = [case for case in found if "shd" in case.tasks]
    assert [(case.batch, case.length) for case in shd] == [(128, 256), (16, 2048), (2, 16_384), (1, 131_072)]
    assert {(case.width, case.state, case.form.D, case.transition.gain) for case in shd} == {(48, 8, "full", None)}
    same = cases.paper_config("shd")
    monkeypatch.setattr(cases, "paper_config", lambda task: same)
    (shared,) = cases.paper_cases(["shd", "ssc"], [64])
    assert shared.tasks == ("shd", "ssc")


def test_implementations_take_turns_until_one_has_used_its_time():
    now, order = [0.0], []

    def run(name, seconds):
        order.append(name)
        now[0] += seconds

    programs = {"slow": lambda: run("slow", 1.5), "fast": lambda: run("fast", 0.25)}
    best = timing.best_of(5, programs, seconds=2.0, clock=lambda: now[0])
    assert order == ["slow"] * 2 + ["fast"] * 3 + ["fast"] * 2
    assert best == {"slow": 1.5, "fast": 0.25}


def test_scans_agree_and_are_compared_with_a_copy():
    rows = list(scan.rows([(2, 8, 3)], runs=1))
    copies = {f"copy, {n} thread{'s' * (n > 1)}" for n in {1, usable_cores()}}
    names = {*implementations.backend_names(), "lax.scan", "lax.associative_scan", *copies, scan.NEW}
    assert {(row["number"], row["implementation"]) for row in rows} == {
        (n, name) for n in ("real", "complex") for name in names
    }
    for row in rows:
        size = 2 * 8 * 3 * (4 if row["number"] == "real" else 8)
        assert row["forward_gb_per_s"] == pytest.approx(3 * size / (row["forward_ns"] * 2 * 8))
        assert row["gradient_gb_per_s"] == pytest.approx(7 * size / (row["gradient_ns"] * 2 * 8))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_copy_copies(workers, monkeypatch):
    copied = []
    monkeypatch.setattr(np, "copyto", lambda target, source: copied.append(len(source)))
    machine.copier(100, workers)()
    assert (len(copied), sum(copied)) == (workers, 100)


def test_streams(only_xla, monkeypatch):
    monkeypatch.setattr(stream, "EVENTS", 4)
    monkeypatch.setattr(stream, "LOOPED", 2)
    monkeypatch.setattr(stream, "PUSHED", 20)
    every = list(stream.rows(["eigenworms"], pooled=["nmnist"], runs=1, chunks=[3]))
    engine = [(row["task"], row["mode"]) for row in every if row["implementation"] == stream.ENGINE]
    modes = ["step in Python", "chunk of 3", "push"] if native.available() else []
    assert engine == [(task, mode) for task in ("eigenworms", "nmnist (ours)") for mode in modes]
    for row in every:
        if row["mode"] == "push":
            assert 0 < row["event_p50_us"] <= row["event_p99_us"] <= row["event_p99.9_us"]
            assert row["event_tail"] == pytest.approx(row["event_p99.9_us"] / row["event_p50_us"])
        if row["mode"] == "push" and row["implementation"] == stream.ENGINE:
            assert 0 < row["event_own_p99.9_us"] <= row["event_p99.9_us"]
            assert row["event_own_tail"] == pytest.approx(row["event_own_p99.9_us"] / row["event_own_p50_us"])
    exported = {(row["task"], row["mode"]) for row in every if row["implementation"] == stream.ONNX}
    tasks = ("eigenworms", "nmnist (ours)") if stream._has_onnx() else ()
    assert exported == {(task, "step in Python") for task in tasks}
    rows = [row for row in every if row["task"] == "eigenworms" and row["implementation"] == "xla"]
    layer_modes, model_modes = (
        [row["mode"] for row in rows if row["part"] == "layer"],
        [row["mode"] for row in rows if row["part"] == "model"],
    )
    assert layer_modes == ["step in Python", "step in a scan"]
    assert model_modes == ["step in Python", "step in a scan", "chunk of 3"]
    assert all(row["event_us"] > 0 and row["event_ratio"] == 1 for row in rows)


def test_the_machine_is_described():
    about = machine.describe("s7 bench layer", (16,))
    assert about["command"] == "s7 bench layer"
    assert about["versions"]["jax"] == jax.__version__
    assert about["sgemm_gflops"] > 0
    assert about["threads"] >= 1
    assert machine.available_memory() > 0


def test_memory_is_measured_in_a_separate_process():
    case = replace(TINY, form=s7.Full(D="full"), transition=s7.Stable(gain=None), tasks=("shd",))
    assert build(LayerCase, json.loads(json.dumps(table_of(case))), "case") == case
    # The memory of this process must not count, or the other would seem to use none.
    assert 0 < peak_in_child(case, "xla") < 2000


def test_json_lines_begin_with_the_machine_and_are_saved(nothing_computed, tmp_path, capsys):
    path = tmp_path / "speed" / "layer.json"
    command = ["bench", "layer", "--shapes", "2x6x4x3,1x9x4x3", "--runs", "1", "--out", str(path), "--json"]
    assert main(command) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[0]["command"] == "s7 " + " ".join(command)
    assert [(row["batch"], row["length"]) for row in lines[1:]] == [(2, 6)] * IMPLEMENTATIONS + [
        (1, 9)
    ] * IMPLEMENTATIONS
    assert path.read_text() == said.out
    assert said.err == torch_layer.MISSING + "\n"
    assert records.read(path) == records.Record("layer", lines[0], lines[1:])


def test_a_terminal_gets_a_table(nothing_computed, capsys):
    assert main(["bench", "layer", "--tasks", "shd", "--lengths", "256,131072", "--runs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "sgemm 100 GFLOP/s" in lines[0]
    assert lines[1].split()[:7] == ["task", "batch", "L", "H", "P", "D", "implementation"]
    assert lines[2].split()[:7] == ["shd", "128", "256", "48", "8", "full", implementations.backend_names()[0]]
    assert lines[-1].split()[1:] == ["1", "131,072", "48", "8", "full", "materialised", "too", "large"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["layer", "--shapes", "8x4096x48"],
            "--shapes: expected 4 whole numbers, such as 8x4096x48x8, not '8x4096x48'",
        ),
        (["layer", "--shapes", "2x6x4x3,0x1x1x1"], "not '0x1x1x1'"),
        (["scan", "--shapes", "8x4096x16x2"], "expected 3 whole numbers, such as 8x4096x16"),
        (["layer", "--tasks", "shd,sscc"], "--tasks: no task 'sscc'; did you mean 'ssc'?"),
        (["train", "--tasks", "pendulum"], "--tasks: no task 'pendulum'"),
        (["train", "--tasks", "nmist", "--preset", "ours"], "--tasks: no task 'nmist'; did you mean 'nmnist'?"),
        (["train", "--preset", "mine"], "--preset: invalid choice: 'mine'"),
        (["block", "--shapes", "16x1024"], "--shapes: expected 4 whole numbers, such as 16x1024x64x16, not '16x1024'"),
        (["layer", "--lengths", "256,many"], "--lengths: expected a whole number of at least 1, not 'many'"),
        (["layer", "--quick", "--lengths", "256"], "--lengths: selects among the paper's layers"),
        (["layer", "--quick", "--shapes", "2x6x4x3"], "--shapes and --quick cannot be combined"),
        (["stream", "--runs", "0"], "--runs: expected a whole number of at least 1, not '0'"),
        (["page", "/nowhere.json", "--out", "/tmp/page.md"], "/nowhere.json: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, message, capsys):
    assert main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_help_does_not_import_jax():
    program = (
        "import sys; from s7.cli.main import main\ntry: main(['bench', 'layer', '--help'])\nexcept SystemExit: pass\n"
    )
    check = "sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--quick" in done.stdout


def saved(path, rows):
    about = {"command": f"s7 bench {rows[0]['benchmark']}", "processor": "a processor", "cores": 2, "threads": 2}
    about |= {"platform": "cpu", "versions": {"s7": "1", "jax": "2"}, "sgemm_gflops": 100.0}
    path.write_text(records.to_lines(about, rows))
    return path


def test_the_page_is_made_of_files(layer_rows, tmp_path):
    pytest.importorskip("matplotlib")
    longer = [row | {"length": 4000} for row in layer_rows]
    longer[-1] |= {"skipped": "too large"} | {name: None for name in longer[-1] if name.startswith("gradient")}
    about = {"benchmark": "stream", "task": "shd", "part": "model", "depth": 6, "width": 48, "state": 8}
    about |= {"mode": "step in Python"}
    streamed = [
        about | {"implementation": name, "event_us": us, "event_ratio": us / 50}
        for name, us in (("native", 50), ("xla", 75))
    ]
    files = [saved(tmp_path / "b.json", streamed), saved(tmp_path / "a.json", layer_rows + longer)]
    page = tmp_path / "docs" / "speed.md"
    written = write(files, page, "s7 bench page")
    assert written[-1] == page
    names = ["speed-layer-forward.svg", "speed-layer-gradient.svg", "speed-stream-event.svg"]
    assert [path.name for path in written[:-1]] == names
    text = page.read_text()
    assert all(f"(figures/{name})" in text for name in names)
    assert text.index("    s7 bench layer\n") < text.index("    s7 bench stream\n")
    assert "| shd | model | 6 | 48 | 8 | step in Python | 50 | 75 (1.5) |" in text
    assert "| layer | 2 | 4,000 | 4 | 3 | diagonal |" in text
    assert "Peak memory" not in text
    assert text.count(" – |") == 2
    before = {path: path.read_bytes() for path in written}
    write(files, page, "s7 bench page")
    assert {path: path.read_bytes() for path in written} == before


def test_the_page_has_a_row_for_each_model(tmp_path):
    pytest.importorskip("matplotlib")
    about = {"benchmark": "models", "task": "pendulum"}
    case = about | {"batch": 32, "length": 50, "step_mflop": 9.5, "step_of_sgemm": 0.2, "slowness": 1.0}
    rows = [
        case | {"implementation": "cru", "parameters": 1234, "step_ms": 500.0, "step_relative": 1.0},
        case | {"implementation": "s7", "parameters": 5678, "step_ms": 10.0, "step_relative": 0.02},
        about | {"implementation": "bet", "skipped": "reads tokens"},
    ]
    page = tmp_path / "speed.md"
    assert write([saved(tmp_path / "models.json", rows)], page, "s7 bench page") == [page]
    text = page.read_text()
    assert "pendulum, batches of 32 sequences of 50 events:" in text
    assert text.index("| s7 | 5,678 | 10 | 0.02 | 9.5 | 0.2 | 1 |") < text.index("| cru | 1,234 | 500 | 1 |")
    assert "| Time relative to cru |" in text
    assert "- bet on pendulum: reads tokens" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        "hello\n",
        '{"command": "x"}\n{"benchmark": "scan", "way": "xla"}\n',
        '{"command": "x"}\n{"benchmark": "nothing"}\n',
        "[1]\n[2]\n",
    ],
)
def test_a_page_of_something_else_is_rejected(text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other.json: not written by this version of s7 bench"):
        write([path], tmp_path / "page.md", "s7 bench page")
