"""Retrieval: pairs of papers from the Long Range Arena; invalid lines are rejected."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.data.batching import Buckets
from s7.data.folder import DataFolder
from s7.tasks.retrieval import FOLDERS, Retrieval, read_pairs

PAIRS = {
    "train": [(1, rb"b'We cite\n \xc3\xa9'", rb"b'Cited.'"), (1, b'b"it\'s"', b"b'no'"), (0, b"b'x'", b"b'y'")] * 2,
    "eval": [(0, b"b'a'", b"b'b'")],
    "test": [(1, b"b'" + b"long " * 2000 + b"'", b"b'short'"), (0, b"b'c'", b"b'd'"), (0, b"b'e'", b"b'f'")],
}


def write(place, pairs=PAIRS, folder=FOLDERS[0], ends=b"\n"):
    path = place / folder
    path.mkdir(parents=True, exist_ok=True)
    for stem, rows in pairs.items():
        lines = [b"%.1f\tP%02d\tW-01\t%b\t%b%b" % (label, n, *texts, ends) for n, (label, *texts) in enumerate(rows)]
        (path / f"new_aan_pairs.{stem}.tsv").write_bytes(b"".join(lines))
    return path


def load(place, protocol="strict", heard=None, **settings):
    return Retrieval(**settings).load(DataFolder(place), protocol, (heard if heard is not None else []).append)


def documents(samples):
    """The documents, each without its end token."""
    assert (samples.inputs[samples.offsets[1:] - 1] == 0).all()
    return [bytes(samples.inputs[a : b - 1]) for a, b in zip(samples.offsets[:-1], samples.offsets[1:], strict=True)]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_pairs_are_read_literally_with_end_tokens(place, folder, ends):
    path = write(place, folder=folder, ends=ends)
    heard: list[str] = []
    problem = load(place, heard=heard)
    assert heard == [f"reading {path}/new_aan_pairs.{stem}.tsv …" for stem in ("train", "eval", "test")]
    for samples, stem in ((problem.train, "train"), (problem.valid, "eval")):
        assert documents(samples) == [text for _, *texts in PAIRS[stem] for text in texts]
        assert samples.targets.tolist() == [label for label, *_ in PAIRS[stem]]
        assert len(samples) == len(PAIRS[stem])
        assert samples.inputs.dtype == np.uint8
    assert problem.head.documents == problem.test.documents == 2
    assert problem.encoder.tokens == 256
    assert problem.objective.names == ("unrelated", "related")
    assert problem.baselines == {"most frequent class": {"accuracy": pytest.approx(1 / 3)}}
    problem.objective.check(problem.train)


def test_a_long_document_is_cut_and_still_has_an_end(place):
    write(place)
    problem = load(place)
    assert problem.test.spans(np.array([0]))[1].tolist() == [[4000, 9]]
    assert documents(problem.test)[0] == PAIRS["test"][0][1][:3999]
    assert load(place, length=4).test.lengths.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        Retrieval(length=1)


def test_a_batch_has_both_documents_of_a_pair(place):
    write(place)
    samples = load(place, length=20).train
    batching = Buckets(2)
    batch = batching.assemble(samples, batching.in_order(samples)[0])
    assert batch.inputs.shape[:2] == (2, 2)
    assert batch.targets.shape == (2,)
    first = samples.take([int(batching.in_order(samples)[0].rows[0][0])])
    np.testing.assert_array_equal(batch.inputs[0, 1, : batch.length[0, 1]], first.inputs[first.offsets[1] :])


def test_both_protocols_are_the_official_split(place):
    write(place)
    strict, paper = (load(place, protocol) for protocol in ("strict", "paper"))
    for name in ("train", "valid", "test"):
        assert getattr(strict, name).digest() == getattr(paper, name).digest()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("01"), *[st.text("ab '\\\"é…", min_size=1)] * 2), min_size=1, max_size=4))
def test_any_text_without_tabs_round_trips(tmp_path_factory, pairs):
    path = tmp_path_factory.getbasetemp() / "pairs.tsv"
    path.write_bytes("\n".join(f"{label}\tP\tW\t{one}\t{two}" for label, one, two in pairs).encode())
    samples = read_pairs(path, 1000, "train")
    samples.check()
    assert documents(samples) == [text.encode() for _, *texts in pairs for text in texts]
    assert samples.targets.tolist() == [int(label) for label, *_ in pairs]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1.0\tP\tW\ttext", "has 4 columns, expected 5: a label, two names, two texts"),
        (b"1.0\tP\tW\ttext\tmore\tand more", "has 6 columns, expected 5"),
        (b"", "has 1 columns, expected 5"),
        (b"2.0\tP\tW\ttext\ttext", "the label is '2.0', expected 0 or 1"),
        (b"label\tP\tW\ttext\ttext", "the label is 'label', expected 0 or 1"),
        (b"1\tP\tW\ttext\t", "a text is empty"),
        (b"1\tP\tW\ttext\tcaf\xe9", "byte 0xe9 is not UTF-8"),
        (b"1\tP\tW\ttext\tte\0xt", "has a zero byte, which is the end token"),
    ],
)
def test_an_invalid_line_is_rejected(place, line, message):
    path = write(place) / "new_aan_pairs.eval.tsv"
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ValueError, match=f"^{path}: line 2: {re.escape(message)}"):
        load(place)


def test_missing_and_empty_files_are_rejected(place):
    folder = DataFolder(place)
    name = f"{FOLDERS[0]}/new_aan_pairs.train.tsv"
    with pytest.raises(FileNotFoundError, match=f"^{name} is not in {place} or .*unpack lra_release.gz"):
        load(place)
    assert Retrieval().missing(folder).startswith(name)
    path = write(place)
    assert Retrieval().missing(folder) is None
    (path / "new_aan_pairs.eval.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"new_aan_pairs.eval.tsv: has no pairs$"):
        load(place)
    (path / "new_aan_pairs.eval.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"eval.tsv is missing; it must be in the same folder as new_aan"):
        load(place)
