"""`s7 tables`: published numbers, and cells filled from result files."""

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.baselines import architectures
from s7.cli.main import main
from s7.presets import preset
from s7.publishing.text import mean_std
from s7.records import Result, RunRecord
from s7.tables import archive, filling, hyperparameters
from s7.tables.filling import sheets
from s7.tables.printed import EIGENWORMS, FITZHUGH_NAGUMO, HUMAN_ACTIVITY, LRA, TABLES, WALKER2D, Table, value
from s7.tables.results import TestedRun, groups, read, variant_of
from s7.tables.sheet import Sheet
from s7.tasks import TASKS

# The paper's results of S7, and of its ablation (without, with).
CLAIMS = {
    "dvs-gesture": 99.2,
    "shd": 96.3,
    "ssc": 88.2,
    "listops": 63.77,
    "text": 87.22,
    "retrieval": 91.80,
    "image": 61.14,
    "pathfinder": 65.52,
    "path-x": 61.50,
    "pendulum": 2.91,
    "fitzhugh-nagumo": 0.0013,
    "human-activity": 94.09,
    "eigenworms": 97.5,
    "walker2d": 0.120,
}
WITHOUT = {
    "dvs-gesture": 98.1,
    "shd": 93.1,
    "ssc": 87.8,
    "human-activity": 93.79,
    "eigenworms": 96.66,
    "listops": 62.11,
    "text": 85.42,
    "retrieval": 91.64,
    "image": 60.30,
}


def save(path: Path, **changes: Any) -> Path:
    """A result's file."""
    result: dict[str, Any] = {"task": "walker2d", "model": "s7", "preset": "ours", "protocol": "strict", "seed": 0}
    result |= {"parameters": 175505, "test": {"loss": 1.0, "mse": 0.5}, "versions": {"s7": "0.4.0"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result | changes))
    return path


def sheet(folder: Path, name: str, *, data: bool = True) -> Sheet:
    """One table, filled from a folder."""
    (filled,) = sheets([name], read([folder]), lambda task: data)
    return filled


def cells(filled: Sheet, *labels: str) -> list[str]:
    """(printed, paper, strict) of a row."""
    (row,) = [row for row in filled.rows if list(row[: len(labels)]) == list(labels)]
    return list(row[len(labels) :])


def strict(folder: Path) -> str:
    """The row of S7 on walker2d."""
    return cells(sheet(folder, "walker2d"), "S7")[2]


# Published values


def printed(tables, name: str) -> dict[str, float]:
    """The numbers of a line, by task."""
    return {
        task: value(line.printed[place])
        for table in tables
        for line in table.lines
        for place, task in enumerate(table.tasks)
        if line.name == name and line.printed[place]
    }


def test_the_claims_are_the_papers():
    assert printed(TABLES[:7], "S7") == CLAIMS
    assert printed(TABLES[7:10], "no") == WITHOUT
    assert printed(TABLES[7:10], "yes") == {task: CLAIMS[task] for task in WITHOUT}
    assert printed(TABLES, "S5")["path-x"] == 98.58
    assert printed([WALKER2D], "CT-LSTM") == {"walker2d": 1.014}
    assert printed([HUMAN_ACTIVITY], "ODE-LSTM") == {"human-activity": 84.15}
    assert printed([FITZHUGH_NAGUMO], "LEM") == {"fitzhugh-nagumo": 0.2}
    assert printed([EIGENWORMS], "LEM") == {"eigenworms": 94.1}
    assert [line.printed for line in TABLES[10].lines] == [
        ("98.7", "96.8", "62.53"),
        ("99.2", "97.5", "63.77"),
        ("98.9", "97.1", "63.22"),
    ]


@pytest.mark.parametrize("line", LRA.lines, ids=lambda line: line.name)
def test_published_averages_match_the_published_values(line):
    """A digit that was mistyped shows here."""
    assert statistics.mean(map(value, line.printed)) == pytest.approx(value(line.average), abs=0.0051)


def test_published_values_in_another_metric_are_converted():
    counted = {(table.name, line.name): line for table in TABLES for line in table.lines if line.counted}
    assert set(counted) == {("walker2d", "S7"), ("fitzhugh-nagumo", "S7"), ("fitzhugh-nagumo", "S5")}
    for (table, _), line in counted.items():
        number = value(line.printed[0])
        here = 2 * number if table == "walker2d" else 100 * math.sqrt(number / 100)
        assert float(line.counted) == pytest.approx(here, rel=0.01)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_tables_refer_to_existing_tasks_and_models(table: Table):
    assert set(table.tasks) <= set(TASKS)
    for line in table.lines:
        assert len(line.printed) == len(table.tasks)
        assert line.model in architectures()
    assert {"paper", "strict"} <= set.intersection(*(set(TASKS[task].protocols) for task in table.tasks))


def test_names_are_distinct():
    assert len(set(filling.names())) == len(TABLES) + 1


def test_presets_hold_the_printed_hyperparameters():
    filled = hyperparameters.sheet()
    assert {row[0] for row in filled.rows} == set(hyperparameters.PRINTED) <= set(TASKS)
    assert {row[-2] for row in filled.rows} == {"identical"}
    row = next(row for row in filled.rows if row[0] == "shd")
    assert row[-1] == "1.54e-2 (10 ×)"


def test_another_preset_has_a_footnote():
    held = preset("shd", "paper")
    other = {"model": held["model"] | {"width": 49}, "train": held["train"] | {"ssm_learning_rate": 1e-3}}
    assert hyperparameters.differences(hyperparameters.PRINTED["shd"], other) == {"H": 49, "SSM LR": 1e-3}


# Which results


def test_mean_deviation_and_number_of_runs(tmp_path):
    for seed, error in enumerate((0.48, 0.49, 0.50)):
        save(tmp_path / f"s7-{seed}" / "result.json", seed=seed, test={"mse": error})
    save(tmp_path / "kept.json", protocol="paper", test={"mse": 0.0774})
    assert cells(sheet(tmp_path, "walker2d"), "S7") == [
        "0.120 ± 0.005 (= 0.24 as measured here)",
        "0.0774 (1 run, 176k)",
        "0.490 ± 0.010 (3 runs, 176k)",
    ]


def test_numbers_are_in_the_printed_unit(tmp_path):
    save(tmp_path / "a.json", task="pendulum", test={"mse": 2.22e-3})
    save(tmp_path / "b.json", task="text", test={"accuracy": 0.84176})
    save(tmp_path / "c.json", task="fitzhugh-nagumo", test={"mse": 1e-6, "rmse": 1e-3}, parameters=2341)
    assert cells(sheet(tmp_path, "pendulum"), "S7")[2] == "2.22 (1 run, 176k)"
    assert cells(sheet(tmp_path, "lra"), "text", "S7")[2] == "84.18 (1 run, 176k)"
    assert cells(sheet(tmp_path, "fitzhugh-nagumo"), "S7")[2] == "0.1 (1 run, 2.3k)"


def test_a_copy_counts_once_and_the_newest_of_a_seed_counts(tmp_path):
    save(tmp_path / "a" / "result.json", test={"mse": 0.5})
    save(tmp_path / "b.json", test={"mse": 0.5})
    assert strict(tmp_path) == "0.5 (1 run, 176k)"
    save(tmp_path / "0.json", test={"mse": 0.3}, versions={"s7": "0.10.0"})
    assert strict(tmp_path) == "0.3 (1 run, 176k)"


def test_other_settings_data_or_sizes_are_never_averaged(tmp_path):
    save(tmp_path / "0.json", test={"mse": 0.5}, data_sha256={"train": "a", "test": "b"})
    save(tmp_path / "1.json", seed=1, test={"mse": 0.6}, data_sha256={"train": "a", "test": "c"})
    save(tmp_path / "2.json", seed=2, test={"mse": 0.7}, parameters=1)
    save(tmp_path / "3.json", seed=3, test={"mse": 9.0}, set=["train.epochs=1"])
    save(tmp_path / "4.json", seed=4, test={"mse": 8.0}, preset="paper")
    save(tmp_path / "5.json", seed=5, test={"mse": 7.0}, model="s5")
    found = groups(read([tmp_path]))
    assert sorted(group.first.result.seed for group in found) == [0, 1, 2, 3, 4, 5]


def test_runs_on_the_original_data_are_preferred_over_more_runs(tmp_path):
    for seed in range(3):
        save(tmp_path / f"less-{seed}.json", seed=seed, test={"mse": 0.1}, set=["data.copies=1"])
    alone = sheet(tmp_path, "walker2d")
    assert cells(alone, "S7")[2] == "0.1 ± 0 (3 runs, 176k) [1]"
    assert alone.notes[0] == "[1] data.copies=1."
    save(tmp_path / "own.json", test={"mse": 0.5})
    own = sheet(tmp_path, "walker2d")
    assert cells(own, "S7")[2] == "0.5 (1 run, 176k)"
    assert not own.notes[0].startswith("[")


def test_groups_with_more_runs_are_preferred_then_the_preset_ours(tmp_path):
    save(tmp_path / "a.json", test={"mse": 0.4}, preset="paper")
    save(tmp_path / "b.json", test={"mse": 0.5})
    assert strict(tmp_path) == "0.5 (1 run, 176k)"
    save(tmp_path / "c.json", seed=1, test={"mse": 0.4}, preset="paper")
    filled = sheet(tmp_path, "walker2d")
    assert cells(filled, "S7")[2] == "0.4 ± 0 (2 runs, 176k) [1]"
    assert filled.notes[0] == "[1] preset paper."


def test_runs_from_new_parameters_are_preferred_over_runs_from_a_trained_model(tmp_path):
    for seed in range(2):
        save(tmp_path / f"from-{seed}.json", seed=seed, test={"mse": 0.1}, init="runs/earlier")
    alone = sheet(tmp_path, "walker2d")
    assert cells(alone, "S7")[2] == "0.1 ± 0 (2 runs, 176k) [1]"
    assert alone.notes[0] == "[1] started from a model that was trained before."
    save(tmp_path / "new.json", test={"mse": 0.5}, set=["model.width=8"])
    assert cells(sheet(tmp_path, "walker2d"), "S7")[2] == "0.5 (1 run, 176k) [1]"


def test_archived_runs_of_older_versions_say_what_they_started_from(tmp_path):
    result = Result(task="walker2d", model="s7", protocol="strict", test={"mse": 0.5})
    archive.write(tmp_path / "runs.jsonl.xz", {"one": RunRecord({"init": "runs/earlier"}, (), result)})
    assert sheet(tmp_path, "walker2d").notes[0] == "[1] started from a model that was trained before."


def test_equal_footnotes_share_a_number(tmp_path):
    about = {"task": "text", "test": {"accuracy": 0.8}}
    save(tmp_path / "a.json", **about, set=["train.epochs=2"])
    save(tmp_path / "b.json", **about, set=["train.epochs=2"], model="s5")
    save(tmp_path / "c.json", **about, set=["train.epochs=3"], model="lru")
    filled = sheet(tmp_path, "lra")
    marks = [cells(filled, "text", name)[2][-3:] for name in ("S7", "S5", "LRU")]
    # As they come: S5, LRU, S7.
    assert marks == ["[1]", "[1]", "[2]"]
    assert list(filled.notes[:2]) == ["[1] train.epochs=2.", "[2] train.epochs=3."]


@pytest.mark.parametrize(
    ("assignments", "variant"),
    [
        ([], ""),
        (["model.width=32", "model.transition.tau=[1.0, 50.0]"], ""),
        (['model.transition={kind = "Plain"}'], "no reparameterization"),
        (['model.transition="Plain"'], "no reparameterization"),
        (["model.transition.a=0.5"], "a=0.5 b=0.5"),
        (["model.transition.b=1"], "a=1 b=1"),
        (['model.transition={kind = "Stable", a = 1.0, b = 0.5, tau = [1.0, 9.0]}'], ""),
        (['model.transition={kind = "Stable", a = 1.0, b = 1.0, tau = [1.0, 9.0]}'], "a=1 b=1"),
    ],
)
def test_variants_by_their_settings(assignments, variant):
    assert variant_of(assignments) == variant


def test_ablations_have_rows_of_their_own(tmp_path):
    about = {"task": "listops", "parameters": None}
    save(tmp_path / "a.json", **about, test={"accuracy": 0.6}, variant="no reparameterization")
    save(tmp_path / "b.json", **about, test={"accuracy": 0.61}, set=["model.transition.a=0.5"])
    save(tmp_path / "c.json", **about, test={"accuracy": 0.62}, variant="a=1 b=1", set=["model.transition.b=1.0"])
    ablation, rates = sheet(tmp_path, "ablation-lra"), sheet(tmp_path, "ablation-a-b")
    assert cells(sheet(tmp_path, "lra"), "listops", "S7")[2] == "not run"
    assert cells(ablation, "listops", "no")[2] == "60 (1 run)"
    assert cells(ablation, "listops", "yes")[2] == "not run"
    assert [row[4] for row in rates.rows if row[0] == "listops"] == ["61 (1 run)", "not run", "62 (1 run)"]
    save(tmp_path / "d.json", **about, test={"accuracy": 0.63})
    assert cells(sheet(tmp_path, "ablation-lra"), "listops", "yes")[2] == "63 (1 run)"
    # The base model of the study is most comparable with its variants.
    save(tmp_path / "e.json", **about, test={"accuracy": 0.64}, variant="as set")
    assert cells(sheet(tmp_path, "ablation-lra"), "listops", "yes")[2] == "64 (1 run)"
    assert cells(sheet(tmp_path, "ablation-a-b"), "listops", "a = 1, b = 0.5")[2] == "64 (1 run)"
    assert cells(sheet(tmp_path, "lra"), "listops", "S7")[2] == "63 (1 run)"


def test_the_base_model_of_an_ablation_can_represent_the_model(tmp_path):
    save(tmp_path / "a.json", variant="as set", set=["train.epochs=3"])
    save(tmp_path / "b.json", variant="no gate", test={"mse": 0.1}, set=["model.gate=false"])
    assert strict(tmp_path) == "0.5 (1 run, 176k) [1]"


def test_runs_with_the_same_time_limit_differ_in_steps(tmp_path):
    for seed, steps in enumerate((900, 1000, 1100)):
        save(tmp_path / f"{seed}.json", seed=seed, set=[f"train.steps={steps}"])
    filled = sheet(tmp_path, "walker2d")
    assert cells(filled, "S7")[2] == "0.5 ± 0 (3 runs, 176k) [1]"
    assert filled.notes[0].startswith("[1] trained for a given time or number of steps (train.steps)")
    save(tmp_path / "longer.json", seed=3, set=["train.steps=9000"])
    assert sorted(len(group.runs) for group in groups(read([tmp_path]))) == [1, 3]


def test_an_average_needs_every_task(tmp_path):
    for task in LRA.tasks[:-1]:
        save(tmp_path / f"{task}.json", task=task, test={"accuracy": 0.5})
    assert cells(sheet(tmp_path, "lra"), "average", "S7")[2] == "not run"
    save(tmp_path / "last.json", task=LRA.tasks[-1], test={"accuracy": 0.8})
    assert cells(sheet(tmp_path, "lra"), "average", "S7")[1:] == ["not run", "55"]
    assert cells(sheet(tmp_path, "lra"), "average", "Mega")[1:] == ["not run"] * 2


def test_cells_without_results(tmp_path):
    assert cells(sheet(tmp_path, "lra"), "text", "S5")[1:] == ["not run"] * 2
    assert cells(sheet(tmp_path, "lra", data=False), "text", "S5")[1:] == ["not run: no data"] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"test": {}},
        {"test": {"accuracy": 0.5}},
        {"task": None},
        {"data_sha256": {"train": "a", "valid": "a", "test": "a"}},
    ],
    ids=["not tested", "another metric", "no task", "tested on what was learnt"],
)
def test_other_results_are_ignored(tmp_path, changes):
    save(tmp_path / "result.json", **changes)
    assert strict(tmp_path) == "not run"


def test_other_json_files_are_ignored(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    save(tmp_path / "deep" / "er" / "any.json")
    assert [Path(result.source).name for result in read([tmp_path])] == ["any.json"]


@given(st.lists(st.floats(1e-2, 900), min_size=2, max_size=5))
def test_cells_show_the_mean_with_its_digits(values):
    written, _, deviation = mean_std(values).partition(" ± ")
    spare = float(deviation) / 20 if deviation not in ("", "0") else statistics.mean(values) * 6e-4
    assert float(written) == pytest.approx(statistics.mean(values), abs=spare * 1.1)


def test_a_result_that_is_not_finite_is_shown_as_such(tmp_path):
    save(tmp_path / "a.json", test={"mse": math.nan})
    save(tmp_path / "b.json", seed=1)
    assert strict(tmp_path) == "nan (2 runs, 176k)"


# The command


def test_text(tmp_path, capsys, cache):
    save(tmp_path / "runs" / "result.json")
    assert main(["tables", "walker2d", "--runs", str(tmp_path / "runs")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Walker2d, MSE  (walker2d)" in lines
    head = next(line for line in lines if line.startswith("model "))
    row = next(line for line in lines if line.startswith("S7 "))
    assert row[head.index("measured (strict") :] == "0.5 (1 run, 176k)"
    assert row[head.index("measured (paper") :].startswith("not run: no data")
    assert max(map(len, lines)) <= 120


def test_markdown(tmp_path, cache):
    page = tmp_path / "page.md"
    (tmp_path / "runs").mkdir()
    assert main(["tables", "--markdown", "--out", str(page), "--runs", str(tmp_path / "runs")]) == 0
    text = page.read_text()
    assert text.startswith("# The paper's tables\n\nThis page is generated by\n\n    s7 tables --markdown --out ")
    blocks = text.split("\n## ")[1:]
    assert len(blocks) == len(filling.names())
    for block in blocks:
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) == 1
        assert set(rows[1]) == {"|", "-"}
        assert len(rows) > 3
    assert "| dvs-gesture | S7 | 99.2 (4.1M) | not run: no data | not run: no data |" in text


def test_json(tmp_path, capsys, cache):
    kept = save(tmp_path / "result.json", set=["train.epochs=3"])
    save(tmp_path / "1.json", seed=1, set=["train.epochs=3"], test={"mse": 0.7})
    assert main(["tables", "walker2d", "--runs", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == [line.name for line in WALKER2D.lines]
    last = rows[-1]
    assert (last["printed"], last["value"], last["counted"]) == ("0.120 ± 0.005", 0.12, 0.24)
    assert last["paper"] == {"missing": "not run: no data"}
    assert last["strict"]["mean"] == pytest.approx(0.6)
    assert last["strict"]["std"] == pytest.approx(0.02**0.5)
    assert (last["strict"]["seeds"], last["strict"]["set"]) == ([0, 1], ["train.epochs=3"])
    assert str(kept) in last["strict"]["files"]


def test_a_task_chooses_the_tables_it_is_in(tmp_path, capsys, cache):
    assert main(["tables", "shd", "--runs", str(tmp_path), "--json"]) == 0
    tables = [json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(tables)) == ["events", "ablation-events", "hyperparameters"]


def test_where_results_are_looked_for(tmp_path, capsys, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "docs" / "results" / "a.json", test={"mse": 0.4})
    save(tmp_path / "runs" / "x" / "result.json", seed=1, test={"mse": 0.6})
    save(tmp_path / "elsewhere" / "result.json", seed=2, test={"mse": 0.8})
    assert main(["tables", "walker2d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["strict"]["seeds"] == [0, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["walker"], "s7 tables: no table 'walker'; did you mean 'walker2d'?\n"),
        (["--runs", "nowhere"], "s7 tables: nowhere: no such folder; expected a folder with runs\n"),
        (["--markdown", "--json"], "s7 tables: --markdown and --json cannot be combined\n"),
        (["--out", "."], "s7 tables: --out .: is a folder; give a file, such as tables.md\n"),
    ],
)
def test_errors(words, said, tmp_path, capsys, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["tables", *words]) == 2
    assert capsys.readouterr() == ("", said)


def test_a_broken_result_is_rejected(tmp_path, capsys, cache):
    broken = tmp_path / "run" / "result.json"
    broken.parent.mkdir()
    broken.write_text('{"task": ')
    assert main(["tables", "--runs", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"s7 tables: {broken}: not a result (")
    assert err.count("\n") == 1


def test_help_does_not_import_jax():
    program = "import sys; from s7.cli.main import main\ntry: main(['tables', '--help'])\nexcept SystemExit: pass\n"
    check = "sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--markdown" in done.stdout


def test_stored_results_are_read():
    """Those of docs/results are results, and one of each table that they are in."""
    found = read([Path(__file__).parents[2] / "docs" / "results"])
    assert all(isinstance(result, TestedRun) for result in found)
    assert {("walker2d", "strict"), ("human-activity", "paper")} <= {(q.result.task, q.result.protocol) for q in found}
