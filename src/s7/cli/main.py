"""The entry point of the command line: finds the commands, parses the arguments and reports errors in one line."""

import argparse
import os
import pkgutil
import shlex
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

import s7.cli
from s7 import processes
from s7.cli.options import add_json
from s7.settings import unknown
from s7.version import __version__

# The order in `s7 --help`. Commands that are not named here follow in alphabetical order.
ORDER = (
    *("fit", "predict", "tasks", "models", "data", "train", "eval", "compare", "ablate", "tune", "verify", "tables"),
    *("report", "bench", "plan", "events", "stream", "serve", "export", "push"),
)
NOT_COMMANDS = ("main",)


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, whose errors are one line."""

    def __init__(self, **settings: Any):
        super().__init__(**(settings | {"allow_abbrev": False}))
        # The parser of the innermost subcommand wins, so that errors can name its options.
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """Print the message on stderr and exit with status 2."""
        hint = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}{hint}\n")

    def reject(self, arguments: Sequence[str]) -> NoReturn:
        """Report arguments that no option takes, with the option that was probably meant."""
        options = [option for action in self._actions for option in action.option_strings]
        name = next((word.partition("=")[0] for word in arguments if word.startswith("-")), None)
        if name is None:
            self.error(f"unexpected argument {arguments[0]!r}")
        completions = [option for option in options if option.startswith(name)]
        if len(name) > 2 and len(completions) == 1:
            self.error(f"no option {name!r}; did you mean {completions[0]!r}?")
        self.error(unknown("option", name, options))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit status: 0, 2 after an error (one line on stderr), 130 if interrupted, or the command's own.
    """
    try:
        modules = command_modules()
        options = _parse(modules, sys.argv[1:] if arguments is None else list(arguments))
    except SystemExit as stop:  # after --help, --version or an error, which are printed by then
        return int(stop.code or 0)
    except KeyboardInterrupt:
        print("s7: interrupted", file=sys.stderr)
        return 130
    status = _run(modules[options.command], options)
    if arguments is None:
        # The work is done. Without this, a Ctrl-C while the interpreter shuts down would kill the process, and a
        # finished run would look like one that was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        processes.leave(status)
    return status


def command_modules() -> dict[str, ModuleType]:
    """All commands by name, in the order of the help."""
    names = {module.name for module in pkgutil.iter_modules(s7.cli.__path__)} - set(NOT_COMMANDS)
    order = [*(name for name in ORDER if name in names), *sorted(names - set(ORDER))]
    modules = {name: import_module(f"s7.cli.{name}") for name in order}
    return {name: module for name, module in modules.items() if hasattr(module, "run")}


def _parse(modules: dict[str, ModuleType], words: list[str]) -> argparse.Namespace:
    """The options, with the names of those that were given and the whole command line."""
    parser = _parser(modules)
    if not words:
        parser.print_help()
        parser.exit()
    if not words[0].startswith("-") and words[0] not in modules:
        parser.error(unknown("command", words[0], modules))
    options, rest = parser.parse_known_args(words)
    if rest:
        options.parser.reject(rest)
    options.given = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    options.words, options.line = words, shlex.join(["s7", *words])
    return options


def _parser(modules: dict[str, ModuleType]) -> Parser:
    about = "Train, evaluate and compare selective state-space models for long, irregular and event-driven sequences."
    parser = Parser(prog="s7", description=about)
    parser.add_argument("--version", action="version", version=f"s7 {__version__}", help="print the version and exit")
    commands = parser.add_subparsers(metavar="command", dest="command", required=True)
    for name, module in modules.items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        command = commands.add_parser(name, help=summary, description=summary, epilog=details.strip())
        module.add_arguments(command)
        add_json(command)
    return parser


def _run(module: ModuleType, options: argparse.Namespace) -> int:
    # Errors that the user can correct are one line. Anything else is a bug and shows its traceback.
    try:
        return module.run(options) or 0
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has left. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ArithmeticError, ModuleNotFoundError) as error:
        print(f"s7 {options.command}: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"s7 {options.command}: {str(error) or 'interrupted'}", file=sys.stderr)
        return 130


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
