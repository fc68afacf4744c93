"""Write a trained model for another runtime: a C library without Python, ONNX or StableHLO.

edge: model.safetensors, golden.safetensors and README.md for the C library libs7 (see docs/edge.md). onnx: model.onnx,
one step of a stream as a graph. stablehlo: one step of a stream, written by jax.export.
"""

import argparse
import json
from pathlib import Path

FORMATS = ("edge", "onnx", "stablehlo")
# The outputs of the C library may differ from those of JAX by this, relative to the largest of them.
TOLERANCE = 1e-5
# A model may amplify rounding errors so much that JAX in float32 is less exact than that. The outputs of the C library
# may then differ by this many times the error of JAX.
TIMES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder or model file")
    parser.add_argument("--to", required=True, choices=FORMATS, help="runtime to write for")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--time-unit",
        default="ms",
        metavar="UNIT",
        help="for --to edge, unit of the time gaps in the training data: ns, us, ms, s, min, h or D (default: ms)",
    )


def run(options: argparse.Namespace) -> None:
    """Write the files and print their names and sizes."""
    if options.to != "edge" and "time-unit" in options.given:
        raise ValueError(f"--time-unit is for --to edge, not for --to {options.to}")
    from s7.files import load
    from s7.machine import keep_compiled_code
    from s7.model import S7Model

    keep_compiled_code()
    model = load(options.run_folder)
    if not isinstance(model, S7Model):
        raise ValueError(f"{options.run_folder}: holds a {type(model).__name__}, and only an S7Model can be exported")
    try:
        paths = _write(model, options)
    except ValueError as error:
        raise ValueError(f"{options.run_folder}: {error}") from None
    difference = _difference(paths) if options.to == "edge" else None
    rounding = None if difference is None or difference <= TOLERANCE else _rounding_error(model, difference, paths)
    if options.json:
        about = {"to": options.to, "files": [str(path) for path in paths], "difference": difference}
        print(json.dumps(about if rounding is None else about | {"rounding_error": rounding}))
        return
    for path in paths:
        print(f"{path}  {path.stat().st_size:,} bytes")
    if difference is not None:
        print(f"libs7 differs from JAX by {difference:.1e} of the largest output")
    if rounding is not None:
        print(f"this model amplifies rounding errors: JAX in float32 differs from float64 by {rounding:.1e}")


def _write(model, options: argparse.Namespace) -> list[Path]:
    if options.to == "edge":
        from s7.export.edge import write_edge

        return write_edge(model, options.out, unit=options.time_unit)
    if options.to == "onnx":
        from s7.export.onnx import write_onnx

        path = options.out / "model.onnx"
        write_onnx(model, path)
        return [path]
    from s7.export.stablehlo import write_stablehlo

    return write_stablehlo(model, options.out)


def _difference(paths: list[Path]) -> float | None:
    """Run the written model on its golden file; None without the native library."""
    from s7 import native
    from s7.export.edge import GOLDEN, MODEL
    from s7.export.runtime import EdgeModel

    if not native.available():
        return None
    files = {path.name: path for path in paths}
    return EdgeModel(files[MODEL]).check(files[GOLDEN])


def _rounding_error(model, difference: float, paths: list[Path]) -> float:
    """The error of JAX in float32, if it explains the difference."""
    from s7.export.edge import rounding_error

    error = rounding_error(model)
    if not (error > TOLERANCE and difference <= TIMES * error):
        raise ValueError(f"{paths[-1]}: libs7 differs from JAX by {difference:.1e}, more than {TOLERANCE:.0e}")
    return error
