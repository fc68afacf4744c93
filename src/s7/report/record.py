"""What it takes to repeat a run: its settings, versions, data and command."""

from collections.abc import Sequence
from typing import Any

from s7.publishing.text import duration
from s7.records import RunRecord
from s7.report.markup import Safe, paragraph, section, table, tag
from s7.report.run import Run


def record(run: Run, name: str, level: int = 2) -> Safe:
    """All settings of a run."""
    parts: list[Safe] = []
    command = RunRecord.read(run.path).command
    if command is not None:
        parts.append(paragraph("The command that repeats the run:"))
        parts.append(tag("pre", tag("code", command)))
    parts.append(table([], list(_circumstances(run).items()), class_="settings"))
    tables = {"": {key: value for key, value in run.config.items() if not isinstance(value, dict)}}
    tables |= {key: value for key, value in run.config.items() if isinstance(value, dict)}
    for part, values in tables.items():
        rows = list(flat(values).items())
        if rows:
            parts.append(table([], rows, caption=f"[{part}]" if part else "config.toml", class_="settings"))
    return section(name, "Settings", *parts, level=level)


def differences(runs: Sequence[Run], names: Sequence[str]) -> Safe:
    """The settings in which runs differ, side by side."""
    settings = [flat(run.config) for run in runs]
    keys = dict.fromkeys(key for each in settings for key in each)
    rows = [[key, *(each.get(key, "–") for each in settings)] for key in keys]
    # What only some of them have belongs to their kind, and is told where each is shown from inside.
    rows = [row for row in rows if len(set(row[1:])) > 1 and "–" not in row[1:]]
    if not rows:
        return Safe()
    return table(["setting", *names], rows, caption="Where the settings differ", class_="plain")


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their full names, as text."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = _plain(value)
    return found


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        shown = ", ".join(_plain(item) for item in value[:12])
        return f"{shown}, … ({len(value)} values)" if len(value) > 12 else shown
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_plain(item)}" for key, item in value.items()) + "}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _circumstances(run: Run) -> dict[str, str]:
    result = run.result
    told = {"folder": str(run.path)}
    versions = result.get("versions") or {}
    if versions:
        told["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    for key in ("machine", "objective"):
        if result.get(key):
            told[key] = str(result[key])
    digests = result.get("data_sha256") or {}
    for split, digest in (digests if isinstance(digests, dict) else {"data": digests}).items():
        told[f"{split}, SHA-256"] = str(digest)
    if "seconds" in result:
        told["time"] = duration(result["seconds"])
    if "steps_per_second" in result:
        told["pace"] = f"{result['steps_per_second']:.4g} steps/s"
    if "peak_memory_mb" in result:
        told["peak memory"] = f"{result['peak_memory_mb']:,.0f} MB"
    return told
