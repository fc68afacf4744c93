"""`s7 fit` and `s7 predict`: tables in, answers out."""

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from s7.cli.main import main

pytestmark = pytest.mark.usefixtures("as_users_see_it", "small")

HEADER = "id,t,a,b,city,label,amount"


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Small models, and an empty folder to work in."""
    from s7.estimation import defaults

    monkeypatch.setattr("s7.estimation.fitting.KERNELS", 6)
    tiny = {"steps": 2, "width": 8, "state": 4, "depth": 1}
    for place in ("fitting", "forecasting"):
        monkeypatch.setattr(
            f"s7.estimation.{place}.plan_for", lambda traits, **given: defaults.plan_for(traits, **given | tiny)
        )
    monkeypatch.chdir(tmp_path)


def rows() -> list[list[str]]:
    rng = np.random.default_rng(0)
    found = []
    for n in range(12):
        speed = 0.3 + 0.06 * n
        for t in np.cumsum(rng.exponential(size=30)):
            a = "" if rng.random() < 0.1 else f"{np.sin(t * speed):.3f}"
            label = "fast" if speed > 0.6 else "slow"
            found.append([str(n), f"{t:.3f}", a, f"{rng.normal():.3f}", "Berlin", label, f"{speed:.2f}"])
    return found


def write(tmp_path, lines: list[list[str]], header: str = HEADER):
    path = tmp_path / "data.csv"
    path.write_text("\n".join([header, *(",".join(line) for line in lines)]) + "\n")
    return path


def read(path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_classes_from_a_csv_with_missing_values(tmp_path, capsys):
    path = write(tmp_path, rows())
    options = ["--group", "id", "--time", "t", "--features", "a,b", "--out", "run", "--members", "1"]
    assert main(["fit", str(path), "--target", "label", *options]) == 0
    printed = capsys.readouterr().out
    for expected in ("360 rows", "read       a, b", "label, a class for each series", "12 series of 30 steps"):
        assert expected in printed
    assert "classes: fast (6), slow (6)" in printed
    assert main(["predict", "run", str(path), "--out", "answers.csv"]) == 0
    answers = read(tmp_path / "answers.csv")
    assert [answer["id"] for answer in answers] == [str(n) for n in range(12)]
    for answer in answers:
        assert answer["label"] in ("fast", "slow")
        assert float(answer["p(fast)"]) + float(answer["p(slow)"]) == pytest.approx(1, abs=1e-4)
    capsys.readouterr()
    assert main(["report", "run"]) == 0
    assert main(["fit", str(path), "--target", "label", "--out", "run"]) == 2
    assert "run: holds a run; choose another folder" in capsys.readouterr().err


def test_numbers_from_parquet_and_text_is_ignored(tmp_path, capsys):
    columns = list(zip(*rows(), strict=True))
    kinds = [int, float, lambda cell: float(cell) if cell else None, float, str, str, float]
    arrays = [[kind(cell) for cell in column] for kind, column in zip(kinds, columns, strict=True)]
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table(dict(zip(HEADER.split(","), arrays, strict=True))), path)
    assert (
        main(["fit", str(path), "--target", "amount", "--group", "id", "--time", "t", "--out", "run", "--members", "1"])
        == 0
    )
    printed = capsys.readouterr().out
    assert "ignored    city, label (text)" in printed
    assert "amount, a number for each series" in printed
    assert main(["predict", "run", str(path), "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 12
    assert np.isfinite([float(answer["amount"]) for answer in answers]).all()


def test_labels_for_each_row_of_one_series(tmp_path, capsys):
    lines = [[str(n), str(n % 7), "up" if n % 7 > 3 else "down"] for n in range(600)]
    path = write(tmp_path, lines, "t,v,state")
    assert main(["fit", str(path), "--target", "state", "--time", "t", "--out", "run", "--members", "1"]) == 0
    assert "a class for each row" in capsys.readouterr().out
    assert main(["predict", "run", str(path), "--out", "answers.csv"]) == 0
    answers = read(tmp_path / "answers.csv")
    assert [answer["t"] for answer in answers] == [str(n) for n in range(600)]


def test_a_forecast(tmp_path, capsys):
    path = write(tmp_path, [[f"{np.sin(n / 5):.4f}"] for n in range(200)], "v")
    assert main(["fit", str(path), "--horizon", "4", "--out", "run", "--members", "1"]) == 0
    assert "the next 4 rows" in capsys.readouterr().out
    assert main(["predict", "run", str(path), "--out", "answers.csv"]) == 0
    assert [answer["step"] for answer in read(tmp_path / "answers.csv")] == ["1", "2", "3", "4"]


def test_arrays(tmp_path, capsys):
    x = np.sin(np.arange(50)[None] * np.linspace(0.1, 1, 12)[:, None])
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(12) // 6)
    assert main(["fit", "data.npz", "--out", "run", "--members", "1", "--json"]) == 0
    assert "accuracy" in json.loads(capsys.readouterr().out)["valid"]
    assert main(["predict", "run", "data.npz", "--out", "answers.csv"]) == 0
    assert len(read(tmp_path / "answers.csv")) == 12


def test_a_class_of_one_series_in_an_archive(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", x=np.zeros((6, 9)), y=np.array(["a", "a", "a", "b", "c", "c"]))
    assert main(["fit", "data.npz", "--out", "run"]) == 2
    assert "data.npz: series 3: class 'b' has one series; a class needs at least two" in capsys.readouterr().err


def change(row: int, column: int, value: str):
    def apply(lines):
        lines[row][column] = value
        return lines

    return apply


GROUPED = ["--target", "label", "--group", "id", "--time", "t"]


@pytest.mark.parametrize(
    ("damage", "options", "message"),
    [
        (None, ["--target", "lable"], "no column 'lable'; the columns are id, t, a, b, city, label, amount"),
        (None, [], "give --target COLUMN, or --horizon N"),
        (None, [*GROUPED, "--features", "a,city"], "line 2: city is 'Berlin', expected a number"),
        (change(4, 2, "abc"), GROUPED, "line 6: a is 'abc', expected a number"),
        (change(4, 0, ""), GROUPED, "line 6: id is empty"),
        (change(4, 5, ""), GROUPED, "line 6: label is empty"),
        (change(4, 5, "7"), GROUPED, "line 6: label is '7', but 'slow' in line 2"),
        (change(4, 1, "0.0"), GROUPED, "line 6: t is 0.0, earlier than"),
        (change(4, 1, "noon"), GROUPED, "line 6: t is 'noon', expected a number"),
        (lambda lines: [*lines[:4], lines[4][:-1], *lines[5:]], GROUPED, "line 6: 6 fields, expected 7"),
        (lambda lines: [[*line[:2], "", *line[3:]] for line in lines], GROUPED, "column 'a' has no values"),
        (
            lambda lines: [[*line[:5], "odd" if line[0] == "3" else line[5], line[6]] for line in lines],
            GROUPED,
            "line 92: class 'odd' has one series",
        ),
        (lambda lines: [[*line[:5], "same", line[6]] for line in lines], GROUPED, "label is 'same' throughout"),
        (lambda lines: [], GROUPED, "there are no rows"),
    ],
)
def test_mistakes_are_named_with_their_line(damage, options, message, tmp_path, capsys):
    lines = rows()
    path = write(tmp_path, lines if damage is None else damage(lines))
    assert main(["fit", str(path), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_other_files(tmp_path, capsys):
    assert main(["fit", "data.xlsx", "--target", "y"]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "data.xlsx").write_text("x")
    assert main(["fit", "data.xlsx", "--target", "y"]) == 2
    assert "unknown kind of file; expected one of .csv" in capsys.readouterr().err
    assert main(["predict", "run", "data.csv"]) == 2
    assert "make one with `s7 fit`" in capsys.readouterr().err
    for header, message in (("a,a", "two columns are called 'a'"), ("1,2", "expected the names of the columns")):
        (tmp_path / "data.csv").write_text(f"{header}\n1,2\n")
        assert main(["fit", "data.csv", "--target", "a"]) == 2
        assert message in capsys.readouterr().err
