"""Train several models on one task with the same data and budget, and compare them.

Every run has its own process and folder, so a failed run does not stop the others. Repeat the command to resume
unfinished runs and retry failed ones.

A preset file, such as s7 tune writes, can take the place of a model's name.

With --search, a setting of each model is chosen on validation data before the comparison, with the same values and the
same budget for every model.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from s7.cli.options import duration, names
from s7.cli.study import add_study, run_study, study_config

if TYPE_CHECKING:  # they import JAX
    from s7.study import StudyConfig, Variant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to train on (s7 tasks lists them)")
    parser.add_argument(
        "--models",
        type=names,
        required=True,
        metavar="A,B,…",
        help="models such as s7,s5,lstm (s7 models lists them), or preset files FILE.toml",
    )
    parser.add_argument(
        "--search",
        metavar="NAME=A,B,…",
        help="choose a setting of each model on validation data first, such as learning_rate=1e-3,3e-3,1e-2,3e-2",
    )
    parser.add_argument(
        "--search-share",
        type=duration,
        default=0.25,
        metavar="F",
        help="budget of each trial of the search, as a part of that of a run (default 0.25)",
    )
    add_study(parser)


def run(options: argparse.Namespace) -> int:
    """Run the trials that are not finished and print the comparison, best model first."""
    from s7.study import Study
    from s7.study.search import Search

    search = None if options.search is None else Search.parse(options.search, options.search_share)
    config = study_config(options)
    if search is not None:
        config = replace(config, search=search.record())
    out = options.out or Path("runs") / f"compare-{options.task.replace(':', '.')}"
    study = Study(config, tuple(_variant(name, config) for name in options.models), options.seeds, out)
    return run_study(study, options, lambda summary: summary.table(), lambda summary: summary.ranked(), search)


def _variant(name: str, config: "StudyConfig") -> "Variant":
    """A model by its name, or with the settings of a preset file, over which those of the study take precedence."""
    from s7.presets.user_file import SUFFIX, PresetFile
    from s7.study import Variant

    if not name.endswith(SUFFIX):
        return Variant(name)
    file = PresetFile.read_for(Path(name), config.task)
    if file.preset != config.preset:
        raise ValueError(f"{name}: settings over the preset {file.preset}; compare with --preset {file.preset}")
    return Variant(file.model, name, file.changed(config.settings))
