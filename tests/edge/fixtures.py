"""Writes the small exported models in tests/edge/models, which the C++ tests read: python -m tests.edge.fixtures

They are part of the repository, so that `make edge-test` and `make fuzz-edge` need only a compiler. Write them again
when the format of model files changes.
"""

from pathlib import Path
from unittest.mock import patch

import jax

import s7
from s7.export import edge

FOLDER = Path(__file__).parent / "models"
EVENTS = 60


def models() -> dict[str, s7.S7Model]:
    """One model for each kind of event, and together every transition and form."""

    def make(encoder, head, **settings):
        return s7.S7Model(encoder=encoder, head=head, key=jax.random.key(0), **({"width": 6, "state": 4} | settings))

    pooled = (s7.Stage(1, 4, pool="time"), s7.Stage(1, 1, width=5), s7.Stage(1, 3))
    form = s7.Factored(rank=3)
    camera = make(s7.EventEncoder((6, 5)), s7.TimeMean(3), stages=pooled, form=form, time_unit=0.5)
    return {
        "camera": camera.with_classes(["left", "right", "höher\\"]),
        "tokens": make(s7.TokenEncoder(9), s7.Mean(2), depth=2, transition=s7.Stable(oscillate=True), form=s7.Full()),
        "series": make(s7.LinearEncoder(3, mean=1.0, scale=2.0), s7.PerStep(2), depth=1, transition=s7.Step()),
        "images": make(s7.ImageEncoder((8, 9, 1), channels=2), s7.Last(1), depth=1, transition=s7.Ring(), norm="rms"),
    }


def write(folder: Path) -> None:
    """Write all of them, with few events."""
    for name, model in models().items():
        with patch.object(edge, "EVENTS", EVENTS):
            edge.write_edge(model, folder / name)
        (folder / name / edge.README).unlink()


if __name__ == "__main__":
    write(FOLDER)
