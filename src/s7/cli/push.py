"""Share a trained model: write a folder with its card, and upload it.

The folder has model.safetensors, config.json, README.md (the model card), golden.safetensors (inputs and expected
outputs) and result.json. It is uploaded if huggingface_hub is installed (pip install 's7-ssm[hub]') and logged in.
"""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder or model file")
    parser.add_argument("name", metavar="ORG/NAME", help="name of the repository")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write (default: RUN/shared)")
    parser.add_argument(
        "--precision",
        choices=("full", "float16"),
        default="full",
        help="float16 halves the file and rounds parameters to 11 bits (default: full)",
    )
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    parser.add_argument("--no-upload", action="store_true", help="only write the folder")


def run(options: argparse.Namespace) -> None:
    """Write the folder, and upload it."""
    from s7 import hub

    if not hub.is_name(options.name) or "@" in options.name:
        raise ValueError(f"{options.name}: not the name of a repository; expected ORG/NAME")
    from s7.machine import keep_compiled_code
    from s7.sharing import upload, write_shared

    keep_compiled_code()
    source = options.run_folder
    folder = options.out or (source if source.is_dir() else source.parent) / "shared"
    paths = write_shared(source, options.name, folder, precision=options.precision)
    if not options.json:
        for path in paths:
            print(f"{path}  {path.stat().st_size:,} bytes")
    address = None if options.no_upload else upload(folder, options.name, private=options.private)
    if options.json:
        print(json.dumps({"files": [str(path) for path in paths], "uploaded": address}))
    elif address is not None:
        print(f"uploaded: {address}")
