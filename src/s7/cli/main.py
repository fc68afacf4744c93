"""`s7`: the commands. JAX is imported only by those that compute, and only once they start."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

COMMANDS = ("tasks", "models", "data", "train", "eval", "compare", "ablate", "verify", "tables", "report", "bench")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """On stderr, with status 2."""
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists what there is\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0, 2 after an error (one line on stderr), 130 if interrupted."""
    parser = Parser(
        prog="s7", description="Selective state-space models for long, irregular and event-driven sequences."
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(metavar="command", dest="command")
    modules = {name: import_module(f"s7.cli.{name}") for name in COMMANDS}
    for name, module in modules.items():
        summary = (module.__doc__ or "").splitlines()[0].partition(": ")[2]
        sub = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="write JSON lines for machines")
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(words)
    options.given = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    options.line = shlex.join(["s7", *words])
    if options.version:
        from s7.version import __version__

        print(f"s7 {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 0
    return _run(modules[options.command].run, options)


def _run(command, options) -> int:
    # What a user can mend is one line; anything else is a fault of ours and shows where it is.
    try:
        return command(options) or 0
    except (ValueError, OSError, ArithmeticError, ModuleNotFoundError) as error:
        print(f"s7 {options.command}: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"s7 {options.command}: {str(error) or 'interrupted'}", file=sys.stderr)
        return 130


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
