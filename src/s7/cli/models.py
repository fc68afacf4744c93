"""List the model architectures that --model accepts."""

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: --json is added to every command."""


def run(options: argparse.Namespace) -> None:
    """Print one line per architecture."""
    from s7.baselines import architectures
    from s7.registry import summary

    known = architectures()
    if options.json:
        for name, model in known.items():
            about = {"model": name, "summary": summary(model), "source": model.source, "set": model.settings}
            print(json.dumps(about))
        return
    width = max(map(len, known))
    for name, model in known.items():
        print(f"{name:<{width}}  {summary(model)} ({model.source})")
