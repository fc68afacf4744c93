"""List the model architectures that --model accepts."""

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: --json is added to every command."""


def run(options: argparse.Namespace) -> None:
    """Print one line per architecture."""
    from s7.baselines import ARCHITECTURES

    if options.json:
        for name, model in ARCHITECTURES.items():
            print(json.dumps({"model": name, "summary": model.summary, "source": model.source, "set": model.model}))
        return
    width = max(map(len, ARCHITECTURES))
    for name, model in ARCHITECTURES.items():
        print(f"{name:<{width}}  {model.summary} ({model.source})")
