"""Settings: frozen dataclasses built from tables, such as those of a TOML file, and checked by their annotations.

A field that is itself a dataclass is a table. Where several classes are possible, "kind" names the class, and a string
stands for a table with that kind alone: `form = "Static"`, `form = {kind = "Factored", rank = 32}`. The string "none"
stands for None, which TOML cannot write.
"""

import numbers
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from s7.registry import Registered, unknown

Table = dict[str, Any]

# The classes accepted as each type: NumPy's too, and integers as floats.
_NUMBERS = {int: numbers.Integral, float: numbers.Real}

# Settings that had another name up to version 0.6.
RENAMED = {
    "rate": "learning_rate",
    "decay": "weight_decay",
    "batch": "batch_size",
    "warm_up": "warmup",
    "clip": "clip_norm",
    "shapes": "buckets",
    "ssm_rate": "ssm_learning_rate",
    "ssm_decay": "ssm_weight_decay",
    "selective_rate": "selective_learning_rate",
    "selective_decay": "selective_weight_decay",
    "steps": "dt_min",
}


def build(kind: type, table: Mapping[str, Any], where: str, given: Mapping[str, Any] | None = None) -> Any:
    """Build a dataclass from a table.

    Args:
        kind: The dataclass.
        table: Values of its fields. A "kind" in it is ignored.
        where: The name of the table, which starts error messages.
        given: Values of fields that a table may not set.

    Raises:
        ValueError: If a name is unknown or a value does not fit, naming the setting.
    """
    given = given or {}
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.name not in given}
    for name in table:
        if name != "kind" and name not in known:
            raise ValueError(f"{where}.{name}: {unknown_setting(name, known)}")
    values = {name: convert(table[name], hints[name], f"{where}.{name}") for name in known if name in table}
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}.{name}: {kind.__name__} needs it")
    try:
        return kind(**values, **given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def unknown_setting(name: str, known: Iterable[str]) -> str:
    """The message for an unknown setting: its new name if it was renamed, else the most similar one."""
    known = list(known)
    new = RENAMED.get(name)
    if new is None or new not in known:
        return unknown("setting", name, known)
    both = "dt_min and dt_max" if new == "dt_min" else new
    return f"{name!r} is now called {both}"


def convert(value: Any, hint: Any, where: str) -> Any:
    """Check a value of a table against an annotation and convert it: lists to tuples, tables to dataclasses.

    Raises:
        ValueError: If the value does not fit. The message starts with `where`.
    """
    if get_origin(hint) in (Union, types.UnionType):
        options = get_args(hint)
        if type(None) in options and value in (None, "none"):
            return None
        return _one_of(value, [option for option in options if option is not type(None)], where)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{where}={value!r} is not one of {', '.join(map(repr, get_args(hint)))}")
        return value
    if get_origin(hint) is tuple:
        return _tuple(value, get_args(hint), where)
    if _kinds(hint):
        return _dataclass(value, hint, where)
    if hint is Any:
        return value
    hint = get_origin(hint) or hint
    if hint in _NUMBERS and isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool):
        return hint(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{where}={value!r} is not {_article(hint.__name__)}")
    return value


def _one_of(value: Any, options: list[Any], where: str) -> Any:
    *most, last = options
    for option in most:
        try:
            return convert(value, option, where)
        except ValueError:
            continue
    return convert(value, last, where)


def _tuple(value: Any, items: tuple, where: str) -> tuple:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where}={value!r} is not a list")
    if len(items) == 2 and items[1] is Ellipsis:
        items = (items[0],) * len(value)
    if len(items) != len(value):
        raise ValueError(f"{where}={value!r} has {len(value)} entries, expected {len(items)}")
    return tuple(convert(item, hint, f"{where}[{n}]") for n, (item, hint) in enumerate(zip(value, items, strict=True)))


def _kinds(hint: Any) -> dict[str, type]:
    """The dataclasses that an annotation admits, by name: itself, or the registered classes below it."""
    if not isinstance(hint, type):
        return {}
    if issubclass(hint, Registered):
        return {name: kind for name, kind in hint.registry.classes.items() if issubclass(kind, hint)}
    return {hint.__name__: hint} if is_dataclass(hint) else {}


def _dataclass(value: Any, hint: type, where: str) -> Any:
    if isinstance(value, hint):
        return value
    table = {"kind": value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        raise ValueError(f"{where}={value!r} is not a table or the name of one of {', '.join(_kinds(hint))}")
    return build(_chosen(table.get("kind"), hint, where), table, where)


def _chosen(name: Any, hint: type, where: str) -> type:
    """The class that a table is to become."""
    kinds = _kinds(hint)
    if name is None:
        if len(kinds) > 1:
            raise ValueError(f"{where}.kind: needed, one of {', '.join(kinds)}")
        return next(iter(kinds.values()))
    if issubclass(hint, Registered) and isinstance(name, str):
        try:
            return hint.registry.find(name, hint)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"{where}: {unknown('kind', str(name), kinds)}")
    return kinds[name]


def table_of(settings: Any) -> Any:
    """The table from which `build` makes the same settings."""
    if is_dataclass(settings):
        values = {field.name: table_of(getattr(settings, field.name)) for field in fields(settings)}
        return {"kind": kind_of(settings)} | values
    if isinstance(settings, tuple):
        return [table_of(item) for item in settings]
    return "none" if settings is None else settings


def kind_of(settings: Any) -> str:
    """The name of a dataclass in tables and files."""
    kind = type(settings)
    return kind.registry.name_of(kind) if issubclass(kind, Registered) else kind.__name__


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Table:
    """Merge two tables; where both have a value, `above` wins. A table of another `kind` replaces the whole table."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        if isinstance(old, str) and isinstance(value, dict):
            old = {"kind": old}
        if isinstance(old, dict) and isinstance(value, dict) and value.get("kind", old.get("kind")) == old.get("kind"):
            value = merge(old, value)
        merged[name] = value
    return merged


def from_assignments(assignments: Iterable[str]) -> Table:
    """The table that assignments such as "model.width=32" make. Values are TOML, or else strings."""
    table: Table = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise ValueError(f"{assignment!r}: expected key=value, such as model.width=32")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        for name in reversed(names):
            value = {name: value}
        table = merge(table, value)
    return table


def to_assignments(table: Mapping[str, Any], below: str = "") -> list[str]:
    """The assignments of which `from_assignments` makes this table."""
    assignments = []
    for name, value in table.items():
        if isinstance(value, dict) and "kind" not in value:
            assignments += to_assignments(value, f"{below}{name}.")
        else:
            assignments.append(f"{below}{name}={_toml(value)}")
    return assignments


def to_toml(table: Mapping[str, Any]) -> str:
    """Format a table as TOML: plain values first, then one section for each table."""
    plain = {name: value for name, value in table.items() if not isinstance(value, dict)}
    lines = [f"{name} = {_toml(value)}" for name, value in plain.items()]
    for name, value in table.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *(f"{key} = {_toml(item)}" for key, item in value.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\\x7f' else c for c in value)
        return f'"{escaped}"'
    return repr(value)


def _article(name: str) -> str:
    return {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a string"}.get(name, name)
