"""The command-line parser: help, abbreviations, invalid values and errors."""

import argparse
import errno
import json
import re
import subprocess
import sys
import time
from types import ModuleType

import pytest

from s7.cli import main as cli
from s7.cli.main import command_modules, main

COMMANDS = tuple(command_modules())
NESTED = {
    "data": ("fetch", "check", "make"),
    "bench": ("layer", "scan", "train", "stream", "page"),
}
# Words that read as translated. Help texts use the field's own terms.
ODD = r"\b(beside|anew|goes? on|what there is|are here|is here|leave \S+ away|left alone|so many|so long|whatever)\b"


def error_of(capsys, *arguments: str) -> str:
    """The one line that a command prints on stderr when it fails."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def help_of(capsys, *arguments: str) -> str:
    assert main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


def test_every_command_is_found():
    known = ["tasks", "models", "data", "train", "eval", "compare", "ablate", "verify", "tables", "report", "bench"]
    assert [name for name in COMMANDS if name in known] == known
    assert not {"main", "options", "screen", "study"} & set(COMMANDS)


@pytest.mark.parametrize(
    "command", [*((name,) for name in COMMANDS), *((a, b) for a, subs in NESTED.items() for b in subs)], ids=" ".join
)
def test_help_starts_with_a_sentence(command, capsys):
    text = help_of(capsys, *command)
    usage, description, _ = re.split(r"\n\n", text, maxsplit=2)
    assert usage.startswith(f"usage: s7 {' '.join(command)}")
    assert re.match(r"[A-Z][a-z]+,? .*\.$", description.replace("\n", " ")), description
    verb = description.split()[0].rstrip(",")
    assert not verb.endswith(("s", "ing", "ed")), f"{verb}: not an imperative"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain_english(name, capsys):
    for command in ((name,), *((name, sub) for sub in NESTED.get(name, ()))):
        text = help_of(capsys, *command)
        assert not re.search(ODD, text), re.search(ODD, text)


def test_help_is_fast_and_imports_no_jax():
    program = "import sys; from s7.cli.main import main; main(['--help']); main(['compare', '--help'])\n"
    check = "sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - started < 5  # 0.2 s on an idle machine
    assert "--models" in done.stdout


def test_without_arguments_the_help_is_printed(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: s7")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("s7 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trian", "s7: no command 'trian'; did you mean 'train'?"),
        ("train walker2d --prot paper", "s7 train: no option '--prot'; did you mean '--protocol'?"),
        ("train walker2d --sede 3", "s7 train: no option '--sede'; did you mean '--seed'?"),
        ("compare walker2d --model s7", "the following arguments are required: --models"),
        ("bench layer --mem", "s7 bench layer: no option '--mem'; did you mean '--memory'?"),
        ("bench layr", "invalid choice: 'layr'"),
        ("tables --out=x --markdow", "no option '--markdow'; did you mean '--markdown'?"),
        ("tables --x", "s7 tables: no option '--x'; known: -h, --help"),
        ("eval run another", "s7 eval: unexpected argument 'another'; see s7 eval --help"),
        ("train", "s7 train: the following arguments are required: task; see s7 train --help"),
    ],
)
def test_unknown_and_abbreviated_options_are_rejected(arguments, message, capsys):
    assert message in error_of(capsys, *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare walker2d --models s7 --seeds 0", "--seeds: expected a whole number of at least 1, not '0'"),
        ("compare walker2d --models s7 --seeds two", "--seeds: expected a whole number of at least 1, not 'two'"),
        ("compare walker2d --models s7 --jobs -1", "--jobs: expected a whole number of at least 1, not '-1'"),
        ("compare walker2d --models s7 --epochs 0", "--epochs: expected a whole number of at least 1, not '0'"),
        ("compare walker2d --models s7 --minutes 0", "--minutes: expected a positive number, not '0'"),
        ("compare walker2d --models s7 --minutes nan", "--minutes: expected a positive number, not 'nan'"),
        ("compare walker2d --models s7 --minutes 1 --epochs 1", "not allowed with argument"),
        ("compare walker2d --models ,", "--models: expected at least one name"),
        ("ablate walker2d --minutes inf", "--minutes: expected a positive number, not 'inf'"),
        ("verify --seed -1", "--seed: expected a whole number of at least 0, not '-1'"),
        ("bench scan --runs 1.5", "--runs: expected a whole number of at least 1, not '1.5'"),
        ("bench train --lengths 8,-1", "--lengths: expected a whole number of at least 1, not '-1'"),
    ],
)
def test_numbers_out_of_range_are_rejected(arguments, message, capsys):
    assert message in error_of(capsys, *arguments.split())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rate", "learning_rate"),
        ("decay", "weight_decay"),
        ("batch", "batch_size"),
        ("warm_up", "warmup"),
        ("clip", "clip_norm"),
        ("shapes", "buckets"),
    ],
)
def test_old_names_of_settings_give_the_new_name(old, new, tmp_path, capsys):
    for command in (("train", "walker2d"), ("compare", "walker2d", "--models", "s7"), ("ablate", "walker2d")):
        error = error_of(capsys, *command, "--out", str(tmp_path / "out"), "--set", f"train.{old}=1")
        assert f"train.{old}: {old!r} is now called {new}" in error
    assert not (tmp_path / "out").exists()


@pytest.fixture
def failing(monkeypatch):
    """Replaces `s7 tasks` by a command that raises an error."""

    def install(error: BaseException) -> None:
        def run(options: argparse.Namespace) -> None:
            raise error

        module = ModuleType("s7.cli.tasks", "Raise an error.")
        vars(module).update(add_arguments=lambda parser: None, run=run)
        monkeypatch.setattr(cli, "command_modules", lambda: {"tasks": module})

    return install


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/a/last.safetensors"), "runs/a/last.safetensors: No sp"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), "/data/x: Permission denied"),
        (ValueError("two\nlines"), "two lines"),
        (ValueError(), "ValueError"),
        (ModuleNotFoundError("No module named 'matplotlib'"), "No module named 'matplotlib'"),
    ],
)
def test_errors_are_one_line_that_names_the_file(failing, error, message, capsys):
    failing(error)
    assert f"s7 tasks: {message}" in error_of(capsys, "tasks")


def test_bugs_show_their_traceback(failing):
    failing(TypeError("a bug"))
    with pytest.raises(TypeError, match="a bug"):
        main(["tasks"])


def test_an_interrupt_is_status_130(failing, capsys):
    failing(KeyboardInterrupt())
    assert main(["tasks"]) == 130
    assert capsys.readouterr().err == "s7 tasks: interrupted\n"


def test_a_closed_pipe_is_not_an_error():
    program = f"{sys.executable} -m s7 models | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_json_can_precede_or_follow_the_subcommand(capsys):
    for arguments in (["models", "--json"], ["--help"]):
        assert main(arguments) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert json.loads(first)["model"] == "s7"
    modules = command_modules()
    for words in (["bench", "--json", "scan"], ["bench", "scan", "--json"]):
        assert cli._parse(modules, words).json
    assert not cli._parse(modules, ["bench", "scan"]).json
