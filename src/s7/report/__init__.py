"""The HTML report about one or several runs: `write(runs, out)`."""

from collections.abc import Sequence
from pathlib import Path

from s7.publishing import require
from s7.report.run import read

__all__ = ["write"]


def write(runs: Sequence[Path], out: Path) -> Path:
    """Write a report.

    Args:
        runs: folders of runs, at least one.
        out: the file to write. It is written atomically.

    Returns:
        The path of the file.
    """
    if not runs:
        raise ValueError("a report needs the folder of at least one run")
    read_runs = [read(Path(folder)) for folder in runs]
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out}: a folder; give the name of a file, such as {out / 'report.html'}")
    require("the report")
    from s7.publishing import pages
    from s7.report.page import report

    return pages.write(report(read_runs), out)
