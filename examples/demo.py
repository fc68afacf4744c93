"""`make demo`: trains S7 and an LSTM on a spiking neuron for half a minute each and writes demo/report.html."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.comparison import Row
    from examples.training import Progress

REPORT = Path("demo/report.html")


class Screen:
    """Progress for people: one line that rewrites itself on a terminal, a line now and then in a file."""

    def __init__(self, lines: int = 6):
        self.live = sys.stdout.isatty()
        self.lines = lines
        self.name = ""

    def begin(self, name: str, parameters: int) -> None:
        """Names the model that comes next."""
        self.name = name
        print(f"{name}: {parameters:,} parameters, compiling …", flush=True)

    def watch(self, progress: "Progress") -> None:
        """Shows where training stands."""
        epoch, epochs = progress.epoch, progress.epochs
        line = (
            f"{self.name}: epoch {epoch:3d}/{epochs}  validation RMSE {progress.valid:.2e}  "
            f"best {progress.best:.2e}  {progress.seconds:4.1f} s"
        )
        if self.live:
            print(f"\r{line}\033[K", end="\n" if epoch == epochs else "", flush=True)
        elif epoch == epochs or epoch % -(-epochs // self.lines) == 0:
            print(line, flush=True)


def table(rows: "list[Row]") -> str:
    """The result in columns."""
    lines = [f"{'model':<12}{'parameters':>11}{'seconds':>9}{'valid RMSE':>12}{'test RMSE':>12}{'test MSE':>12}"]
    for name, parameters, seconds, valid, test in rows:
        lines.append(f"{name:<12}{parameters:>11,}{seconds:>9.1f}{valid:>12.2e}{test:>12.2e}{test**2:>12.2e}")
    return "\n".join(lines)


def run(seed: int, out: Path) -> None:
    """The whole demo. Imports come late, so that what is missing can be said in one line."""
    start = time.perf_counter()
    print("FitzHugh–Nagumo neuron: predict the next of 1,000 samples from those before it", flush=True)
    from examples.comparison import compare
    from examples.report import write

    out.parent.mkdir(parents=True, exist_ok=True)  # a place that cannot be written to is known before the wait
    screen = Screen()
    comparison = compare(seed, screen.begin, screen.watch)
    write(comparison, out)
    print(f"\n{table(comparison.rows)}\n")
    print(f"{time.perf_counter() - start:.0f} s in all; report: {out}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of both models and their batches (default 0)")
    parser.add_argument("--out", type=Path, default=REPORT, help=f"where the report goes (default {REPORT})")
    options = parser.parse_args(arguments)
    try:
        run(options.seed, options.out)
    except ModuleNotFoundError as error:
        print(f"demo: {error.name} is not installed; pip install 's7-ssm[dev]'", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"demo: {error}; choose another place with --out", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print()  # leaves the line that was being rewritten
        print("demo: interrupted, no report written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
