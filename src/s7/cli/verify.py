"""Check the paper's theorems numerically and write a page with figures."""

import argparse
import json
import sys
from pathlib import Path

from s7.cli.options import seed

PAGE = Path("verify.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        default=[],
        help="checks to run: stability, gradients, weight-ratio, approximation (default: all)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of the random models and inputs (default 0)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PAGE",
        help="output file: HTML, or Markdown if the name ends in .md (default verify.html)",
    )


def run(options: argparse.Namespace) -> int:
    """Print whether each claim holds and write the page; returns 1 if a claim fails."""
    from s7.publishing import require
    from s7.theory import headline, record, verify

    def announce(name: str) -> None:
        print(f"checking {name}", file=sys.stderr, flush=True)

    # Everything that can be rejected is rejected before the checks, which take a minute.
    checking = verify(options.only, options.seed, announce)
    out = options.out or PAGE
    if out.is_dir():
        raise ValueError(f"--out {out}: is a folder; give a file, such as {out / PAGE}")
    missing = None
    try:
        require("the page")
    except ValueError as error:
        if options.out is not None:
            raise
        missing = error
    checks = []
    for check in checking:
        checks.append(check)
        if options.json:
            print(json.dumps(record(check)), flush=True)
            continue
        print(f"{check.name}: {'pass' if check.passed else 'FAIL'}")
        for point in check.points:
            print(f"  {'pass' if point.holds else 'FAIL'}  {point.claim}: {point.measured}", flush=True)
        for finding in check.findings:
            print(f"  note  {finding}", flush=True)
    if missing is not None:
        print(f"no page written: {missing}", file=sys.stderr)
    else:
        from s7.theory.page import write

        write(checks, out, options.line)
    if options.json:
        print(json.dumps({"page": None if missing else str(out)}))
    else:
        print(headline(checks) + ("" if missing else f" Page: {out}"))
    return 0 if all(check.passed for check in checks) else 1
