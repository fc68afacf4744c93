"""The examples in C and C++, compiled against the library of the package, print what Python computes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import s7
from s7 import native
from s7.export.edge import MODEL, random_events, write_edge
from tests.edge import fixtures

EXAMPLES = Path(__file__).parents[2] / "examples" / "edge"
COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.skipif(not native.available(), reason="no native kernels"),
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Compiles an example and returns its path."""
    folder = tmp_path_factory.mktemp("programs")
    include = native.include_folder()

    def build(name: str) -> Path:
        source, target = EXAMPLES / name, folder / name.replace(".", "_")
        if not target.exists():
            language = ["-x", "c", "-std=gnu11"] if source.suffix == ".c" else ["-std=c++17"]
            flags = ["-Wall", "-Wextra", "-Werror", "-I", str(include)]
            run([COMPILER, *language, *flags, "-c", str(source), "-o", f"{target}.o"])
            run([COMPILER, f"{target}.o", str(include / "libs7.so"), f"-Wl,-rpath,{include}", "-o", str(target)])
        return target

    return build


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models by name, and the files that they are exported to."""
    folder, models = tmp_path_factory.mktemp("exported"), fixtures.models()
    for name in ("camera", "series"):
        write_edge(models[name], folder / name)
    return models, {name: folder / name / MODEL for name in models}


def run(command, status=0) -> subprocess.CompletedProcess:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


def camera_events(count: int):
    random = np.random.default_rng(0)
    x, y = random.integers(0, 6, count), random.integers(0, 5, count)
    return x, y, random.integers(0, 2, count), np.cumsum(random.integers(0, 500, count))


def scores_after(model, x, y, p, t) -> np.ndarray:
    stream = s7.Stream(model)
    gaps = (np.diff(t, prepend=t[:1]) / 1000).astype(np.float32)
    stream.push(s7.tokenize(x, y, p, (6, 5)), gaps)
    return stream.answer()


@pytest.mark.parametrize("header", ["", "x,y,t,p\n", "t,x,y,p\n"])
def test_events(programs, exported, tmp_path, header):
    model, path = (part["camera"] for part in exported)
    x, y, p, t = camera_events(50)
    columns = (t, x, y, p) if header.startswith("t") else (x, y, t, p)
    rows = ["{},{},{},{}\n".format(*row) for row in zip(*columns, strict=True)]
    file = tmp_path / "events.csv"
    file.write_text(header + "".join(rows))
    lines = run([programs("events.c"), path, file, 20]).stdout.splitlines()
    for line, count in zip(lines, (20, 40, 50), strict=True):
        scores = scores_after(model, x[:count], y[:count], p[:count], t[:count])
        name = ("left", "right", "höher\\")[scores.argmax()]
        assert line.startswith(f"{count} events, {t[count - 1] / 1e6:.3f} s: class {scores.argmax()} {name}")
        assert abs(float(line.split()[-1][:-1]) - scores.max()) < 1e-4
    file.write_text("6,0,0,1\n")
    assert "a pixel off the sensor" in run([programs("events.c"), path, file], status=2).stderr


def test_nmnist(programs, exported, tmp_path):
    model, path = (part["camera"] for part in exported)
    x, y, p, t = camera_events(300)
    data = np.stack([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255], 1).astype(np.uint8)
    file = tmp_path / "one.bin"
    file.write_bytes(data.tobytes())
    out = run([programs("nmnist.cc"), path, file]).stdout
    scores = scores_after(model, x, y, p, t)
    assert f"300 events, class {('left', 'right', 'höher' + chr(92))[scores.argmax()]}" in out
    assert f"{scores.max():.3f}"[:-1] in out
    assert "model.safetensors: No such file" in run([programs("nmnist.cc"), tmp_path / MODEL, file], 2).stderr


def test_series(programs, exported, tmp_path):
    model, path = (part["series"] for part in exported)
    events, gaps = random_events(model, 9)
    stream, file = s7.Stream(model), tmp_path / "rows.csv"
    np.savetxt(file, np.column_stack([gaps, events]), delimiter=",", fmt="%.9g")
    out = run([programs("series.cc"), path, file, "gap"]).stdout
    for line, event, gap in zip(out.splitlines(), events, gaps, strict=True):
        stream.push(event, gap)
        np.testing.assert_allclose(list(map(float, line.split(","))), stream.answer(), atol=1e-5)


def test_check(programs):
    folders = sorted(fixtures.FOLDER.iterdir())
    out = run([programs("check.c"), *folders]).stdout
    assert out.count("differs from JAX by") == len(folders)


def test_the_examples_are_short():
    for path in EXAMPLES.iterdir():
        assert len(path.read_text().splitlines()) < 80, path
