"""Check the paper's theorems numerically and write a page with figures."""

import argparse
import json
import sys
from pathlib import Path

from s7.cli.options import seed


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
        default=Path("verify.html"),
        metavar="PAGE",
        help="output file: HTML, or Markdown if the name ends in .md (default verify.html)",
    )


def run(options: argparse.Namespace) -> int:
    """Print whether each claim holds and write the page; returns 1 if a claim fails."""
    from s7.theory import record, verify

    def announce(name: str) -> None:
        print(f"checking {name}", file=sys.stderr, flush=True)

    # Everything that can be rejected is rejected before the checks, which take a minute.
    checking = verify(options.only, options.seed, announce)
    if options.out.is_dir():
        raise ValueError(f"--out {options.out}: is a folder; give a file, such as {options.out / 'verify.html'}")
    try:
        from s7.theory.page import headline, write
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ValueError("s7 verify needs matplotlib; pip install 's7-ssm[report]'") from None
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
    written = write(checks, options.out, options.line)
    if options.json:
        print(json.dumps({"page": str(written[-1])}))
    else:
        print(f"{headline(checks)} Page: {written[-1]}")
    return 0 if all(check.passed for check in checks) else 1
