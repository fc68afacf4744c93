"""The information to repeat a run: its command, settings, versions and data."""

from collections.abc import Mapping, Sequence
from typing import Any

from s7.publishing.pages import Code, Paragraph, Part, Table
from s7.publishing.text import MISSING, duration, number
from s7.report.run import Run

# Values of a list that are shown.
SHOWN = 12


def settings(run: Run) -> list[Part]:
    """The command, and all settings in tables."""
    parts: list[Part] = []
    if run.record.command:
        parts += [Paragraph("The command that repeats the run:"), Code(run.record.command)]
    parts.append(Table([], list(_circumstances(run).items()), kind="settings"))
    tables: dict[str, Any] = {
        "": {key: value for key, value in run.record.config.items() if not isinstance(value, dict)}
    }
    tables |= {key: value for key, value in run.record.config.items() if isinstance(value, dict)}
    for name, values in tables.items():
        rows = list(flat(values).items())
        if rows:
            parts.append(Table([], rows, caption=f"[{name}]" if name else "config.toml", kind="settings"))
    return parts


def differences(runs: Sequence[Run], names: Sequence[str]) -> Table | None:
    """The settings that differ between runs, side by side; None if there are none."""
    tables = [flat(run.record.config) for run in runs]
    keys = dict.fromkeys(key for each in tables for key in each)
    rows = [[key, *(each.get(key, MISSING) for each in tables)] for key in keys]
    # A setting that only some models have is listed with the run itself.
    rows = [row for row in rows if len(set(row[1:])) > 1 and MISSING not in row[1:]]
    return Table(["setting", *names], rows, caption="Settings that differ", kind="text") if rows else None


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their dotted names, as text."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for n, item in enumerate(value, 1):
                found |= flat(item, f"{prefix}{key}.{n}.")
        else:
            found[prefix + key] = _plain(value)
    return found


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        shown = ", ".join(_plain(item) for item in value[:SHOWN])
        return f"{shown}, … ({len(value)} values)" if len(value) > SHOWN else shown
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _circumstances(run: Run) -> dict[str, str]:
    shown = {"folder": str(run.path)}
    if run.result.versions:
        shown["versions"] = ", ".join(f"{name} {version}" for name, version in run.result.versions.items())
    shown |= {"machine": run.result.machine} if run.result.machine else {}
    shown |= {"objective": run.result.objective} if run.result.objective else {}
    for split, digest in run.result.data_sha256.items():
        shown[f"{split} data, SHA-256"] = digest
    if run.seconds is not None:
        shown["training time"] = duration(run.seconds)
    if run.result.steps_per_second is not None:
        shown["speed"] = f"{number(run.result.steps_per_second)} steps/s"
    if run.result.peak_memory_mb is not None:
        shown["peak memory"] = f"{run.result.peak_memory_mb:,.0f} MB"
    return shown
