"""s7 tasks: what can be trained, what data each needs, whether they are here."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")


def run(options: argparse.Namespace) -> None:
    """A line for each task."""
    from s7.data.folder import DataFolder
    from s7.tasks import TASKS

    folder = DataFolder(options.data)
    for name, kind in TASKS.items():
        missing = kind().missing(folder)
        if options.json:
            about = {"title": kind.title, "source": kind.source, "protocols": kind.protocols, "missing": missing}
            print(json.dumps({"task": name} | about))
            continue
        print(f"{name:<18}{'ready  ' if missing is None else 'missing'}  {kind.title}")
        print(f"{'':<27}data: {kind.source if missing is None else missing}")
