"""Models by name, such as "s7/nmnist" or "org/name@revision": where their files are.

Names are looked up in this package, then in the local cache of the Hugging Face hub, then on the hub itself. What is in
the cache is not compared with the hub: a revision that was downloaded once stays as it is. JAX is not imported.
"""

import os
import re
from pathlib import Path

# The folder of the models that are part of this package.
BUNDLED = Path(__file__).parent / "pretrained"
OWNER = "s7"
MODEL = "model.safetensors"

_PART = r"[A-Za-z0-9][\w.\-]*"
_NAME = re.compile(rf"({_PART})/({_PART})(?:@({_PART}(?:/{_PART})*))?")


def is_name(text: str) -> bool:
    """Whether a text has the form org/name or org/name@revision."""
    return _NAME.fullmatch(text) is not None


def bundled_models() -> list[str]:
    """The names of the models that are part of this package."""
    return sorted(f"{OWNER}/{path.parent.name}" for path in BUNDLED.glob(f"*/{MODEL}"))


def find_model(name: str) -> Path:
    """The folder of a model.

    Args:
        name: org/name, or org/name@revision. The default revision is main.

    Raises:
        FileNotFoundError: If there is no such model. The message says where it was looked for.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name}: not the name of a model; expected org/name or org/name@revision")
    owner, repository, revision = match.groups()
    bundled = BUNDLED / repository
    if owner == OWNER and revision is None and (bundled / MODEL).is_file():
        return bundled
    cached = _in_cache(owner, repository, revision or "main")
    return cached or _download(name, f"{owner}/{repository}", revision)


def cache_folder() -> Path:
    """The cache of the hub, where its own tools put it."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return Path(folder)
    home = os.environ.get("HF_HOME")
    if home is None:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    return Path(home) / "hub"


def _in_cache(owner: str, repository: str, revision: str) -> Path | None:
    folder = cache_folder() / f"models--{owner}--{repository}"
    reference = folder / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    is_inside = re.fullmatch(_PART, commit) is not None
    return snapshot if is_inside and (snapshot / MODEL).is_file() else None


def _download(name: str, repository: str, revision: str | None) -> Path:
    missing = f"{name}: no such file or folder, no model of this package ({', '.join(bundled_models()) or 'none'})"
    missing += f", and not in {cache_folder()}"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise FileNotFoundError(f"{missing}; HF_HUB_OFFLINE is set")
    try:
        from huggingface_hub import hf_hub_download
    except ModuleNotFoundError:
        raise FileNotFoundError(f"{missing}; to download models, pip install 's7-ssm[hub]'") from None
    try:
        return Path(hf_hub_download(repository, MODEL, revision=revision)).parent
    except Exception as error:  # of several libraries, with several lines
        raise FileNotFoundError(f"{missing}; the hub answered: {' '.join(str(error).split())[:200]}") from None
