"""The search space: which settings are searched, over which ranges.

The ranges are declared with the settings (see ranges.py). A declared range is extended to include the setting of the
preset, so that the preset is one point of the space. A setting whose value in the preset is not a number, such as an
SSM learning rate that follows the learning rate, is searched only if it is named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from s7.config import ModelConfig, Stage, with_stages
from s7.job import SECTIONS, Job
from s7.ranges import Choice, Range, Searched, declared
from s7.settings import Table, from_assignments, merge, unknown

# Settings of the model that follow from the data: they are not known before the data are read.
FROM_DATA = ("model.encoder.", "model.head.")
DEPTH = "model.depth"
_ONE_STAGE = "model.stages.0.depth"
_S7_ONLY = ("model.state", "model.blocks", "model.form.", "model.transition.")


@dataclass(frozen=True)
class Space:
    """Ranges by the dotted names of settings, and the values of the preset where they are known."""

    ranges: Mapping[str, Searched]
    preset: Mapping[str, Any]

    @classmethod
    def of(cls, job: Job, given: Iterable[str] = (), only: Sequence[str] = ()) -> "Space":
        """The space of a job.

        Args:
            job: The job whose settings are the centre of the search.
            given: Ranges such as "train.learning_rate=1e-4:1e-2:log" or "model.norm=layer,rms", which are added to the
                declared ones or replace them.
            only: Names of settings, or of tables such as "train", to search instead of all declared ones.

        Raises:
            ValueError: If a name is unknown, or a range is not valid for its setting.
        """
        known, settings = dict(_declared(job)), job.complete()
        preset = {name: _lookup(settings, name) for name in known}
        chosen: dict[str, Searched] = {}
        for name in only or SECTIONS:
            found = _below(name, known, preset)
            if only and not found:
                raise ValueError(f"--only: {unknown('declared range', name, known)} Add one: --space KEY=LOW:HIGH")
            chosen |= found
        wanted = {}
        for assignment in given:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise ValueError(f"--space {assignment}: expected KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=A,B,…")
            if name not in known:
                preset[name] = _lookup(settings, name, f"--space {name}")
            wanted[name] = parse(text, preset[name], f"--space {assignment}")
        for name, over in chosen.items():
            if name not in wanted and not _is_unset(preset[name]):
                chosen[name] = over.including(preset[name])
        space = cls(chosen | wanted, preset)
        if not space.ranges:
            raise ValueError("the search space is empty; name settings with --space KEY=LOW:HIGH")
        space._check(job)
        return space

    def settings(self, job: Job, values: Mapping[str, Any]) -> Table:
        """The settings of a trial: those of the job with the values of searched settings."""
        table: Table = job.settings | {"model": with_stages(job.settings.get("model", {}), "model")}
        complete = job.complete()
        for name, value in values.items():
            path = _ONE_STAGE if name == DEPTH else name
            table = merge(table, _with(merge(complete, table), path.split("."), value))
        return table

    def preset_values(self) -> dict[str, Any]:
        """The values of the preset that lie in the space."""
        return {name: self.preset[name] for name, over in self.ranges.items() if _contains(over, self.preset[name])}

    def record(self) -> dict[str, Any]:
        """The ranges as JSON."""
        return {name: str(over) for name, over in sorted(self.ranges.items())}

    def distributions(self) -> dict[str, Any]:
        """Optuna's distributions."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, Any] = {}
        for name, over in self.ranges.items():
            if isinstance(over, Choice):
                found[name] = CategoricalDistribution(over.options)
            elif over.is_whole:
                found[name] = IntDistribution(int(over.low), int(over.high), over.log, int(over.step or 1))
            else:
                found[name] = FloatDistribution(over.low, over.high, over.log, over.step)
        return found

    def _check(self, job: Job) -> None:
        """Raise an error if the ends of a range are not valid settings."""
        for name, over in self.ranges.items():
            for value in over.ends:
                try:
                    replace(job, settings=self.settings(job, {name: value})).check()
                except ValueError as error:
                    # Whether blocks divide the state depends on both; such trials are discarded one by one.
                    if "does not divide" not in str(error):
                        raise ValueError(f"range {name}={over}: {error}") from None


def parse(text: str, preset: Any, where: str) -> Searched:
    """A range from the command line: LOW:HIGH, LOW:HIGH:log, LOW:HIGH:STEP, or values separated by commas."""
    words = text.split(":")
    if len(words) == 1:
        options = tuple(from_assignments([f"v={word.strip()}"])["v"] for word in text.split(","))
        try:
            return Choice(options)
        except ValueError:
            raise ValueError(
                f"{where}: expected LOW:HIGH, LOW:HIGH:log, LOW:HIGH:STEP or different values A,B,…"
            ) from None
    log = words[2:] == ["log"]
    try:
        whole = all(_is_whole(word) for word in words if word != "log") and not isinstance(preset, float)
        low, high, *step = (int(word) if whole else float(word) for word in words[: 2 if log else 3])
        if len(words) > 3:
            raise ValueError
        return Range(low, high, log, step[0] if step else None)
    except ValueError as error:
        why = str(error) if "expected" in str(error) or "range" in str(error) else "expected LOW:HIGH with two numbers"
        raise ValueError(f"{where}: {why.removeprefix(f'{text}: ')}") from None


def _is_whole(word: str) -> bool:
    return word.strip().lstrip("+-").isdecimal()


def _declared(job: Job) -> Iterable[tuple[str, Searched]]:
    """The declared ranges of a job's settings. Settings that the model does not use are left out."""
    config = job.base_config()
    for name, over in (*declared(config, "model"), *declared(job.training(), "train"), *declared(job.data(), "data")):
        if config.layer is not None and name.startswith(_S7_ONLY):
            continue
        if name.startswith(FROM_DATA):
            continue
        yield (DEPTH if name == _ONE_STAGE and _is_plain(config) else name), over


def _is_plain(config: ModelConfig) -> bool:
    """Whether `depth` says all about the stages."""
    return config.stages == (Stage(depth=config.depth),)


def _below(name: str, known: Mapping[str, Searched], preset: Mapping[str, Any]) -> dict[str, Searched]:
    """The setting of this name, or those of the table of this name."""
    if name in known:
        return {name: known[name]}
    inside = {key: over for key, over in known.items() if key.startswith(f"{name}.")}
    return {key: over for key, over in inside.items() if not over.optional and not _is_unset(preset[key])}


def _is_unset(value: Any) -> bool:
    return value is None or value == "none"


def _lookup(settings: Table, name: str, where: str = "") -> Any:
    """The value of a setting by its dotted name; None if only the data determine it.

    `where` starts the message for an unknown one.
    """
    if name == DEPTH:
        name = _ONE_STAGE
    value: Any = settings
    for word in name.split("."):
        try:
            value = value[int(word) if isinstance(value, list) else word]
        except (KeyError, IndexError, ValueError, TypeError):
            if name.startswith(FROM_DATA):
                return None
            known = list(value) if isinstance(value, dict) else []
            raise ValueError(f"{where}: {unknown('setting', word, known)}") from None
    return value


def _with(settings: Any, words: Sequence[str], value: Any) -> Any:
    """The part of complete settings that sets one value. Tables keep their kind, and lists their other items."""
    if not words:
        return value
    word, *rest = words
    if isinstance(settings, list):
        changed = _with(settings[int(word)], rest, value)
        old = settings[int(word)]
        items = list(settings)
        items[int(word)] = merge(old, changed) if isinstance(old, dict) else changed
        return items
    kind = {"kind": settings["kind"]} if "kind" in settings else {}
    return kind | {word: _with(settings.get(word, {}), rest, value)}


def _contains(over: Searched, value: Any) -> bool:
    if isinstance(over, Choice):
        return value in over.options
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and over.low <= value <= over.high
