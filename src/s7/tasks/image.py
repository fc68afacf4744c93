"""Image: classify small images, pixel by pixel.

Grayscale CIFAR-10: 60,000 images of 32×32, each a sequence of 1,024 intensities in reading order. The recipe is that
of the Long Range Arena.
"""

import json
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Shaped, UInt8

import s7
from s7.data.download import Download
from s7.data.folder import Arrays
from s7.data.image_patches import check_patch, events_of_images
from s7.data.picture_augmentation import PictureAugmentation
from s7.data.pictures import read_grey
from s7.data.samples import Samples
from s7.tasks.task import Problem, Task, most_frequent

ARCHIVE = "cifar10/cifar-10-binary.tar.gz"
SHEETS = "cifar10_gray/train_labels.json"
HOW = "s7 data fetch image"
SIDE, PIXELS = 32, 1024
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# The seed of the published split, which used another generator.
SEED = 42


@dataclass(frozen=True)
class Image(Task):
    """Grayscale images as sequences of pixels.

    Args:
        patch: The number of pixels of a row that are read as one event.
        patch_rows: The number of rows that an event covers.
        augment: Shifts and mirrors the training images at random.
    """

    name: ClassVar[str] = "image"
    title: ClassVar[str] = "Grayscale CIFAR-10, pixel by pixel"
    source: ClassVar[str] = "CIFAR-10 (Krizhevsky 2009)"
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar10/cifar-10-binary.tar.gz",
            bytes=170_052_171,
            digest="sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            page="https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": "5,000 of the 50,000 training images for validation; the official 10,000 test images",
        "paper": "the same sizes; the published validation images were drawn by another generator",
    }

    patch: int = 1
    patch_rows: int = 1
    augment: PictureAugmentation = PictureAugmentation()

    def __post_init__(self):
        check_patch(self.patch, self.patch_rows, SIDE)
        for name in ("patch", "patch_rows"):
            value, own = getattr(self, name), getattr(self.augment, name)
            if own not in (1, value):
                raise ValueError(f"augment.{name}={own} differs from {name}={value}; omit it")

    def missing(self, folder):
        return None if folder.find(SHEETS, ARCHIVE) else folder.absence(ARCHIVE, SHEETS, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(SHEETS, ARCHIVE, how=HOW)
        about = {"file": path.name, "bytes": path.stat().st_size, "version": 1}

        def make() -> Arrays:
            say(f"reading {path.parent} …")
            return from_sheets(path.parent) if path.suffix == ".json" else from_archive(path)

        arrays = folder.simulated(self.name, about, make)
        learnt, test = (self._samples(arrays, name) for name in ("train", "test"))
        order = np.random.RandomState(SEED).permutation(len(learnt))
        kept = len(learnt) // 10
        train = learnt.take(order[kept:])
        return Problem(
            train,
            learnt.take(order[:kept], "valid"),
            test,
            encoder=s7.LinearEncoder.of(train),
            head=s7.Mean(len(CLASSES)),
            objective=s7.CrossEntropy(len(CLASSES), CLASSES),
            baselines=most_frequent(train, test, len(CLASSES)),
            augmentation=self._augmentation(),
        )

    def _samples(self, arrays: Arrays, name: str) -> Samples:
        images = arrays[f"{name}_pixels"].reshape(-1, SIDE, SIDE, 1)
        events = events_of_images(images, self.patch, self.patch_rows)
        return Samples.of(events, arrays[f"{name}_labels"], per_step=False, name=name)

    def _augmentation(self) -> PictureAugmentation | None:
        if self.augment == PictureAugmentation():
            return None
        return replace(self.augment, patch=self.patch, patch_rows=self.patch_rows)


def from_sheets(place: Path) -> Arrays:
    """Read PNG files with images stacked vertically, and JSON files with the labels."""
    arrays: Arrays = {}
    for split in ("train", "test"):
        labels = _labels(place / f"{split}_labels.json")
        sheets = [_sheet(path) for path in sorted(place.glob(f"cifar10_gray_{split}_*.png"))]
        pictures = sum(len(sheet) for sheet in sheets)
        if pictures != len(labels):
            raise ValueError(f"{place}: {pictures:,} pictures in cifar10_gray_{split}_*.png but {len(labels):,} labels")
        arrays |= {f"{split}_pixels": np.concatenate(sheets), f"{split}_labels": labels}
    return arrays


def _sheet(path: Path) -> UInt8[np.ndarray, "N 1024"]:
    pixels = read_grey(path, (-1, SIDE))
    if len(pixels) % SIDE:
        raise ValueError(f"{path}: has {len(pixels):,} rows, expected a multiple of {SIDE}")
    return pixels.reshape(-1, PIXELS)


def _labels(path: Path) -> Shaped[np.ndarray, " N"]:
    try:
        labels = np.array(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path}: not a list of labels in JSON ({error})") from None
    if labels.ndim != 1 or labels.dtype.kind != "i":
        raise ValueError(f"{path}: expected a list of whole numbers, one for each picture")
    return labels.astype(np.int32)


def from_archive(path: Path) -> Arrays:
    """Read the official binary archive: for each image a label, then 1,024 red, green and blue bytes."""
    wanted = [f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]
    found: dict[str, UInt8[np.ndarray, "N 3073"]] = {}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in wanted and member.isfile():
                    found[name] = _records(archive.extractfile(member).read(), f"{path}: {name}")  # type: ignore[union-attr]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path}: truncated or damaged .tar.gz file ({error}); download it again") from None
    absent = [name for name in wanted if name not in found]
    if absent:
        raise ValueError(f"{path}: contains no {', '.join(absent)}; download it again")
    arrays: Arrays = {}
    for split, names in (("train", wanted[:-1]), ("test", wanted[-1:])):
        records = np.concatenate([found[name] for name in names])
        arrays |= {f"{split}_pixels": grey(records[:, 1:]), f"{split}_labels": records[:, 0].astype(np.int32)}
    return arrays


def _records(content: bytes, where: str) -> UInt8[np.ndarray, "N 3073"]:
    size = 1 + 3 * PIXELS
    if not content or len(content) % size:
        raise ValueError(f"{where} has {len(content):,} bytes, not a multiple of {size:,}: pictures of another size")
    return np.frombuffer(content, np.uint8).reshape(-1, size)


def grey(colours: UInt8[np.ndarray, "N 3072"]) -> UInt8[np.ndarray, "N 1024"]:
    """Convert RGB to luma by ITU-R 601-2, with Pillow's integer arithmetic."""
    red, green, blue = colours.reshape(-1, 3, PIXELS).astype(np.uint32).transpose(1, 0, 2)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint8)
