"""The s7 commands on the pages and in the README are accepted by the command line."""

import re
import shlex

import pytest

from s7.cli import main as command_line
from tests.programs import ROOT

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
# Lines that show the syntax of a command, not a call of it.
SYNTAX = re.compile(r"[\[|…]")


def commands():
    """Every indented line that starts with s7 (or a prompt, or settings), without its comment."""
    for page in PAGES:
        for line in page.read_text().splitlines():
            found = re.match(r"    (?:\$ )?(?:[A-Z0-9_]+=\S+ )?s7 ([\w-]+ .+|[\w-]+)$", line)
            text = re.split(r"\s{2,}|\s#\s", found[1])[0] if found else ""
            if text and not SYNTAX.search(text.replace("runs/…", "")):
                yield pytest.param(shlex.split(text), id=f"{page.stem}: {text}")


@pytest.fixture(scope="module")
def parse():
    modules = command_line.command_modules()
    return lambda words: command_line._parse(modules, words)


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_is_accepted(parse, words):
    assert parse(words).command == words[0]


def test_commands_are_found():
    assert len(list(commands())) > 50
