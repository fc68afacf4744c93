"""One page of HTML about one or several runs: `write(runs, out)`."""

from collections.abc import Sequence
from pathlib import Path

from s7.report.run import read
from s7.storage import write_atomically

__all__ = ["write"]


def write(runs: Sequence[Path], out: Path) -> Path:
    """Reads the runs' folders and writes the page, whole or not at all; returns where it is."""
    if not runs:
        raise ValueError("a report needs the folder of at least one run")
    read_runs = [read(Path(folder)) for folder in runs]
    try:
        from s7.report.page import render
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ValueError("s7 report needs matplotlib; pip install 's7-ssm[report]'") from None
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out}: a folder; give the name of a file, such as {out / 'report.html'}")
    write_atomically(out, render(read_runs).encode())
    return out
