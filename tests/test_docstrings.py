"""Docstrings: every public name has one, and the examples in them run."""

import ast
import doctest
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import s7

SOURCE = Path(s7.__file__).parent
# Packages whose `__all__` the documentation refers to.
PACKAGES = ("s7", "s7.baselines", "s7.data", "s7.records", "s7.study", "s7.tasks", "s7.training")


def public():
    """Every public class, function and module, by its full name."""
    found = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, type | ModuleType) or inspect.isfunction(value):
                found[f"{package}.{name}"] = value
    return found | {"s7.records.RunRecord": s7.records.RunRecord}


def examples():
    """Every docstring of the package that has an example: its module, its name, its line and its text."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("s7", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if ">>>" in source else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text and ">>>" in text:
                    yield pytest.param(module, text, id=f"{module}.{getattr(node, 'name', '')}")


def test_public_names_have_docstrings():
    missing = []
    for name, value in public().items():
        if not inspect.getdoc(value):
            missing.append(name)
        if isinstance(value, type):
            own = [method for method, member in vars(value).items() if is_method(member) and not method.startswith("_")]
            missing += [f"{name}.{method}" for method in own if not inspect.getdoc(getattr(value, method))]
    assert missing == []


def test_public_functions_describe_their_arguments():
    functions = {name: value for name, value in public().items() if inspect.isfunction(value)}
    assert len(functions) > 10
    undescribed = [
        name
        for name, function in functions.items()
        if inspect.signature(function).parameters and "Args:" not in (inspect.getdoc(function) or "")
    ]
    assert undescribed == []


@pytest.mark.parametrize(("module", "text"), list(examples()))
def test_examples_of_docstrings_run(module, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(text, dict(vars(import_module(module))), module, None, 0)
    assert example.examples
    output = []
    doctest.DocTestRunner().run(example, out=output.append)
    assert not output, "".join(output)


def is_method(member):
    return inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
