"""Accuracy of `S7Classifier` with its defaults on twelve sets of the UCR archive.

    python -m benchmarks.ucr --out ucr.jsonl                 all steps, 3 seeds
    python -m benchmarks.ucr --keep 0.3 --out ucr.jsonl      30 % of the steps, at random, with their times
    python -m benchmarks.ucr --cv --out cv.jsonl             5-fold cross-validation on the training data alone
    python -m benchmarks.ucr --table ucr.jsonl               the table of all results in a file

Each result is one line of the file, written as soon as it is known; a run that was interrupted continues. The archive's
own split is used; the test set is looked at once per seed and chooses nothing. With `--keep`, of each series a random
fraction of the steps is kept, at least 8: numpy.random.default_rng(0), training series first, choice(L, k,
replace=False) for each series in order. The data are the files SET.npz in the folder ucr of the data folder.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from s7.machine import keep_compiled_code
from s7.sklearn import S7Classifier
from s7.version import __version__

SETS = (
    *("Computers", "EOGVerticalSignal", "RefrigerationDevices", "Haptics", "OSULeaf", "Fish"),
    *("Car", "Earthquakes", "HouseTwenty", "PigAirwayPressure", "ShapeletSim", "ScreenType"),
)
FOLDS = 5


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


def fitted(x: Any, y: Any, times: Any, seed: int, options: argparse.Namespace) -> S7Classifier:
    """A classifier with its defaults."""
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


def table(path: Path) -> str:
    """All results of a file: the mean over seeds for each set, and the mean over sets."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = sorted({(line["protocol"], line["keep"], line["settings"]) for line in lines}, key=str)
    text = []
    for kind in kinds:
        chosen = [line for line in lines if (line["protocol"], line["keep"], line["settings"]) == kind]
        text += [
            f"{kind[0]}, {kind[1]:.0%} of the steps, settings {kind[2]}",
            "| set | accuracy | seeds | seconds |",
            "|---|---|---|---|",
        ]
        means = []
        for name in SETS:
            found = [line for line in chosen if line["set"] == name]
            if found:
                means.append(np.mean([line["accuracy"] for line in found]))
                seconds = np.mean([line["cpu_seconds"] for line in found])
                text.append(f"| {name} | {means[-1]:.3f} | {len(found)} | {seconds:.0f} |")
        text += [f"| mean of {len(means)} | {np.mean(means):.3f} | | |", ""]
    return "\n".join(text)


def main() -> None:
    """Run what is missing in the file of results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("S7_DATA", "data")) / "ucr")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--settings", default="{}", help="settings of the classifier, as JSON")
    parser.add_argument("--cv", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("ucr.jsonl"))
    parser.add_argument("--table", type=Path, default=None)
    options = parser.parse_args()
    if options.table is not None:
        print(table(options.table))
        return
    keep_compiled_code()
    protocol = "cross-validation on the training data" if options.cv else "test set"
    done = set()
    if options.out.exists():
        for line in map(json.loads, options.out.read_text().splitlines()):
            done.add((line["set"], line["seed"], line["keep"], line["protocol"], line["settings"]))
    for seed in range(options.seeds):
        for name in options.sets.split(","):
            key = (name, seed, options.keep, protocol, options.settings)
            if key in done:
                continue
            began, wall = time.process_time(), time.perf_counter()
            measure = cross_validated if options.cv else tested
            found = measure(load(options.data, name, options.keep), seed, options)
            record = dict(zip(("set", "seed", "keep", "protocol", "settings"), key, strict=True)) | found
            record |= {"cpu_seconds": round(time.process_time() - began, 1), "minutes": options.minutes}
            record |= {"seconds": round(time.perf_counter() - wall, 1), "version": __version__}
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
