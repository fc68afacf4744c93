"""ListOps: what a long nested expression of digits comes to; listops_expressions makes them and says what they mean.

An operator, a closing bracket and a digit are a token each, 15 in all. The recipe is that of the Long Range Arena, and
so are the files, for those who have them.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

import s7
from s7.data.download import Download
from s7.data.samples import Samples
from s7.tasks.blocks import make_blocks
from s7.tasks.listops_expressions import BLOCK, TOKENS, Expressions, make_block, tokenize
from s7.tasks.sources import long_range_arena
from s7.tasks.task import Problem, Task, most_frequent

# As the archive unpacks, and as it is meant.
FOLDERS = ("lra/lra_release/lra_release/listops-1000", "lra/lra_release/listops-1000")
FILES = {"train": "basic_train.tsv", "valid": "basic_val.tsv", "test": "basic_test.tsv"}
HOW = "s7 data fetch listops, or leave data.origin at 'made'"
HEADER = [b"Source", b"Target"]
CLASSES = tuple("0123456789")


@dataclass(frozen=True)
class ListOps(Task):
    """Expressions are made, `train`, `valid` and `test` of them, or with origin='lra' read, all that are published."""

    name: ClassVar[str] = "listops"
    title: ClassVar[str] = "What nested lists of digits come to"
    source: ClassVar[str] = "made, to the recipe of the Long Range Arena, or its own files"
    downloads: ClassVar[tuple[Download, ...]] = (long_range_arena("*/listops-1000/*"),)
    downloads_are_optional: ClassVar[bool] = True
    protocols: ClassVar[dict[str, str]] = {
        "strict": "96,000 expressions for training, 2,000 for validation, 2,000 tested once",
        "paper": "the same split",
    }
    train: int = 96_000
    valid: int = 2_000
    test: int = 2_000
    seed: int = 0
    origin: Literal["made", "lra"] = "made"

    def __post_init__(self):
        for name, least in (("train", 1), ("valid", 1), ("test", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")

    def missing(self, folder):
        wanted = _candidates("train")
        return None if self.origin == "made" or folder.find(*wanted) else folder.absence(*wanted, how=HOW)

    def load(self, folder, protocol, say):
        samples = {}
        for number, split in enumerate(FILES):
            if self.origin == "lra":
                path = folder.require(*_candidates(split), how=HOW)
                say(f"reading {path} …")
                samples[split] = _samples(read_expressions(path), split)
            else:
                samples[split] = _samples(self._made(folder, number, getattr(self, split), say), split)
        return Problem(
            samples["train"],
            samples["valid"],
            samples["test"],
            encoder=s7.TokenEncoder(len(TOKENS)),
            head=s7.Mean(len(CLASSES)),
            objective=s7.CrossEntropy(len(CLASSES), CLASSES),
            baselines=most_frequent(samples["train"], samples["test"], len(CLASSES)),
        )

    def _made(self, folder, split: int, count: int, say) -> Expressions:
        def make():
            say(f"making {count:,} expressions …")
            blocks = make_blocks(partial(make_block, self.seed, split), -(-count // BLOCK), say)
            return Expressions.joined(blocks, count)._asdict()

        settings = {"seed": self.seed, "split": split, "count": count, "version": 1}
        return Expressions(**folder.simulated(self.name, settings, make))


def _candidates(split: str) -> tuple[str, ...]:
    return tuple(f"{place}/{FILES[split]}" for place in FOLDERS)


def _samples(expressions: Expressions, name: str) -> Samples:
    tokens = np.split(expressions.tokens, expressions.offsets[1:-1])
    return Samples.of(tokens, expressions.labels, per_step=False, name=name)


def read_expressions(path: Path) -> Expressions:
    """Of a file of the Long Range Arena: a head, then an expression and what it comes to on each line."""
    tokens, labels = [], []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            columns = line.strip().split(b"\t")
            if number == 1 and columns == HEADER:
                continue
            try:
                if len(columns) != 2 or not columns[1].isdigit() or len(columns[1]) > 1:
                    raise ValueError("expected an expression, a tab and a digit")
                tokens.append(tokenize(columns[0]))
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from None
            labels.append(int(columns[1]))
    if not labels:
        raise ValueError(f"{path}: holds no expressions; get it again")
    return Expressions.of(tokens, labels)
