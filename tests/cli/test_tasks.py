"""`s7 tasks`."""

import json

from s7.cli.main import main


def test_tasks_shows_whether_data_are_installed(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for place, missing in ((data, False), (tmp_path, True)):
        assert main(["tasks", "--data", str(place), "--json"]) == 0
        tasks = {task["task"]: task for task in map(json.loads, capsys.readouterr().out.splitlines())}
        assert {"fitzhugh-nagumo", "pendulum", "walker2d"} <= set(tasks)
        assert bool(tasks["walker2d"]["missing"]) is missing
