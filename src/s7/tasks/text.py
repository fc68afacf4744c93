"""Text: classify film reviews as favourable or not, byte by byte.

The 50,000 reviews of IMDB. Bytes that occur at least 15 times in the training reviews are tokens; all others share one
token, and an end token closes a review that was not truncated. The recipe is that of the Long Range Arena.
"""

import json
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Int, UInt, UInt8

import s7
from s7.data.download import Download
from s7.data.folder import Arrays
from s7.data.samples import Samples
from s7.data.token_augmentation import TokenAugmentation
from s7.tasks.next_token import next_token
from s7.tasks.task import Problem, Task, most_frequent

ARCHIVE = "imdb/aclImdb_v1.tar.gz"
LINES = "imdb/train.jsonl.xz"
HOW = "s7 data fetch text, or put lines of JSON with text and label there, train.jsonl.xz and test.jsonl.xz"
RAREST = 15
LABELS = ("unfavourable", "favourable")
# The bytes that occur at least 15 times in the 25,000 training reviews.
_RANGES = (
    *((9, 9), (32, 126), (128, 128), (132, 133), (142, 142), (145, 145), (147, 147), (149, 151), (153, 153)),
    *((156, 158), (160, 171), (173, 173), (175, 175), (177, 177), (179, 180), (182, 183), (186, 189), (194, 195)),
    (226, 226),
)
ALPHABET = np.concatenate([np.arange(first, last + 1) for first, last in _RANGES])
# Seed of NumPy's legacy generator, whose stream never changes.
SEED = 0


@dataclass(frozen=True)
class Text(Task):
    """The first `length` bytes of each review.

    With target="next" a model predicts the next byte instead of the label, to start from in a later run (`--init`).
    `augment` leaves out parts of the training reviews at random.
    """

    name: ClassVar[str] = "text"
    title: ClassVar[str] = "Film reviews, favourable or not, byte by byte"
    source: ClassVar[str] = "the 50,000 IMDB reviews (Maas 2011)"
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "imdb/aclImdb_v1.tar.gz",
            bytes=84_125_825,
            digest="sha256:c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
            page="https://ai.stanford.edu/~amaas/data/sentiment",
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": "2,500 of the 25,000 training reviews for validation; the official 25,000 test reviews",
        "paper": "all 25,000 training reviews for training; the epoch is chosen on the test set",
    }
    length: int = 4096
    target: Literal["label", "next"] = "label"
    augment: TokenAugmentation = TokenAugmentation()

    def __post_init__(self):
        if self.length < 2:
            raise ValueError(f"length={self.length} must be at least 2")

    def missing(self, folder):
        return None if folder.find(LINES, ARCHIVE) else folder.absence(ARCHIVE, LINES, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(LINES, ARCHIVE, how=HOW)
        about = {"file": path.name, "bytes": path.stat().st_size, "version": 1}

        def make() -> Arrays:
            say(f"reading {path} …")
            return from_lines(path) if path.name.endswith(".jsonl.xz") else from_archive(path)

        arrays = folder.simulated(self.name, about, make)
        learnt, tested = (Reviews.of(arrays, name) for name in ("train", "test"))
        alphabet = np.flatnonzero(np.bincount(learnt.letters, minlength=256) >= RAREST)
        train = learnt.samples(alphabet, self.length, "train")
        test = tested.samples(alphabet, self.length, "test")
        valid = test
        if protocol == "strict":
            order = np.random.RandomState(SEED).permutation(len(train))
            kept = len(train) // 10
            valid, train = train.take(order[:kept], "valid"), train.take(order[kept:])
        encoder = s7.TokenEncoder(len(alphabet) + 2)
        if self.target == "next":
            return next_token(train, valid, test, encoder)
        return Problem(
            train,
            valid,
            test,
            encoder=encoder,
            head=s7.Mean(2),
            objective=s7.CrossEntropy(2, LABELS),
            baselines=most_frequent(train, test, 2),
            augmentation=self.augment if self.augment != TokenAugmentation() else None,
        )


@dataclass(frozen=True, eq=False)
class Reviews:
    """The bytes of all reviews, end to end, with the review n at letters[offsets[n] : offsets[n + 1]]."""

    letters: UInt8[np.ndarray, " B"]
    offsets: Int[np.ndarray, " M"]
    labels: Int[np.ndarray, " N"]

    @classmethod
    def of(cls, arrays: Arrays, split: str) -> "Reviews":
        """The reviews of a split."""
        return cls(*(arrays[f"{split}_{name}"] for name in ("letters", "offsets", "labels")))

    def samples(self, alphabet: Int[np.ndarray, " A"], length: int, name: str) -> Samples:
        """Convert to tokens: the alphabet in order, then the token for rare bytes, then the end token."""
        cut = [
            to_tokens(self.letters[start : min(stop, start + length)], alphabet)[:length]
            for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ]
        return Samples.of(cut, self.labels, per_step=False, name=name)


def to_tokens(letters: UInt8[np.ndarray, " B"], alphabet: Int[np.ndarray, " A"]) -> UInt[np.ndarray, " L"]:
    """The tokens of bytes and the end token."""
    rare, end = len(alphabet), len(alphabet) + 1
    tokens = np.full(256, rare, np.min_scalar_type(end))
    tokens[alphabet] = np.arange(len(alphabet))
    return np.append(tokens[letters], tokens.dtype.type(end))


def review_tokens(text: str, length: int = 4096) -> UInt[np.ndarray, " L"]:
    """The tokens of a text, as models of this task read them.

    Args:
        text: A review.
        length: The number of bytes after which it is truncated.

    Examples:
        >>> review_tokens("Good!").tolist()
        [40, 80, 80, 69, 2, 136]
    """
    return to_tokens(np.frombuffer(text.encode(), np.uint8), ALPHABET)[:length]


def from_lines(path: Path) -> Arrays:
    """Read train.jsonl.xz and test.jsonl.xz in the same folder."""
    arrays: Arrays = {}
    for split in ("train", "test"):
        texts, labels = [], []
        file = path.with_name(f"{split}.jsonl.xz")
        if not file.exists():
            raise FileNotFoundError(f"{file} is missing; it belongs in the same folder as {path.name}")
        for number, line in enumerate(_lines(file), 1):
            try:
                review = json.loads(line)
                text, label = review["text"].encode(), review["label"]
            except (UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{file}: line {number} is not JSON with text and label ({error})") from None
            if label not in (0, 1):
                raise ValueError(f"{file}: line {number} has the label {label!r}, expected 0 or 1")
            texts.append(text)
            labels.append(label)
        arrays |= _laid_out(split, texts, labels)
    return arrays


def _lines(file: Path) -> list[bytes]:
    try:
        return lzma.decompress(file.read_bytes()).splitlines()
    except lzma.LZMAError as error:
        raise ValueError(f"{file}: truncated or damaged .xz file ({error}); download it again") from None


def from_archive(path: Path) -> Arrays:
    """Read the published archive, one file for each review."""
    found: dict[str, dict[str, bytes]] = {"train": {}, "test": {}}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                parts = member.name.split("/")
                if len(parts) == 4 and parts[1] in found and parts[2] in ("neg", "pos") and member.isfile():
                    found[parts[1]][f"{parts[2]}/{parts[3]}"] = archive.extractfile(member).read()  # type: ignore[union-attr]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path}: truncated or damaged .tar.gz file ({error}); download it again") from None
    arrays: Arrays = {}
    for split, reviews in found.items():
        names = sorted(reviews)
        if not names:
            raise ValueError(f"{path}: contains no reviews in {split}/neg and {split}/pos")
        arrays |= _laid_out(split, [reviews[name] for name in names], [int(name.startswith("pos")) for name in names])
    return arrays


def _laid_out(split: str, texts: list[bytes], labels: list[int]) -> Arrays:
    return {
        f"{split}_letters": np.frombuffer(b"".join(texts), np.uint8),
        f"{split}_offsets": np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64),
        f"{split}_labels": np.array(labels, np.int32),
    }
