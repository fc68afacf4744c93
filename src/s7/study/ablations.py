"""Ablations: S7 with one component changed at a time.

An ablation is a function of a run's complete model settings. It returns the settings that it changes, or None if it
does not apply, such as an ablation of pooling to a model without pooling. To add one, add it to `ABLATIONS`.
"""

from collections.abc import Callable
from typing import Any

from s7.settings import Table
from s7.study.study import Variant

BASE = "as set"
Ablation = Callable[[Table], Table | None]


# Without reparameterization, a learning rate that suits all other parameters makes |a_k| exceed 1 within a few steps.
# The parameters of the state (w, W_w, B, b) then learn at this part of it.
SLOW = 0.01


def variants(model: Table, *, irregular: bool, learning_rate: float | None = None) -> tuple[Variant, ...]:
    """The unchanged model, followed by its ablations.

    Args:
        model: The complete model settings.
        irregular: Whether the data have time gaps, which an ablation then ignores.
        learning_rate: The learning rate, of which the ablation without reparameterization uses a part for the
            parameters of the state; None to keep it.
    """
    found = {name: ablation(model) for name, ablation in ABLATIONS.items()}
    if irregular:
        others = {"dt ignored": "ignored", "dt read by all states": "read", "dt read by every second state": "mixed"}
        found |= {name: {"gaps": gaps} for name, gaps in others.items() if model["gaps"] != gaps}
    changed = {name: {"model": changes} for name, changes in found.items() if changes}
    if "no reparameterization" in changed and learning_rate is not None:
        changed["no reparameterization"]["train"] = {"ssm_learning_rate": SLOW * learning_rate}
    return (Variant(label=BASE), *(Variant(label=name, settings=settings) for name, settings in changed.items()))


def _plain(model: Table) -> Table | None:
    """The paper's "no reparameterization". It also removes oscillation, which `Plain` does not have."""
    stable = model["transition"]
    if stable["kind"] != "Stable":
        return None
    return {"transition": {"kind": "Plain"} | {name: stable[name] for name in ("selective", "gain", "tau")}}


def _stable(**changes: Any) -> Ablation:
    """Change settings of `Stable`. Time constants below b, which is the smallest possible, are raised to b."""

    def ablation(model: Table) -> Table | None:
        stable = model["transition"]
        if stable["kind"] != "Stable" or all(stable[name] == value for name, value in changes.items()):
            return None
        changed = stable | changes
        return {"transition": changed | {"tau": [max(tau, changed["b"]) for tau in changed["tau"]]}}

    return ablation


def _static(part: str) -> Ablation:
    """Make B or C independent of the input."""

    def ablation(model: Table) -> Table | None:
        form = model["form"]
        if part not in form.get("selective", ""):
            return None
        rest = form["selective"].replace(part, "")
        if rest:
            return {"form": form | {"selective": rest}}
        return {"form": {"kind": "Static", "D": form["D"], "bias": form["bias"]}}

    return ablation


def _form(**changes: Any) -> Ablation:
    """Change settings of the form."""

    def ablation(model: Table) -> Table | None:
        form = model["form"]
        if all(form.get(name) == value for name, value in changes.items()):
            return None
        return {"form": form | changes}

    return ablation


def _all_static(model: Table) -> Table | None:
    if _is_static(model):
        return None
    return {
        "form": {"kind": "Static", "bias": model["form"]["bias"]},
        "transition": model["transition"] | {"selective": False},
    }


def _all_static_wide(model: Table) -> Table | None:
    """Make everything static in a model of twice the width, whose size is similar to that of the selective one."""
    static = _all_static(model)
    return static and static | {"width": 2 * model["width"]}


def _selective(model: Table) -> Table | None:
    """Make all matrices of a static model depend on the input."""
    if not _is_static(model):
        return None
    return {
        "form": {"kind": "Factored", "bias": model["form"]["bias"]},
        "transition": model["transition"] | {"selective": True},
    }


def _is_static(model: Table) -> bool:
    return model["form"]["kind"] == "Static" and not model["transition"]["selective"]


def _rank(factor: float) -> Ablation:
    """Scale the rank of a factored form."""

    def ablation(model: Table) -> Table | None:
        form = model["form"]
        if form["kind"] != "Factored":
            return None
        rank = max(1, round(form["rank"] * factor))
        return {"form": form | {"rank": rank}} if rank != form["rank"] else None

    return ablation


def _full(model: Table) -> Table | None:
    form = model["form"]
    if form["kind"] != "Factored":
        return None
    return {"form": {"kind": "Full"} | {name: form[name] for name in ("D", "bias", "selective")}}


def _pool(pool: str) -> Ablation:
    """Change how the skip connection pools the events of a window."""

    def ablation(model: Table) -> Table | None:
        stages = model["stages"]
        pooling = [stage for stage in stages if stage["stride"] > 1]
        if not pooling or all(stage["pool"] == pool for stage in pooling):
            return None
        return {"stages": [stage | {"pool": pool} for stage in stages]}

    return ablation


def _no_gate(model: Table) -> Table | None:
    return {"gate": False} if model["gate"] else None


def _flip_oscillation(model: Table) -> Table | None:
    stable = model["transition"]
    if stable["kind"] != "Stable":
        return None
    return {"transition": stable | {"oscillate": not stable["oscillate"], "period": "none"}}


ABLATIONS: dict[str, Ablation] = {
    "no reparameterization": _plain,
    "a=0.5 b=0.5": _stable(a=0.5, b=0.5),
    "a=1 b=0.5": _stable(a=1.0, b=0.5),
    "a=1 b=1": _stable(a=1.0, b=1.0),
    "Λ static": _stable(selective=False),
    "B static": _static("B"),
    "C static": _static("C"),
    "D static": _form(D="static"),
    "all static": _all_static,
    "all static and wide": _all_static_wide,
    "all selective": _selective,
    "a quarter of the rank": _rank(0.25),
    "half the rank": _rank(0.5),
    "twice the rank": _rank(2),
    "full form": _full,
    "no gain": _stable(gain="none"),
    "gain by variance": _stable(gain="variance"),
    "oscillation flipped": _flip_oscillation,
    "no gate": _no_gate,
    "pooling: last": _pool("last"),
    "pooling: mean": _pool("mean"),
    "pooling: time": _pool("time"),
}
