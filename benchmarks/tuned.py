"""Settings that `s7 tune` found, compared with those of the presets, for docs/results.md.

    python -m benchmarks.tuned --search walker2d               searches for two hours on one core, in runs/tune-walker2d
    python -m benchmarks.studies --run tuned-walker2d          compares the best settings with the preset
    python -m benchmarks.results                               writes the page

Repeat the first command to continue an interrupted search. Its trials and its best settings are stored in docs/results.
"""

import argparse
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from benchmarks.stored import RESULTS, ROOT
from benchmarks.study_entry import StudyEntry
from s7.publishing.markdown import Document
from s7.publishing.text import MISSING, metric_name, metric_value, number
from s7.tune.summary import FILE, PRESET, Summary, TrialRecord, shortened

# Settings in the column of the most important ones.
SHOWN = 4


class Tuned(NamedTuple):
    """A search of the page.

    Attributes:
        settings: Options of `s7 tune` besides the budget, which the comparison has too.
    """

    task: str
    settings: str = ""

    @property
    def command(self) -> str:
        """The arguments of `s7` that run the search, without the folder."""
        return f"tune {self.task} --minutes 120 --trial-minutes 4{self.settings}"

    @property
    def folder(self) -> Path:
        """The stored summary of the search and the preset that it found."""
        return RESULTS / f"tune-{self.task}"

    @property
    def study(self) -> StudyEntry:
        """The comparison of the best settings with those of the preset, with the budget of a trial."""
        preset = (self.folder / PRESET).relative_to(ROOT)
        return StudyEntry(f"tuned-{self.task}", f"compare {self.task} --minutes 4{self.settings} --models s7,{preset}")


TUNED = (
    Tuned("walker2d"),
    Tuned("pendulum"),
    # 100 validation recordings are too few to choose between settings.
    Tuned("nmnist", " --set data.validation=0.3"),
)
TUNED_STUDIES = tuple(tuned.study for tuned in TUNED)


def search(tuned: Tuned, data: Path | None) -> None:
    """Run a search until its time is over, and store its summary and the best settings."""
    from s7.cli.main import main

    out = ROOT / "runs" / f"tune-{tuned.task}"
    words = [*shlex.split(tuned.command), "--out", str(out), *(["--data", str(data)] if data else [])]
    if main(words):
        raise SystemExit(f"{tuned.task}: stopped")
    tuned.folder.mkdir(exist_ok=True)
    for name in (FILE, PRESET):
        shutil.copy(out / name, tuned.folder)


def add_section(document: Document) -> None:
    """Add the searches to the page that have been stored."""
    found = {tuned: Summary.read(tuned.folder) for tuned in TUNED if tuned.folder.exists()}
    if not found:
        return
    document.heading("Tuned settings")
    document.paragraph(
        "By `python -m benchmarks.tuned --search TASK`: two hours of `s7 tune` on one core, with trials of four "
        "minutes, the first of which has the settings of the preset. The metrics are those of the validation data with "
        "the seed of the search, so that of the best trial is optimistic:"
    )
    heads = ["command", "trials", "metric", "preset", "best", "importance"]
    document.table(heads, [_row(tuned, summary) for tuned, summary in found.items()])


def _row(tuned: Tuned, summary: Summary) -> list[str]:
    short = shortened(list(summary.config["space"]))
    ranked = sorted(summary.importance.items(), key=lambda item: -item[1])
    importance = ", ".join(f"{short[name]} {share:.0%}" for name, share in ranked[:SHOWN])
    metrics = [_metric(summary, trial) for trial in (summary.preset, summary.best)]
    return [f"`s7 {tuned.command}`", summary.counts(), metric_name(summary.metric), *metrics, importance]


def _metric(summary: Summary, trial: TrialRecord | None) -> str:
    if trial is None:
        return MISSING
    return f"{metric_value(summary.metric, trial.value)} (trial {number(trial.number)})"


def main() -> None:
    """Run the searches that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    entries = {tuned.task: tuned for tuned in TUNED}
    parser.add_argument("--search", nargs="+", required=True, choices=[*entries], help="tasks to tune")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    for task in options.search:
        search(entries[task], options.data)


if __name__ == "__main__":
    main()
