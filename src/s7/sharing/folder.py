"""The folder of a shared model: model.safetensors, config.json, README.md, golden.safetensors and result.json."""

import json
from pathlib import Path
from typing import Any, Literal

from s7.export.edge import golden
from s7.files import load, save, to_json
from s7.model import S7Model
from s7.records import RESULT
from s7.run_folder import RunFolder
from s7.sharing.card import model_card
from s7.storage import tensors, write_atomically
from s7.version import __version__


def write_shared(
    source: Path, name: str, folder: Path, *, precision: Literal["full", "float16"] = "full"
) -> list[Path]:
    """Write the folder of a shared model.

    Args:
        source: A run folder or a model file.
        name: The name under which it will be shared, org/name.
        folder: The folder to write to. It is made if needed.
        precision: How the parameters are stored, as in `s7.save`.

    Returns:
        The paths of the files.

    Raises:
        ValueError: If the file holds something else than an S7Model.
    """
    model = load(source)
    if not isinstance(model, S7Model):
        raise ValueError(f"{source}: holds a {type(model).__name__}, and only an S7Model can be shared")
    written = save(model, folder, precision=precision)
    model = load(written)  # as others will load it
    run = RunFolder(Path(source))
    record, streams = run.record() if run.is_begun else None, _streams(model)
    card = model_card(model, name, record, streams=streams, rounded=precision == "float16")
    files = {
        "config.json": _json({"library": "s7", "version": __version__, "model": to_json(model.config)}),
        "README.md": card.encode(),
    }
    if streams:
        files["golden.safetensors"] = tensors(golden(model), {"format": "s7-golden", "version": "1"})
    if run.is_finished:
        files[RESULT] = (run.path / RESULT).read_bytes()
    for file, data in files.items():
        write_atomically(folder / file, data)
    return [written, *(folder / file for file in files)]


def _streams(model: S7Model) -> bool:
    try:
        model.init_state()
    except ValueError:
        return False
    return True


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
