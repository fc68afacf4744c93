"""Digits of new speakers, answered from several variants of each recording.

    python -m benchmarks.new_speakers --validation    on the validation speakers, who are not in the training data
    python -m benchmarks.new_speakers                 on the test speakers
    python -m benchmarks.results                      writes the page

Trains the models of the row spoken-digits-new-speaker, in runs/new-speakers; with --validation, one of the five other
speakers is for validation instead of training. The probabilities of the classes are then averaged over a recording and
the variants of it that `data.vary` makes, as it makes them of the training recordings. An interrupted run is resumed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from benchmarks.entries import ENTRIES, Run
from benchmarks.stored import RESULTS, ROOT
from s7.publishing.markdown import Document
from s7.publishing.text import MISSING, mean_std, number
from s7.storage import write_atomically

RUNS = ROOT / "runs" / "new-speakers"
STORED = RESULTS / "new-speakers.json"
NAME = "spoken-digits-new-speaker"


def measure(run: Run, part: str, data: Path | None) -> dict[str, Any]:
    """Train the model of a row, and evaluate it with and without variants."""
    import s7
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.run_folder import RunFolder
    from s7.settings import from_assignments
    from s7.training.display import display

    settings = [*run.settings, *(["data.validate=speaker"] if part == "valid" else [])]
    job = Job("spoken-digits", seed=run.seed, settings=from_assignments(settings), test=False)
    out, folder = RunFolder(RUNS / f"{part}-{run.label}"), DataFolder(data)
    print(f"\n{out.path.name}", flush=True)
    if not out.is_finished:
        job.run(out.path, folder, resume=out.is_begun, callbacks=(display(),))
    each, labels = probabilities(s7.load(out.path), job.data(), part, folder)
    answers = {"plain": each[0], "averaged": each.mean(0)}
    found = {name: float((q.argmax(1) == labels).mean()) for name, q in answers.items()}
    print(found, flush=True)
    return {"part": part, "left out": run.label, "variants": len(each) - 1, **found}


def probabilities(
    model: Any, task: Any, part: str, folder: Any
) -> tuple[Float[np.ndarray, "V N C"], Int[np.ndarray, " N"]]:
    """The probabilities of the classes for each version of the recordings of a split, and the labels."""
    import s7
    from s7.tasks.spoken_digits import FILES, HOW, read_spoken, split

    path = folder.require(*FILES, how=HOW)
    spoken = read_spoken(path)
    chosen = split(spoken, task.speaker, task.validate)[part]
    samples = [
        version.samples(task.spikes.sensor, part, chosen) for version in task.versions(folder, spoken, path, print)
    ]
    return np.stack([s7.predict_proba(model, one) for one in samples]), samples[0].targets


def add_section(document: Document) -> None:
    """Add the stored measurements to the page."""
    if not STORED.exists():
        return
    found = {(row["part"], row["left out"]): row for row in json.loads(STORED.read_text(encoding="utf-8"))}
    speakers = list(dict.fromkeys(speaker for _, speaker in found))
    columns = [(part, way) for part in ("valid", "test") for way in ("plain", "averaged")]
    cells = [[_cell(found.get((part, speaker)), way) for part, way in columns] for speaker in speakers]
    values = [[row[way] for (kind, _), row in found.items() if kind == part] for part, way in columns]
    mean = ["mean ± std", *(mean_std(column) if column else MISSING for column in values)]
    document.heading("New speakers, several variants of each recording")
    document.paragraph(
        "By `python -m benchmarks.new_speakers`, and with `--validation`: the models of the row "
        f"`{NAME}`, trained again, with the probabilities of the classes averaged over a recording and 16 random "
        "variants of it (`data.vary`), as they are made of the training recordings. For each speaker that is left out: "
        "the accuracy on the next speaker by name with four speakers for training, and on that speaker with five:"
    )
    heads = ["left out", "validation", "validation, averaged", "test", "test, averaged"]
    document.table(heads, [*([name, *row] for name, row in zip(speakers, cells, strict=True)), mean])


def _cell(row: dict[str, Any] | None, way: str) -> str:
    return MISSING if row is None else number(row[way], 3)


def main() -> None:
    """Measure all speakers, and store the accuracies."""
    from s7.machine import keep_compiled_code, keep_freed_memory

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--validation", action="store_true", help="validation speakers instead of test speakers")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    keep_freed_memory()
    keep_compiled_code()
    part = "valid" if options.validation else "test"
    entry = next(entry for entry in ENTRIES if entry.name == NAME)
    measured = [measure(run, part, options.data) for run in entry.runs]
    before = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    rows = [*(row for row in before if row["part"] != part), *measured]
    write_atomically(STORED, json.dumps(rows, indent=1).encode())


if __name__ == "__main__":
    main()
