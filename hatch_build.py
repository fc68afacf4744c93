"""Builds the native kernels when the package is installed; without a C++ compiler the package installs without them.

The library is compiled once for each instruction set the processor family knows, and the best is chosen when it is
loaded, so a wheel runs on older processors than the one it was built on.
"""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src", "s7", "native")
LIBRARY, REASON = "libs7.so", "not-built.txt"
INSTRUCTION_SETS: dict[str, list[str]] = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    INSTRUCTION_SETS["avx2"] = ["-mavx2", "-mfma"]
    INSTRUCTION_SETS["avx512"] = ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mfma"]


class NativeBuildHook(BuildHookInterface):
    """Called by hatchling before it puts the package together."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Leaves the library beside its sources, or a line that says why there is none."""
        folder = Path(self.root) / NATIVE
        for stale in (LIBRARY, REASON):
            (folder / stale).unlink(missing_ok=True)
        try:
            build(folder)
        except (OSError, RuntimeError) as error:
            self.app.display_warning(f"s7 is installed without its native kernels: {error}")
            (folder / REASON).write_text(f"{error}\n")
            build_data["artifacts"].append(f"{NATIVE.as_posix()}/{REASON}")
            return
        build_data["artifacts"].append(f"{NATIVE.as_posix()}/{LIBRARY}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def build(folder: Path, flags: tuple[str, ...] = ("-O3", "-fno-math-errno")) -> None:
    """Compiles and links folder/libs7.so; an error says in one line what is missing or what failed.

    Nobody asks `errno` about a root of a negative number, and only without it are roots computed in vectors.
    """
    compiler = find_compiler()
    headers = find_headers()
    common = [*compiler, "-std=c++17", "-fPIC", "-Wall", "-Wextra", *flags]
    with TemporaryDirectory() as objects:
        jobs = {name: [f"{name}.cc"] for name in ("dispatch", "stream", "stream_program")}
        jobs["ffi"] = ["ffi.cc", "-O1", "-isystem", str(headers)]
        for source in ("stream_engine", "kernels"):
            for name, extra in INSTRUCTION_SETS.items():
                jobs[f"{source}-{name}"] = [f"{source}.cc", f"-DS7_ISA={name}", *extra]

        def compile_one(name: str) -> str:
            source, *extra = jobs[name]
            target = str(Path(objects) / f"{name}.o")
            run([*common, *extra, "-c", str(folder / source), "-o", target])
            return target

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            files = list(threads.map(compile_one, reversed(jobs)))  # the longest first
        unfinished = folder / f"{LIBRARY}.{os.getpid()}"
        try:
            run([*common, "-shared", *files, "-o", str(unfinished), "-pthread"])
            unfinished.replace(folder / LIBRARY)
        finally:
            unfinished.unlink(missing_ok=True)


def find_compiler() -> list[str]:
    """The command in $CXX, else the first compiler on the path."""
    asked = os.environ.get("CXX")
    if asked:
        return shlex.split(asked)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise RuntimeError("no C++ compiler was found when it was installed (c++, g++, clang++ or $CXX)")


def find_headers() -> Path:
    """XLA's headers, which come with jaxlib."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("jaxlib, whose headers it needs, was not there when it was installed")
    return Path(spec.submodule_search_locations[0]) / "include"


def run(command: list[str]) -> None:
    """Runs a compiler; what it said goes to stderr if it failed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
        raise RuntimeError(
            f"the C++ compiler failed when it was installed ({shlex.join(command[:1])}, exit status {done.returncode})"
        )
