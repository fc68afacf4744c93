"""Accuracy of `S7Classifier` with its defaults on twelve sets of the UCR archive.

    python -m benchmarks.ucr                             all steps, 3 seeds
    python -m benchmarks.ucr --keep 0.3                  30 % of the steps, at random, with their times
    python -m benchmarks.ucr --keep 0.3 --no-times       the same steps without their times
    python -m benchmarks.ucr --cv                        5-fold cross-validation on the training data alone
    python -m benchmarks.ucr --cv --settings '{"members": 1}' --label "one trained model"    with a trained model
    python -m benchmarks.ucr --table                     print the section of docs/results.md

Each result is one line of docs/results/ucr.jsonl (or --out), written as soon as it is known; an interrupted run is
resumed. The archive's own split is used; the test set is evaluated once per seed and chooses nothing. With `--keep`, a
random fraction of the steps of each series is kept, at least 8: numpy.random.default_rng(0), training series first,
choice(L, k, replace=False) for each series in order. The data are the files SET.npz in the folder ucr of the data
folder.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.stored import RESULTS
from s7.publishing.markdown import Document
from s7.version import __version__

STORED = RESULTS / "ucr.jsonl"
FOLDS = 5
DEFAULTS = "defaults"
TRAINED = "one trained model"
TEST, CROSS_VALIDATION = "test set", "cross-validation on the training data"


class Rivals(NamedTuple):
    """A set, and the test accuracy of two other classifiers on it.

    They are measured with aeon on one core: MiniRocket with three seeds, MultiRocket-Hydra with one. With 30 % of the
    steps, both read series that are interpolated linearly.
    """

    train: int
    test: int
    steps: int
    classes: int
    minirocket: float
    multirocket_hydra: float
    minirocket_irregular: float
    multirocket_hydra_irregular: float


SETS = {
    "Computers": Rivals(250, 250, 720, 2, 0.729, 0.780, 0.744, 0.748),
    "EOGVerticalSignal": Rivals(362, 362, 1250, 12, 0.533, 0.517, 0.553, 0.588),
    "RefrigerationDevices": Rivals(375, 375, 720, 3, 0.476, 0.517, 0.500, 0.517),
    "Haptics": Rivals(155, 308, 1092, 5, 0.524, 0.526, 0.516, 0.545),
    "OSULeaf": Rivals(200, 242, 427, 6, 0.955, 0.963, 0.937, 0.942),
    "Fish": Rivals(175, 175, 463, 7, 0.971, 0.983, 0.983, 0.983),
    "Car": Rivals(60, 60, 577, 4, 0.917, 0.933, 0.917, 0.900),
    "Earthquakes": Rivals(322, 139, 512, 2, 0.739, 0.734, 0.741, 0.705),
    "HouseTwenty": Rivals(40, 119, 2000, 2, 0.964, 0.992, 0.966, 0.983),
    "PigAirwayPressure": Rivals(104, 208, 2000, 52, 0.865, 0.712, 0.742, 0.630),
    "ShapeletSim": Rivals(20, 180, 500, 2, 1.000, 1.000, 0.722, 0.694),
    "ScreenType": Rivals(375, 375, 720, 3, 0.474, 0.560, 0.447, 0.488),
}


def load(folder: Path, name: str, keep: float) -> dict[str, Any]:
    """The series, labels and times (None if all steps are kept) of a set."""
    with np.load(folder / f"{name}.npz") as archive:
        data: dict[str, Any] = {key: archive[key] for key in ("train_x", "train_y", "test_x", "test_y")}
    data["train_times"] = data["test_times"] = None
    if keep < 1:
        rng = np.random.default_rng(0)
        for split in ("train", "test"):
            x = data[f"{split}_x"]
            count = max(8, round(keep * x.shape[1]))
            places = np.stack([np.sort(rng.choice(x.shape[1], count, replace=False)) for _ in x])
            data[f"{split}_x"], data[f"{split}_times"] = np.take_along_axis(x, places, 1), places
    return data


def fitted(x: Any, y: Any, times: Any, seed: int, options: argparse.Namespace) -> Any:
    """A classifier with its defaults."""
    from s7.sklearn import S7Classifier

    settings = json.loads(options.settings)
    return S7Classifier(random_state=seed, minutes=options.minutes, **settings).fit(x, y, times=times)


def tested(data: dict[str, Any], seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The accuracy on the test set."""
    model = fitted(data["train_x"], data["train_y"], data["train_times"], seed, options)
    shares = {type(member.model).__name__: 0.0 for member in model.ensemble_.members}
    for member in model.ensemble_.members:
        shares[type(member.model).__name__] += member.weight
    accuracy = model.score(data["test_x"], data["test_y"], times=data["test_times"])
    return {"accuracy": accuracy} | {f"share of {name}": round(share, 3) for name, share in shares.items()}


def cross_validated(data: dict[str, Any], seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The mean accuracy over folds of the training data."""
    from sklearn.model_selection import StratifiedKFold

    x, y, times = data["train_x"], data["train_y"], data["train_times"]
    folds = min(FOLDS, int(np.bincount(y).min()))
    right = []
    for kept, left_out in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
        part = [None if times is None else times[rows] for rows in (kept, left_out)]
        model = fitted(x[kept], y[kept], part[0], seed, options)
        right.append(model.predict(x[left_out], times=part[1]) == y[left_out])
    return {"accuracy": float(np.concatenate(right).mean())}


def add_section(document: Document, path: Path = STORED) -> None:
    """Add the stored results on the test sets to a page: with all steps, and with some of them."""
    lines = [line for line in _lines(path) if line["protocol"] == TEST]
    if not lines:
        return
    document.heading("Series of the UCR archive")
    document.paragraph(
        f"Test accuracy of `S7Classifier()` with its defaults on twelve data sets of the UCR archive (Dau et al. "
        f"2019), mean ± standard deviation over seeds, by `python -m benchmarks.ucr`, on {lines[-1]['machine']}. "
        "MiniRocket (Dempster et al. 2021, three seeds) and MultiRocket-Hydra (Dempster et al. 2023, one seed) were "
        "measured with aeon on the same split. The features were chosen by cross-validation on the training data with "
        "all steps, the readings of irregular series on the training data with 30 % of them. Seconds are processor "
        "time of fitting and testing, with compilation where its result was not cached, on a machine with other work. "
        "The best accuracy is bold."
    )
    chosen = [line for line in lines if line["label"] == DEFAULTS]
    others = ("MiniRocket", "MultiRocket-Hydra")
    regular = {"S7Classifier": [line for line in chosen if line["keep"] == 1]}
    _add_table(document, regular, others, lambda one: (one.minirocket, one.multirocket_hydra))
    irregular = [line for line in chosen if line["keep"] < 1]
    if not irregular:
        return
    document.paragraph(
        "With a random 30 % of the steps of each series, by `python -m benchmarks.ucr --keep 0.3`. `S7Classifier` is "
        "given the times of the steps, unless a column says otherwise (`--no-times`). The others read series "
        "that are interpolated linearly:"
    )
    ours = {
        "S7Classifier": [line for line in irregular if line["times"]],
        "S7Classifier, times not given": [line for line in irregular if not line["times"]],
    }
    _add_table(document, ours, others, lambda one: (one.minirocket_irregular, one.multirocket_hydra_irregular))
    _add_trained(document, [line for line in _lines(path) if line["protocol"] == CROSS_VALIDATION])


def _add_trained(document: Document, lines: Sequence[dict[str, Any]]) -> None:
    """What a trained model adds to random states, by cross-validation."""
    labels = (DEFAULTS, TRAINED)
    found = {(line["set"], line["label"]): line for line in lines if line["keep"] == 1 and line["label"] in labels}
    sets = [name for name in SETS if all((name, label) in found for label in labels)]
    if not sets:
        return
    document.paragraph(
        "With fewer than 500 series, the defaults fit random states alone. Accuracy in 5-fold cross-validation on the "
        "training data with all steps, without a trained model (`python -m benchmarks.ucr --cv --seeds 0`) and with "
        """one (`--settings '{"members": 1}' --label "one trained model"`), whose share is chosen on the series that """
        "it leaves out; and seconds of processor time for five fits:"
    )
    rows = []
    for name in sets:
        pair = [found[name, label] for label in labels]
        accuracies, seconds = [f"{one['accuracy']:.3f}" for one in pair], [f"{one['cpu_seconds']:.0f}" for one in pair]
        rows.append([name, *accuracies, *seconds])
    columns = ("random states", "and a trained model", "seconds", "seconds with a trained model")
    document.table(["set", *columns], rows)


def _add_table(
    document: Document,
    ours: dict[str, list[dict[str, Any]]],
    others: Sequence[str],
    rivals_of: Callable[[Rivals], Sequence[float]],
) -> None:
    """One row per set and one of the means; `ours` are the results of each column of S7Classifier."""
    ours = {name: lines for name, lines in ours.items() if {line["set"] for line in lines} == set(SETS)}
    if not ours:
        return
    rows, means, seconds = [], [], []
    for name, rivals in SETS.items():
        found = [[line["accuracy"] for line in lines if line["set"] == name] for lines in ours.values()]
        values = [statistics.mean(accuracies) for accuracies in found] + list(rivals_of(rivals))
        cells = [_accuracy(accuracies) for accuracies in found] + [f"{value:.3f}" for value in rivals_of(rivals)]
        best = max(round(value, 3) for value in values)
        cells = [f"**{c}**" if round(v, 3) == best else c for c, v in zip(cells, values, strict=True)]
        used = [line["cpu_seconds"] for line in next(iter(ours.values())) if line["set"] == name]
        seconds.append(statistics.mean(used))
        means.append(values)
        sizes = [f"{rivals.train} / {rivals.test}", str(rivals.steps), str(rivals.classes)]
        rows.append([name, *sizes, *cells, str(len(used)), f"{seconds[-1]:.0f}"])
    average = np.mean(means, 0)
    cells = [f"{value:.3f}" for value in average]
    cells = [f"**{cell}**" if value == average.max() else cell for cell, value in zip(cells, average, strict=True)]
    rows.append([f"mean of {len(rows)}", "", "", "", *cells, "", f"{statistics.mean(seconds):.0f}"])
    document.table(["set", "train / test", "steps", "classes", *ours, *others, "seeds", "seconds"], rows)
    sets = [row[0] for row in rows[:-1]]
    behind = [(name, q[0], max(q[len(ours) :])) for name, q in zip(sets, means, strict=True)]
    losses = [f"{name} ({a:.3f}, {b:.3f})" for name, a, b in behind if round(a, 3) < round(b, 3)]
    document.paragraph(
        f"The better of the two is ahead of `S7Classifier` on {len(losses)} of {len(sets)} sets"
        + (f": {', '.join(losses)}." if losses else ".")
    )


def _accuracy(found: Sequence[float]) -> str:
    mean = f"{statistics.mean(found):.3f}"
    return mean if len(found) == 1 else f"{mean} ± {statistics.stdev(found):.3f}"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Run what is missing in the file of results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("S7_DATA", "data")) / "ucr")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--keep", type=float, default=1.0, help="fraction of the steps to keep")
    parser.add_argument("--no-times", action="store_true", help="do not pass the times of the steps that are kept")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--settings", default="{}", help="settings of the classifier, as JSON")
    parser.add_argument("--label", default=DEFAULTS, help="name of the settings in the file of results")
    parser.add_argument("--cv", action="store_true", help="cross-validate on the training data")
    parser.add_argument("--out", type=Path, default=STORED)
    parser.add_argument("--table", action="store_true", help="print the stored results")
    options = parser.parse_args()
    if options.table:
        document = Document("Results")
        add_section(document, options.out)
        print(document.text(), end="")
        return
    from s7.machine import description, keep_compiled_code

    keep_compiled_code()
    protocol = CROSS_VALIDATION if options.cv else TEST
    measure = cross_validated if options.cv else tested
    names = ("set", "seed", "keep", "times", "protocol", "label")
    done = {tuple(line[name] for name in names) for line in _lines(options.out)}
    for seed in options.seeds:
        for name in options.sets.split(","):
            key = (name, seed, options.keep, options.keep < 1 and not options.no_times, protocol, options.label)
            if key in done:
                continue
            began = time.process_time()
            data = load(options.data, name, options.keep)
            if options.no_times:
                data["train_times"] = data["test_times"] = None
            record = dict(zip(names, key, strict=True)) | measure(data, seed, options)
            record |= {"cpu_seconds": round(time.process_time() - began, 1), "minutes": options.minutes}
            record |= {"settings": options.settings, "machine": description(), "version": __version__}
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
