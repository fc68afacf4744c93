"""List the available tasks and show whether their data are installed."""

import argparse
import json

from s7.cli.options import add_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_data(parser)


def run(options: argparse.Namespace) -> None:
    """Print the state of each task's data."""
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
