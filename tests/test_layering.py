"""Imports point one way: each module imports only modules of its own layer or of layers below it.

`LAYERS` is the one declaration of that order. Imports inside functions and uses of lazily imported public names
(`s7.Mean`) count; imports for type checking and lookups by the registry do not.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import s7
from s7.records import Epoch, Result, RunRecord

ROOT = Path(s7.__file__).parent
HOME: dict[str, str] = vars(s7)["_HOME"]

# From bottom to top. Modules of one line may import each other, without cycles.
LAYERS = (
    "version",
    "registry",
    "settings storage hub ranges",
    "interrupts machine records run_folder progress publishing presets tables processes launching",
    "tokens",
    "data",
    "series",
    "events",
    "arrays eager native sequence_parts backend_selection checks initialization contractions recurrence dropout"
    " standardization signal recomputation",
    "norm transitions forms pooling compute fused",
    "sequence_layer layer gating block reference",
    "image_network encoders patch_encoder frame_encoder heads baselines",
    "config model_inputs stages model segments structure files transfer",
    "stream_program stream",
    "export",
    "sharing",
    "training inference",
    "estimation",
    "tasks",
    "capacity job",
    "study",
    "tune",
    "report theory bench live plan",
    "sklearn",
    "cli",
    "__main__",
)
LEVEL = {package: level for level, line in enumerate(LAYERS) for package in line.split()}

# Commands that must answer without JAX, which takes seconds to import.
WITHOUT_JAX = [
    ["--help"],
    ["--version"],
    ["tasks"],
    ["data", "fetch", "pendulum"],
    ["tables", "lra", "--runs", str(Path(__file__).parents[1] / "docs" / "results")],
    ["report", "run"],
    ["events", "info", "events.csv"],
]
COMMANDS = (
    *("ablate", "bench", "compare", "data", "eval", "events", "export", "fit", "models", "plan", "predict", "push"),
    *("report", "serve", "stream"),
    *("tables", "tasks", "train", "tune", "verify"),
)


@cache
def modules() -> dict[str, Path]:
    paths = sorted(ROOT.rglob("*.py"))
    return {".".join(["s7", *path.relative_to(ROOT).with_suffix("").parts]): path for path in paths}


def package_of(module: str) -> str:
    return module.split(".")[1]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of everything of this package that a file imports."""
    for node in ast.walk(without_type_checking(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [node.module or ""]
            if node.module == "s7":
                names = [HOME.get(alias.name, "s7") for alias in node.names]
                names = [
                    f"s7.{alias.name}" if home == "s7" else home for alias, home in zip(node.names, names, strict=True)
                ]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "s7":
            names = [HOME.get(node.attr, f"s7.{node.attr}")]
        else:
            continue
        for name in names:
            if name.startswith("s7.") and name != "s7.__version__":
                yield node.lineno, name


def without_type_checking(tree: ast.Module) -> ast.Module:
    class Remove(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return node.orelse
            return self.generic_visit(node)

    return Remove().visit(tree)


def test_every_module_has_its_place_in_the_order():
    found = {package_of(module) for module in modules() if module != "s7.__init__"}
    assert found == set(LEVEL)
    assert len(LEVEL) == sum(len(line.split()) for line in LAYERS)


def test_imports_point_down():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {package_of(module)} imports {target}"
        for module, path in modules().items()
        if module != "s7.__init__"
        for line, target in imported(path)
        if LEVEL.get(package_of(target), 99) > LEVEL[package_of(module)]
    ]
    assert wrong == []


def test_no_packages_import_each_other_in_a_circle():
    edges: dict[str, set[str]] = {package: set() for package in LEVEL}
    for module, path in modules().items():
        if module != "s7.__init__":
            edges[package_of(module)] |= {package_of(target) for _, target in imported(path)} - {package_of(module)}
    while edges:
        free = [package for package, below in edges.items() if not below & set(edges)]
        assert free, f"a circle among {sorted(edges)}"
        for package in free:
            del edges[package]


def run(*arguments: str, cwd: Path) -> list[str]:
    """Runs a command in a new process and returns which of the slow libraries it imported."""
    code = (
        "import sys\n"
        "from s7.cli.main import main\n"
        "try:\n    status = main(sys.argv[1:])\nexcept SystemExit as stop:\n    status = stop.code\n"
        "print('imported:', *sorted({'jax', 'equinox', 'optax'} & set(sys.modules)), 'status:', status)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    *libraries, _, status = re.findall(r"^imported: (.*)$", done.stdout, re.MULTILINE)[-1].split()
    assert status in ("0", "None"), done.stderr
    return libraries


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder with a run in it, of which only the records are there, not the models."""
    record = RunRecord(
        {"task": "walker2d", "model": {"kind": "s7"}, "train": {"epochs": 1}},
        (Epoch(1, {"loss": 1.0, "mse": 1.0}, {"loss": 2.0, "mse": 2.0}, 6, 1.5, 0.01, True),),
        Result(task="walker2d", model="s7", metric="mse", best_epoch=1, valid={"mse": 2.0}, test={"mse": 2.5}),
    )
    record.write(tmp_path / "run")
    (tmp_path / "events.csv").write_text("x,y,t,p\n1,2,3,1\n")
    return tmp_path


@pytest.mark.parametrize("arguments", WITHOUT_JAX, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_command_that_computes_nothing_does_not_import_jax(arguments, place):
    assert run(*arguments, cwd=place) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_does_not_import_jax(name, tmp_path):
    arguments = [name, "--help"]
    assert run(*arguments, cwd=tmp_path) == []


@pytest.mark.parametrize("module", ["s7", "s7.data", "s7.events.formats", "s7.records", "s7.tables", "s7.tasks"])
def test_a_package_that_computes_nothing_does_not_import_jax(module):
    code = f"import {module}, sys; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(ROOT.parent)})
