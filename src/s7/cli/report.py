"""Write an HTML report of one or more runs (learning curves, predictions, spectra) or of a search of settings."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders, or the folder of a search")
    parser.add_argument(
        "--out", type=Path, metavar="PAGE", help="output file (default: report.html in the first run folder)"
    )


def run(options: argparse.Namespace) -> None:
    """Write the report and print its path."""
    from s7.report import write

    path = write(options.runs, options.out or options.runs[0] / "report.html")
    print(json.dumps({"report": str(path)}) if options.json else f"report: {path}")
