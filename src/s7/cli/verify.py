"""s7 verify: the paper's theorems, tested numerically on the code, with a page of pictures."""

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    names = "stability, gradients, weight-ratio, approximation"
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help=f"of {names} (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random models and inputs (default 0)")
    told = "the page: HTML, or Markdown if the name ends in .md (default verify.html)"
    parser.add_argument("--out", type=Path, default=Path("verify.html"), metavar="PAGE", help=told)


def run(options: argparse.Namespace) -> int:
    """Says of every point whether it holds, then writes the page; the status is 1 if one fails."""
    from s7.theory import record, verify

    checking = verify(options.only, options.seed, lambda name: print(f"checking {name}", file=sys.stderr, flush=True))
    # Before the minute that the checks take.
    if options.seed < 0:
        raise ValueError(f"--seed {options.seed}: must not be negative")
    if options.out.is_dir():
        raise ValueError(
            f"--out {options.out}: a folder; give the name of a file, such as {options.out / 'verify.html'}"
        )
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
