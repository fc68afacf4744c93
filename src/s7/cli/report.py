"""s7 report: an HTML page with curves, predictions, spectra."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--out", type=Path, help="the page (default: report.html in the first run's folder)")


def run(options: argparse.Namespace) -> None:
    """Writes the page and says where it is."""
    from s7.report import write

    path = write(options.runs, options.out or options.runs[0] / "report.html")
    print(json.dumps({"report": str(path)}) if options.json else f"report: {path}")
