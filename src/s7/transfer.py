"""Training that starts from a trained model, such as one that has learned to predict the next token.

Encoder and blocks are those of the trained model. Its head is taken over only if it has the same shape: another task
has other outputs.
"""

import equinox as eqx
import jax

from s7.model import S7Model

KEPT = ("encoder", "blocks")


def transferred(model: S7Model, trained: object) -> S7Model:
    """The model with the parameters of a trained one.

    Args:
        model: The model with new parameters.
        trained: A model with the same encoder and blocks.

    Raises:
        ValueError: If encoder or blocks differ. The message names the first parameter that does.
    """
    if not isinstance(trained, S7Model):
        raise ValueError(f"holds a {type(trained).__name__}, expected an S7Model")
    parts: dict[str, object] = {}
    for name in (*KEPT, "head"):
        difference = _difference(getattr(model, name), getattr(trained, name), name)
        if difference is None:
            parts[name] = getattr(trained, name)
        elif name in KEPT:
            raise ValueError(difference)
    return eqx.tree_at(lambda m: [getattr(m, name) for name in parts], model, list(parts.values()))


def _difference(mine: object, theirs: object, where: str) -> str | None:
    """The first parameter with another name or shape, or None if there is none."""
    here, there = (
        {where + jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(part)}
        for part in (mine, theirs)
    )
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            return f"{name} has shape {there.get(name, 'none')} there and {here.get(name, 'none')} here"
    return None
