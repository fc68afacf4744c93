"""Classes that register themselves under a name when they are defined.

A base class that inherits from `Registered` (a transition, a form, an encoder, a task) owns a `Registry`. Each of its
subclasses, inside this package or in a user's own, joins that registry by being defined:

    @dataclass(frozen=True)
    class Leaky(s7.Transition):
        groups = {"w": "ssm"}               # optimizer groups of its parameters

Classes of this package are known by their bare name, all others as "module:Name", so the two are never confused. Files
refer to classes by these names and never cause an import. JAX is not imported here.
"""

import difflib
import inspect
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import ClassVar

PLUGINS_VARIABLE = "S7_PLUGINS"
PLUGINS_GROUP = "s7.plugins"


class Registry:
    """The classes of one kind, by name.

    Args:
        kind: What the classes are, for messages ("transition").
        package: A package whose modules define such classes. Its modules are imported at the first lookup.
    """

    def __init__(self, kind: str, package: str | None = None):
        self.kind = kind
        self._package = package
        self._classes: dict[str, type] = {}
        self._short: dict[str, str] = {}

    def add(self, cls: type, short: str | None = None) -> None:
        """Add a class. Defining it again in the same place replaces it; another built-in of that name is an error."""
        short = short or cls.__name__
        name = short if is_builtin(cls) else qualified_name(cls)
        present = self._classes.get(name)
        if present is not None and qualified_name(present) != qualified_name(cls):
            raise TypeError(f"{qualified_name(cls)}: {qualified_name(present)} is already the {self.kind} {name!r}")
        self._classes[name] = cls
        self._short[name] = short

    @property
    def classes(self) -> dict[str, type]:
        """Every concrete class by the name that files use."""
        self._load_package()
        return {name: cls for name, cls in self._classes.items() if not inspect.isabstract(cls)}

    @property
    def builtin(self) -> dict[str, type]:
        """The concrete classes of this package by name."""
        return {name: cls for name, cls in self.classes.items() if is_builtin(cls)}

    def name_of(self, cls: type) -> str:
        """The name that files use for a class: bare for a class of this package, else "module:Name"."""
        if not is_builtin(cls):
            return qualified_name(cls)
        return next((name for name, known in self._classes.items() if known is cls), cls.__name__)

    def short_name(self, name: str) -> str:
        """The short form of a name: the class keyword `name`, or the class name."""
        return self._short[name]

    def get(self, name: str) -> type | None:
        """The class with exactly this name, or None. Plugins are imported if it is not known yet."""
        found = self._classes.get(name)
        if found is not None and not inspect.isabstract(found):
            return found
        if name not in self.classes:
            load_plugins()
        return self.classes.get(name)

    def find(self, name: str, below: type = object) -> type:
        """The class that a person means: by its name or, if no class of this package has it, by its short name.

        Args:
            name: The name.
            below: The class must be this one or a subclass of it.

        Raises:
            ValueError: If no class or several classes have this name.
        """
        found = self.get(name)
        if found is not None and issubclass(found, below):
            return found
        classes = {full: cls for full, cls in self.classes.items() if issubclass(cls, below)}
        meant = [full for full in classes if self._short[full] == name]
        if len(meant) > 1:
            raise ValueError(f"{self.kind} {name!r} could be any of {', '.join(meant)}; give the full name")
        if not meant:
            raise ValueError(self._missing(name, classes))
        return classes[meant[0]]

    def _missing(self, name: str, known: Iterable[str]) -> str:
        """The message for a name that is not registered."""
        module, colon, _ = name.partition(":")
        if not colon:
            return unknown(self.kind, name, sorted(known))
        return f"no {self.kind} {name!r}; import {module} first, or set {PLUGINS_VARIABLE}={module}"

    def _load_package(self) -> None:
        package, self._package = self._package, None
        if package is not None:
            load_modules(package)


class Registered:
    """A base class directly below this one owns a registry, and the classes below that one join it.

    Class keywords:
        name: The name to register under; by default the class name.
        package: For the base class, the package whose modules define built-in subclasses.
        kind: For the base class, what its subclasses are called in messages; by default its name in lower case.

    `groups` maps names of parameters to the optimizer group they belong to, "ssm" or "selective". Parameters that are
    not listed are in the group "rest".
    """

    registry: ClassVar[Registry]
    groups: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(
        cls, *, name: str | None = None, package: str | None = None, kind: str | None = None, **keywords
    ):
        super().__init_subclass__(**keywords)
        if Registered in cls.__bases__:
            cls.registry = Registry(kind or cls.__name__.lower(), package)
        else:
            cls.registry.add(cls, name)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name: the most similar known one, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"no {what} {name!r}; {hint}"


def summary(cls: type) -> str:
    """The first line of a class's docstring, without the full stop."""
    return (inspect.getdoc(cls) or "").partition("\n")[0].removesuffix(".")


def is_builtin(cls: type) -> bool:
    """Whether a class belongs to this package."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def qualified_name(cls: type) -> str:
    """ "module:Name" of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def require_importable(cls: type) -> None:
    """Raise a ValueError unless another process can find the class under its name."""
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        where = "the script or notebook itself" if cls.__module__ == "__main__" else "a function"
        raise ValueError(f"{cls.__name__} is defined in {where}; move it into a module so that it can be found again")
    if find_class(qualified_name(cls)) is not cls:
        raise ValueError(f"{qualified_name(cls)} is no longer the class that was used; it has been redefined since")


def find_class(name: str) -> type | None:
    """The class named "module:Name" if its module is already imported, else None."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def load_modules(package: str) -> None:
    """Import every module of a package, so that the classes in it are registered."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


@cache
def load_plugins() -> None:
    """Import the modules that $S7_PLUGINS lists, separated by commas, and those of installed packages.

    An installed package names its modules by entry points in the group "s7.plugins".
    """
    for name in os.environ.get(PLUGINS_VARIABLE, "").split(","):
        if name.strip():
            import_user_module(name.strip(), PLUGINS_VARIABLE)
    for entry in entry_points(group=PLUGINS_GROUP):
        entry.load()


def import_user_module(name: str, asked_by: str) -> ModuleType:
    """Import a module by name; the current folder is searched too.

    Raises:
        ValueError: If there is no such module.
    """
    # The path of an installed command starts where the command is, not where it is called.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"{asked_by}: no module {name!r} in this folder or on the Python path") from None
