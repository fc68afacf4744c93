"""Tell prose from code by reading bytes. The texts are those that come with Python: its reference and its library.

python -m examples.text
"""

import argparse
import asyncio
import email
import json
import unittest
from pathlib import Path
from pydoc_data.topics import topics

import jax
import numpy as np

import s7

CODE = (asyncio, email, json, unittest)


def excerpts(text: bytes, count: int, length: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Random parts of a text, of half to the whole of `length` bytes."""
    parts = []
    for size in rng.integers(length // 2, length + 1, count):
        start = rng.integers(0, len(text) - size)
        parts.append(np.frombuffer(text[start : start + size], np.uint8).astype(np.int32))
    return parts


def corpus() -> dict[str, bytes]:
    """Prose and code, as bytes."""
    sources = [path for module in CODE for path in sorted(Path(module.__file__ or "").parent.glob("*.py"))]
    return {
        "prose": "\n".join(topics[name] for name in sorted(topics)).encode(),
        "code": b"\n".join(path.read_bytes() for path in sources),
    }


def main(arguments: list[str] | None = None) -> None:
    """Train on the first 80 % of both texts, test on the rest, and classify two sentences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200, help="documents of each class for training")
    parser.add_argument("--length", type=int, default=1024, help="largest length in bytes")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    data: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
    for label, text in corpus().items():
        cut = len(text) * 4 // 5
        for split, part, count in (("train", text[:cut], options.documents), ("test", text[cut:], 100)):
            data[split][0].extend(excerpts(part, count, options.length, rng))
            data[split][1].extend([label] * count)
    model = s7.S7Model(
        encoder=s7.TokenEncoder(256),
        head=s7.Mean(outputs=2),
        width=32,
        state=8,
        stages=[s7.Stage(depth=1, stride=4), s7.Stage(depth=1, stride=4)],
        form=s7.Factored(rank=8),
        transition=s7.Stable(tau=(1.0, 50.0)),
        key=jax.random.key(0),
    )
    trained = s7.train(
        model, data["train"], valid=0.2, epochs=options.epochs, batch_size=16, learning_rate=1e-2, progress=False
    )
    print(f"test accuracy {s7.evaluate(trained.model, data['test'])['accuracy']:.2f}")
    for line in ("The statement is executed only if the expression is true.", "for x in range(10): print(x)"):
        (answer,) = s7.predict(trained.model, [np.frombuffer(line.encode(), np.uint8).astype(np.int32)])
        print(f"{answer}: {line}")


if __name__ == "__main__":
    main()
