"""The HTML report about one or several runs, or about a search of settings: `write(runs, out)`."""

from collections.abc import Sequence
from pathlib import Path

from s7.publishing import require
from s7.report.run import read
from s7.tune.summary import Summary, is_search

__all__ = ["write"]


def write(runs: Sequence[Path], out: Path) -> Path:
    """Write a report.

    Args:
        runs: folders of runs, at least one; or the folder of a search.
        out: the file to write. It is written atomically.

    Returns:
        The path of the file.
    """
    if not runs:
        raise ValueError("a report needs the folder of at least one run")
    searches = [Path(folder) for folder in runs if is_search(Path(folder))]
    if searches and len(runs) > 1:
        raise ValueError(f"{searches[0]}: a search of settings; make a report of it alone")
    read_runs = [] if searches else [read(Path(folder)) for folder in runs]
    summary = Summary.read(searches[0]) if searches else None
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out}: a folder; give the name of a file, such as {out / 'report.html'}")
    require("the report")
    from s7.publishing import pages

    if summary is not None:
        from s7.report.tuning import tuning_page

        return pages.write(tuning_page(summary, str(runs[0])), out)
    from s7.report.page import report

    return pages.write(report(read_runs), out)
