"""Classes register themselves: built-in ones by bare name, all others as module:Name."""

import subprocess
import sys
from abc import ABC, abstractmethod

import pytest

from s7 import registry
from s7.registry import Registered, qualified_name, require_importable, summary


class Shape(Registered, ABC):
    """A base class with a registry."""

    @abstractmethod
    def area(self) -> float:
        """Its area."""


class Round(Shape):
    """An intermediate class that is still abstract."""


class Circle(Round):
    """A circle of radius 1.

    More about it.
    """

    def area(self):
        return 3.14


class Square(Shape, name="quadratic"):
    """A square."""

    groups = {"side": "ssm"}  # noqa: RUF012

    def area(self):
        return 1.0


@pytest.fixture
def fresh_plugins():
    registry.load_plugins.cache_clear()
    yield
    registry.load_plugins.cache_clear()


def test_concrete_subclasses_are_registered_under_module_and_name():
    assert Shape.registry.kind == "shape"
    assert Shape.registry.classes == {f"{__name__}:Circle": Circle, f"{__name__}:Square": Square}
    assert Shape.registry.name_of(Circle) == f"{__name__}:Circle"
    assert Shape.registry.builtin == {}


def test_a_person_may_use_the_short_name_but_files_may_not():
    assert Shape.registry.find("Circle") is Circle
    assert Shape.registry.find("quadratic") is Square
    assert Shape.registry.find(f"{__name__}:Square") is Square
    assert Shape.registry.get("Circle") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Circel", "^no shape 'Circel'; known: "),
        ("their.shapes:Star", "^no shape 'their.shapes:Star'; import their.shapes first, or set S7_PLUGINS=their.shap"),
    ],
)
def test_an_unregistered_name_gives_instructions(name, message):
    with pytest.raises(ValueError, match=message):
        Shape.registry.find(name)


def test_a_class_declares_its_groups_and_its_help_line():
    assert (Circle.groups, Square.groups) == ({}, {"side": "ssm"})
    assert summary(Circle) == "A circle of radius 1"


def test_a_class_of_ours_is_known_by_its_bare_name_and_never_shadowed():
    import s7
    from s7.heads import Head

    class Mean(s7.Mean):
        """A user's class with the name of one of ours."""

    assert Head.registry.get("Mean") is s7.Mean
    assert Head.registry.find("Mean") is s7.Mean
    assert Head.registry.name_of(Mean) == qualified_name(Mean) != "Mean"


def test_duplicate_names_of_built_in_classes_are_rejected():
    kinds = registry.Registry("shape")
    kinds.add(type("Star", (), {"__module__": "s7.one"}))
    kinds.add(type("Star", (), {"__module__": "s7.one"}))  # defined again in the same place
    with pytest.raises(TypeError, match=r"^s7\.two:Star: s7\.one:Star is already the shape 'Star'"):
        kinds.add(type("Star", (), {"__module__": "s7.two"}))


def test_a_class_that_another_process_could_not_find_is_rejected():
    class Local(Shape):
        """Cannot be imported."""

        def area(self):
            return 0.0

    require_importable(Circle)
    with pytest.raises(ValueError, match=r"^Local is defined in a function; move it into a module"):
        require_importable(Local)
    script = type("Here", (), {"__module__": "__main__"})
    with pytest.raises(ValueError, match=r"^Here is defined in the script or notebook itself; move it into a module"):
        require_importable(script)
    with pytest.raises(ValueError, match="Circle is no longer the class that was used"):
        require_importable(type("Circle", (), {"__module__": __name__}))


@pytest.mark.usefixtures("fresh_plugins")
def test_plugins_are_imported_when_a_name_is_not_known(tmp_path, monkeypatch):
    (tmp_path / "plugged_in.py").write_text(
        f"from {__name__} import Circle\n\n\nclass Ring(Circle):\n    '''A ring.'''\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("S7_PLUGINS", "plugged_in")
    found = Shape.registry.find("plugged_in:Ring")
    assert found is sys.modules["plugged_in"].Ring
    Shape.registry._classes.pop("plugged_in:Ring")


@pytest.mark.usefixtures("fresh_plugins")
def test_a_missing_plugin_is_reported(monkeypatch):
    monkeypatch.setenv("S7_PLUGINS", "no_such_module")
    with pytest.raises(ValueError, match=r"^S7_PLUGINS: no module 'no_such_module' in this folder"):
        Shape.registry.find("Star")


def test_the_registry_does_not_import_jax():
    code = "import sys, s7.registry, s7.settings, s7.storage; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
