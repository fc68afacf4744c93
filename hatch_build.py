"""Build the native kernels when the package is installed. Without a C++ compiler it is installed without them.

The library is compiled for each instruction set of the processor family, and the best one is chosen when it is loaded.
A wheel therefore also runs on older processors than the one it was built on.
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
    """A hatchling build hook that compiles the native library."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Write the library next to its sources, or a file with the reason why it could not be built."""
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
    """Compile and link folder/libs7.so.

    The flag -fno-math-errno lets compilers vectorise square roots.

    Raises:
        RuntimeError: A line that says what is missing or what failed.
    """
    compiler = find_compiler()
    headers = find_headers()
    common = [*compiler, "-std=c++17", "-fPIC", "-Wall", "-Wextra", *flags]
    with TemporaryDirectory() as objects:
        jobs = {
            name: [f"{name}.cc"]
            for name in ("processor", "dispatch", "stream", "stream_program", "safetensors", "model_file")
        }
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
            files = list(threads.map(compile_one, reversed(jobs)))  # slowest first
        unfinished = folder / f"{LIBRARY}.{os.getpid()}"
        try:
            run([*common, "-shared", *files, "-o", str(unfinished), "-pthread"])
            unfinished.replace(folder / LIBRARY)
        finally:
            unfinished.unlink(missing_ok=True)


def find_compiler() -> list[str]:
    """Return the command in $CXX, or the first compiler on the path."""
    asked = os.environ.get("CXX")
    if asked:
        return shlex.split(asked)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise RuntimeError("no C++ compiler was found at installation (c++, g++, clang++ or $CXX)")


def find_headers() -> Path:
    """Return the folder of XLA's headers, which are part of jaxlib."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("jaxlib, whose headers are needed, was missing at installation")
    return Path(spec.submodule_search_locations[0]) / "include"


def run(command: list[str]) -> None:
    """Run a compiler and print its output to stderr if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
        raise RuntimeError(
            f"the C++ compiler failed at installation ({shlex.join(command[:1])}, exit status {done.returncode})"
        )
