"""The finished runs of interrupted studies, kept in docs/results/unfinished.tar.xz until their study is complete.

Studies take hours, and runs/ is not in the repository. With this archive, a study continues on another machine or in
another checkout: `python -m benchmarks.studies --run NAME` unpacks it first, and packs it again when it is interrupted.
The archive has no model files; a run that was not finished starts again.
"""

import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from s7.records import CONFIG, METRICS, RESULT
from s7.storage import write_atomically
from s7.study.study import CONFIG as STUDY

# A study writes it when all of its trials have ended.
DONE = "comparison.json"


def pack(runs: Path, archive: Path) -> None:
    """Store the finished runs of all interrupted studies below `runs`; without any, remove the archive."""
    files = sorted(path for study in _interrupted(runs) for path in _files(study))
    if not files:
        archive.unlink(missing_ok=True)
        return
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for path in files:
            content = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(runs).as_posix())
            member.size = len(content)
            tar.addfile(member, BytesIO(content))
    write_atomically(archive, packed.getvalue())


def unpack(runs: Path, archive: Path) -> None:
    """Restore the studies of the archive that are not below `runs`."""
    if not archive.exists():
        return
    with tarfile.open(archive) as tar:
        missing = [member for member in tar if not (runs / Path(member.name).parts[0]).exists()]
        tar.extractall(runs, missing, filter="data")


def _interrupted(runs: Path) -> Iterator[Path]:
    for config in runs.glob(f"*/{STUDY}"):
        if not (config.parent / DONE).exists():
            yield config.parent


def _files(study: Path) -> Iterator[Path]:
    """The configurations of a study and of its search, and the records of their finished runs."""
    yield from study.rglob(STUDY)
    for result in study.rglob(RESULT):
        yield from (path for path in (result, result.with_name(CONFIG), result.with_name(METRICS)) if path.exists())
