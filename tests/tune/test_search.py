"""Searches in their storages: joining, rejecting, pruning, and noticing lost workers."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from s7.cli.main import main
from s7.tune import storages
from s7.tune.liveness import Owner, Watch
from s7.tune.pruning import is_promising
from s7.tune.search import Budget


def test_workers_of_different_searches_are_rejected(open_search, tmp_path):
    open_search()
    for changes, message in (
        ({"space": "train.learning_rate=1e-3:1:log"}, "space train.learning_rate=0.001:0.1:log, not 0.001:1:log"),
        ({"budget": Budget(minutes=1)}, "budget 2 epochs, not 1 min"),
        ({"rungs": ()}, "rungs 0.25 0.5, not none"),
    ):
        with pytest.raises(ValueError, match="out: its trials have") as error:
            open_search(**changes)
        assert message in str(error.value)
    assert open_search(budget=None).budget == Budget(epochs=2)  # that of the search


def test_a_database_is_shared_by_searches_with_names(open_shared, tmp_path):
    first = open_shared("one", tmp_path / "a")
    open_shared("two", tmp_path / "b", rungs=())
    with pytest.raises(ValueError, match=r"search .one. in the storage: its trials have rungs 0\.25 0\.5, not none"):
        open_shared("one", tmp_path / "b", rungs=())
    assert first.next().values == {"train.learning_rate": 0.03}


def test_storages_that_cannot_be_used(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match=r"--storage postgresql://s7:\*\*\*@127.0.0.1:\d+/x: cannot be used"):
            storages.database(f"postgresql://s7:secret@127.0.0.1:{free.getsockname()[1]}/x")
    with pytest.raises(TimeoutError):
        storages.within(0.01, lambda: time.sleep(0.1))
    for url, message in (("nonsense", "expected a URL"), ("marsdb://x/y", "install its driver")):
        with pytest.raises(ValueError, match=message):
            storages.database(url)
    (tmp_path / "journal.log").write_text("not a journal\nat all\n")
    with pytest.raises(ValueError, match=r"journal.log: not the journal of a search"):
        storages.journal(tmp_path / "journal.log")


def test_an_incomplete_line_of_a_journal_is_removed(open_search, tmp_path):
    open_search()
    path = tmp_path / "out" / "journal.log"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "wor')
    open_search().next()
    assert path.read_bytes().startswith(whole)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_missing_packages_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(storages, "find_spec", lambda name: None)
    assert main(["tune", "pendulum", "--out", str(tmp_path / "out")]) == 2
    error = "s7 tune: s7 tune needs optuna, which is not installed: pip install 's7-ssm[tune]'\n"
    assert capsys.readouterr().err == error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "x"], "--name names a search in a database"),
        (["--rungs", "2"], "expected fractions between 0 and 1"),
        (["--space", "model.widht=1:2"], "did you mean 'width'?"),
        (["--set", "train.epoch=2"], "did you mean 'epochs'?"),
        (["--model", "lstmm"], "did you mean 'lstm'?"),
        (["--preset", "missing.toml"], "missing.toml: No such file"),
        (["--storage", "nonsense"], "expected a URL"),
    ],
)
def test_errors_of_the_command_are_one_line(arguments, message, capsys, tmp_path):
    assert main(["tune", "fitzhugh-nagumo", "--out", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_worse_half_is_not_promising():
    assert is_promising(9.0, [1.0, 2.0, 3.0])  # too few
    assert is_promising(2.5, [1.0, 2.0, 3.0, 4.0])
    assert not is_promising(3.5, [1.0, 2.0, 3.0, 4.0])
    assert is_promising(1.0, [1.0] * 8)


def test_lost_workers_are_noticed():
    now = [0.0]
    watch = Watch(stale=10, clock=lambda: now[0])
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        here = Owner.here()
        alive = Owner(here.machine, process.pid, _started(process.pid))
        assert not here.is_gone
        assert not alive.is_gone
        process.communicate(b"\n")
    assert alive.is_gone
    assert Owner(here.machine, os.getpid(), "another start").is_gone
    far = Owner("another machine", alive.pid, alive.started)
    assert not far.is_gone
    assert watch.lost([(0, here, 1), (1, alive, 1), (2, far, 1), (3, None, None)]) == [1]
    now[0] = 9
    assert watch.lost([(2, far, 2), (3, None, None)]) == []
    now[0] = 11
    assert watch.lost([(2, far, 2), (3, None, None)]) == [3]
    now[0] = 20
    assert watch.lost([(2, far, 2)]) == [2]


def _started(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def test_a_trial_that_loses_its_workers_is_given_up(open_search):
    search = open_search()
    for attempt in range(3):
        candidate = search.next()
        assert search.requeue(candidate.number, lost=True) == (attempt < 2)
    assert not search.requeue(candidate.number, lost=True)  # it has ended
    assert search.beat(candidate, 1) is False
    states = [trial.state.name for trial in search.trials()]
    assert states == ["FAIL"] * 3


def test_all_workers_spend_the_time_of_the_search(open_search):
    """40 minutes for trials of 10."""
    first, second = (open_search(budget=Budget(minutes=10)) for _ in range(2))
    assert first.spending().left is None
    first.allow(minutes=40)
    assert second.spending().has_room  # the first one always
    one, two = first.next(), second.next()
    for search in (first, second):  # 20 minutes are reserved for the running trials
        assert (search.spending().left, search.spending().pace, search.spending().has_room) == (2400, 2, True)
    one.began -= 60 * 11
    assert first.beat(one, 1)
    assert second.spending().spent == pytest.approx(660, abs=5)
    two.began -= 60 * 6
    second.put_back(two)
    assert str(first.spending()) == "23.0 of 40 min left"
    two = second.next()  # which needs another 4 minutes
    two.began -= 60 * 4
    second.end(two, "pruned", "")
    assert first.spending().has_room
    one.began -= 60 * 10
    first.end(one, "pruned", "")
    assert str(second.spending()) == "9.0 of 40 min left"
    assert not second.spending().has_room
    second.allow(minutes=60)
    assert first.spending().has_room
    one = first.next()
    one.began -= 60 * 25
    assert first.requeue(one.number, lost=True)  # by a worker that never showed a sign of life: nothing is known
    assert str(second.spending()) == "29.0 of 60 min left"
