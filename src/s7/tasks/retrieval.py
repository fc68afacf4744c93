"""Retrieval: does one of two papers cite the other? Texts are read byte by byte.

The data are pairs of papers of the ACL Anthology Network, from the Long Range Arena. A line has a label, two names and
two texts. The texts are Python bytes literals, b'…' with \\n for the end of a line, and are read literally, as in
published results. A token is a byte; 0, which does not occur in texts, ends a document.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import s7
from s7.data.download import Download
from s7.data.samples import Samples
from s7.tasks.sources import long_range_arena
from s7.tasks.task import Problem, Task, most_frequent

# The path that the archive unpacks to, and the intended path.
FOLDERS = ("lra/lra_release/lra_release/tsv_data", "lra/lra_release/tsv_data")
SPLITS = {"train": "train", "valid": "eval", "test": "test"}
FILES = tuple(f"{folder}/new_aan_pairs.train.tsv" for folder in FOLDERS)
HOW = "s7 data fetch retrieval, or unpack lra_release.gz of the Long Range Arena in lra"
TOKENS, END = 256, 0
LABELS = {b"0": 0, b"0.0": 0, b"1": 1, b"1.0": 1}
COLUMNS = 5


@dataclass(frozen=True)
class Retrieval(Task):
    """Classify pairs of papers.

    Args:
        length: The number of tokens read of each paper, including the end token.
    """

    name: ClassVar[str] = "retrieval"
    title: ClassVar[str] = "Whether one of two papers cites the other, byte by byte"
    source: ClassVar[str] = "ACL Anthology Network, from the Long Range Arena"
    downloads: ClassVar[tuple[Download, ...]] = (long_range_arena("*/tsv_data/*"),)
    protocols: ClassVar[dict[str, str]] = {
        "strict": "the official split: 147,086 pairs for training, 18,090 for validation, 17,437 for testing",
        "paper": "the same",
    }
    length: int = 4000

    def __post_init__(self):
        if self.length < 2:
            raise ValueError(f"length={self.length} must be at least 2")

    def missing(self, folder):
        return None if folder.find(*FILES) else folder.absence(*FILES, how=HOW)

    def load(self, folder, protocol, say):
        place = folder.require(*FILES, how=HOW).parent
        splits = {}
        for name, stem in SPLITS.items():
            path = place / f"new_aan_pairs.{stem}.tsv"
            if not path.exists():
                raise FileNotFoundError(f"{path} is missing; it must be in the same folder as {Path(FILES[0]).name}")
            say(f"reading {path} …")
            splits[name] = read_pairs(path, self.length, name)
        return Problem(
            splits["train"],
            splits["valid"],
            splits["test"],
            encoder=s7.TokenEncoder(TOKENS),
            head=s7.Retrieval(2),
            objective=s7.CrossEntropy(2, ("unrelated", "related")),
            baselines=most_frequent(splits["train"], splits["test"], 2),
        )


def read_pairs(path: Path, length: int, name: str) -> Samples:
    """Read the pairs of a file, line by line, because files are far larger than the tokens read from them."""
    letters, offsets, labels = bytearray(), [0], []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                label, texts = _pair(line)
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from None
            labels.append(label)
            for text in texts:
                letters += text[: length - 1]
                letters.append(END)
                offsets.append(len(letters))
    if not labels:
        raise ValueError(f"{path}: has no pairs")
    tokens = np.frombuffer(letters, np.uint8)
    return Samples(tokens, np.array(labels, np.int32), np.array(offsets), name=name, documents=2)


def _pair(line: bytes) -> tuple[int, list[bytes]]:
    """The label and the two texts."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte 0x{line[error.start]:02x} is not UTF-8") from None
    columns = line.rstrip(b"\r\n").split(b"\t")
    if len(columns) != COLUMNS:
        raise ValueError(f"has {len(columns)} columns, expected {COLUMNS}: a label, two names, two texts")
    label, _, _, *texts = columns
    if label not in LABELS:
        raise ValueError(f"the label is {label.decode()!r}, expected 0 or 1")
    if b"" in texts:
        raise ValueError("a text is empty")
    if END in line:
        raise ValueError("has a zero byte, which is the end token")
    return LABELS[label], texts
