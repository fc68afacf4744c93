"""s7 models: what --model takes, with where each comes from."""

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(options: argparse.Namespace) -> None:
    """Prints a line for each."""
    from s7.baselines import ARCHITECTURES

    if options.json:
        for name, model in ARCHITECTURES.items():
            print(json.dumps({"model": name, "summary": model.summary, "source": model.source, "set": model.model}))
        return
    wide = max(map(len, ARCHITECTURES))
    for name, model in ARCHITECTURES.items():
        print(f"{name:<{wide}}  {model.summary} ({model.source})")
