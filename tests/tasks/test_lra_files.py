"""Text and image: published files and alternative formats are read and split; invalid files are rejected."""

import json
import lzma
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from s7.data.folder import DataFolder
from s7.data.picture_augmentation import PictureAugmentation
from s7.tasks import image
from s7.tasks.image import Image, grey
from s7.tasks.text import ALPHABET, RAREST, Text, from_lines, review_tokens
from tests.listening import silent
from tests.real_data import real_file

REVIEWS = {
    "train": [(b"good " * 20, 1), (b"bad " * 20, 0), (b"good\xc3\xa9" * 9, 1), (b"b", 0)] * 5,
    "test": [(b"good Z", 1), (b"bad bad", 0)],
}


def tar(path: Path, files: dict[str, bytes]):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))


def write_lines(place: Path, reviews=REVIEWS):
    (place / "imdb").mkdir(parents=True, exist_ok=True)
    for split, rows in reviews.items():
        lines = [json.dumps({"text": text.decode(), "label": label}) for text, label in rows]
        (place / "imdb" / f"{split}.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode()))


def write_archive(place: Path, reviews=REVIEWS):
    files = {}
    for split, rows in reviews.items():
        for n, (text, label) in enumerate(rows):
            files[f"aclImdb/{split}/{'pos' if label else 'neg'}/{n}_7.txt"] = text
    tar(place / "imdb" / "aclImdb_v1.tar.gz", files | {"aclImdb/README": b"", "aclImdb/train/unsup/0_0.txt": b"x"})


def load(task, place, protocol="strict"):
    return task.load(DataFolder(place), protocol, silent)


# Text.


def test_bytes_are_tokens_with_one_token_for_rare_bytes(place):
    write_lines(place)
    problem = load(Text(length=8), place, "paper")
    # Of "good bad" and the two bytes of é all are frequent: 'Z' is the rare one.
    alphabet = sorted(set(b"good bad\xc3\xa9"))
    assert problem.encoder.tokens == len(alphabet) + 2
    first = problem.test.take([0]).inputs.tolist()
    assert first == [*(alphabet.index(letter) for letter in b"good "), len(alphabet), len(alphabet) + 1]
    # A truncated text has no end token.
    assert problem.train.lengths.tolist()[:4] == [8, 8, 8, 2]
    assert problem.train.take([1]).inputs.tolist() == [alphabet.index(letter) for letter in b"bad bad "]
    assert problem.valid is problem.test
    assert problem.baselines == {"most frequent class": {"accuracy": 0.5}}


def test_a_text_has_the_tokens_of_a_review(place, monkeypatch):
    write_lines(place)
    monkeypatch.setattr("s7.tasks.text.ALPHABET", np.array(sorted(set(b"good bad\xc3\xa9"))))
    samples = load(Text(length=8), place).test
    for number, text in enumerate(["good Z", "bad bad"]):
        assert review_tokens(text, 8).tolist() == samples.take([number]).inputs.tolist()


def test_strict_validates_on_a_tenth_of_the_training_reviews(place):
    write_lines(place)
    problem = load(Text(), place)
    assert (len(problem.train), len(problem.valid), len(problem.test)) == (18, 2, 2)


def test_the_archive_gives_the_same_reviews(place, tmp_path):
    write_lines(place)
    write_archive(tmp_path / "packed")
    one, other = load(Text(), place), load(Text(), tmp_path / "packed")
    assert sorted(map(len, (one.train, one.valid))) == sorted(map(len, (other.train, other.valid)))
    assert one.encoder == other.encoder
    assert sorted(one.test.inputs.tolist()) == sorted(other.test.inputs.tolist())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a", "label": 1}\n{"text": "b"}', r"train.jsonl.xz: line 2 is not JSON with text and label"),
        (b'{"text": "a", "label": 1}\n{"text": "\xff"}', r"train.jsonl.xz: line 2 is not JSON with text and label"),
        (b'{"text": "a", "label": 7}', r"train.jsonl.xz: line 1 has the label 7, expected 0 or 1"),
    ],
    ids=["no label", "not UTF-8", "another label"],
)
def test_an_invalid_line_is_rejected(place, content, message):
    write_lines(place)
    (place / "imdb" / "train.jsonl.xz").write_bytes(lzma.compress(content))
    with pytest.raises(ValueError, match=message):
        load(Text(), place)


def test_broken_files_of_reviews_are_rejected(place, tmp_path):
    write_lines(place)
    file = place / "imdb" / "train.jsonl.xz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(ValueError, match=r"train.jsonl.xz: truncated or damaged .xz file"):
        load(Text(), place)
    file.write_bytes(whole)
    (place / "imdb" / "test.jsonl.xz").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"test.jsonl.xz is missing; it belongs in the same folder as train.jsonl.xz"
    ):
        load(Text(), place)
    packed = tmp_path / "packed"
    write_archive(packed)
    file = packed / "imdb" / "aclImdb_v1.tar.gz"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"aclImdb_v1.tar.gz: truncated or damaged .tar.gz file"):
        load(Text(), packed)
    write_archive(packed, {"train": REVIEWS["train"], "test": []})
    with pytest.raises(ValueError, match=r"aclImdb_v1.tar.gz: contains no reviews in test/neg and test/pos"):
        load(Text(), packed)


def test_missing_files_are_reported(place):
    assert "imdb/aclImdb_v1.tar.gz is not in" in Text().missing(DataFolder(place))
    assert "s7 data fetch image" in Image().missing(DataFolder(place))
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        Text(length=1)


# Image.


def colours(n: int, seed: int):
    return np.random.default_rng(seed).integers(0, 256, (n, 3072)).astype(np.uint8)


def write_binary(place: Path, change=lambda files: files):
    files = {}
    for n, name in enumerate([*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]):
        records = np.concatenate([np.arange(4, dtype=np.uint8)[:, None], colours(4, n)], 1)
        files[f"cifar-10-batches-bin/{name}"] = records.tobytes()
    tar(place / "cifar10" / "cifar-10-binary.tar.gz", change(files))


def write_sheets(place: Path):
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is missing; pip install 's7-ssm[images]'")
    folder = place / "cifar10_gray"
    folder.mkdir(parents=True)
    for split, seeds in (("train", range(5)), ("test", [5])):
        for start, seed in enumerate(seeds):
            pixels = grey(colours(4, seed)).reshape(-1, 32)
            pictures.fromarray(pixels).save(folder / f"cifar10_gray_{split}_{4 * start:05d}.png")
        (folder / f"{split}_labels.json").write_text(json.dumps([0, 1, 2, 3] * len(seeds)))
    return folder


def test_the_official_archive_and_sheets_of_grey_give_the_same_pictures(place, tmp_path):
    write_binary(place)
    write_sheets(tmp_path / "sheets")
    one, other = load(Image(), place), load(Image(), tmp_path / "sheets")
    for split in ("train", "valid", "test"):
        assert getattr(one, split).digest() == getattr(other, split).digest()
    assert (len(one.train), len(one.valid), len(one.test)) == (18, 2, 4)
    assert one.train.event_shape == (1,)
    assert one.train.lengths[0] == 1024
    assert one.encoder.mean[0] == pytest.approx(one.train.inputs.mean())


def test_pixels_of_a_row_can_be_one_event(place):
    write_binary(place)
    pixels, patches = (load(Image(patch=patch), place).train for patch in (1, 8))
    assert patches.event_shape == (8,)
    np.testing.assert_array_equal(patches.inputs.ravel(), pixels.inputs.ravel())
    with pytest.raises(ValueError, match="patch=5 does not divide the 32 pixels of a row"):
        Image(patch=5)
    with pytest.raises(ValueError, match=r"augment\.patch=4 differs from patch=2; omit it"):
        Image(patch=2, augment=PictureAugmentation(shift=1, patch=4))


def test_pictures_in_patches_are_augmented_like_pixels(place):
    write_binary(place)
    augment = PictureAugmentation(shift=3, mirror=0.5)
    problems = [load(Image(patch=patch, augment=augment), place) for patch in (1, 4)]
    chosen = np.arange(2)
    pixels, patches = (problem.augmentation(problem.train, chosen, 0, 0) for problem in problems)
    assert patches.event_shape == (4,)
    assert len(patches.inputs) == len(pixels.inputs) // 4
    np.testing.assert_array_equal(patches.inputs.ravel(), pixels.inputs.ravel())


def test_grey_is_pillows():
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is missing; pip install 's7-ssm[images]'")
    rgb = colours(2, 9)
    for row, mine in zip(rgb, grey(rgb), strict=True):
        theirs = pictures.fromarray(row.reshape(3, 32, 32).transpose(1, 2, 0).copy()).convert("L")
        assert (np.asarray(theirs).ravel() == mine).all()


def without(files, name):
    return {key: value for key, value in files.items() if not key.endswith(name)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: without(files, "test_batch.bin"), "contains no test_batch.bin"),
        (
            lambda files: files | {"cifar-10-batches-bin/data_batch_2.bin": bytes(3072)},
            "data_batch_2.bin has 3,072 bytes, not a multiple of 3,073",
        ),
    ],
    ids=["a file is missing", "another size"],
)
def test_an_invalid_archive_of_pictures_is_rejected(place, change, message):
    write_binary(place, change)
    with pytest.raises(ValueError, match=f"cifar-10-binary.tar.gz: {message}"):
        load(Image(), place)


def test_invalid_sheets_are_rejected(place):
    folder = write_sheets(place)
    pictures = pytest.importorskip("PIL.Image")
    sheet = folder / "cifar10_gray_test_00000.png"
    for shape, message in (
        ((64, 16), "has 64×16 uint8 pixels, expected any×32 grey ones of 8 bits"),
        ((32, 32, 3), "has 32×32×3 uint8 pixels"),
        ((33, 32), "has 33 rows, expected a multiple of 32"),
        ((32, 32), "1 pictures in cifar10_gray_test_.*.png but 4 labels"),
    ):
        pictures.fromarray(np.zeros(shape, np.uint8)).save(sheet)
        with pytest.raises(ValueError, match=message):
            image.from_sheets(folder)
    sheet.write_bytes(sheet.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"test_00000.png: damaged, or not an image"):
        image.from_sheets(folder)
    (folder / "train_labels.json").write_text("[1, 2")
    with pytest.raises(ValueError, match=r"train_labels.json: not a list of labels in JSON"):
        image.from_sheets(folder)


# The real ones.


def test_all_reviews_are_read():
    arrays = from_lines(real_file("imdb/train.jsonl.xz"))
    frequent = np.bincount(arrays["train_letters"], minlength=256) >= RAREST
    np.testing.assert_array_equal(ALPHABET, np.flatnonzero(frequent))
    for split in ("train", "test"):
        assert np.bincount(arrays[f"{split}_labels"]).tolist() == [12_500, 12_500]
        assert arrays[f"{split}_offsets"][-1] == len(arrays[f"{split}_letters"]) > 32_000_000
