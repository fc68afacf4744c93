"""Train S7 and an LSTM on a spiking neuron for about the same time and write demo/report.html (`make demo`)."""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path("demo")
# These numbers of epochs take about the same time on two cores. They are fixed, so the results are reproducible. The
# LSTM's learning rate is the best of a sweep in factors of two on the validation split; S7 uses its preset.
SETTINGS: dict[str, dict[str, Any]] = {
    "s7": {"train": {"epochs": 30}},
    "lstm": {"model": {"width": 24}, "train": {"epochs": 24, "learning_rate": 0.2}},
}


def run(seed: int, folder: Path) -> None:
    """Run the demo. Packages are imported here, so that a missing one is reported in one line."""
    start = time.perf_counter()
    print("FitzHugh–Nagumo neuron: predict each of 1,000 samples from the samples before it", flush=True)
    from s7 import report
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.training.display import display

    keep_freed_memory()
    keep_compiled_code()
    runs = {model: folder / model for model in SETTINGS}
    results = {}
    for model, out in runs.items():
        shutil.rmtree(out, ignore_errors=True)
        print(f"\n{model.upper()}", flush=True)
        job = Job("fitzhugh-nagumo", model, seed=seed, settings=SETTINGS[model])
        results[model.upper()] = job.run(out, DataFolder(), callbacks=(display(),)).result
    page = report.write(list(runs.values()), folder / "report.html")
    print(f"\n{table(results['S7']['baselines'], results)}\n")
    print(f"total time {time.perf_counter() - start:.0f} s; report: {page}", flush=True)


def table(baselines: dict[str, dict[str, float]], results: dict[str, dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = [f"{'model':<12}{'parameters':>11}{'seconds':>9}{'valid RMSE':>12}{'test RMSE':>12}{'test MSE':>12}"]
    for name, metrics in baselines.items():
        lines.append(f"{name:<12}{'':>32}{metrics['rmse']:>12.2e}{metrics['mse']:>12.2e}")
    for name, result in results.items():
        valid, test = result["valid"], result["test"]
        lines.append(
            f"{name:<12}{result['parameters']:>11,}{result['seconds']:>9.1f}"
            f"{valid['rmse']:>12.2e}{test['rmse']:>12.2e}{test['mse']:>12.2e}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo from the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="random seed of both models and their batches (default 0)")
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help=f"output folder for runs and report (default {FOLDER})"
    )
    options = parser.parse_args(arguments)
    try:
        run(options.seed, options.out)
    except ModuleNotFoundError as error:
        print(f"demo: {error.name} is not installed; pip install 's7-ssm[report]'", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"demo: {error}; choose another folder with --out", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ndemo: interrupted, no report written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
