"""EigenWorms: both archive formats give the same series, splits are as published, duplicates are dropped."""

import re
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from s7.data.folder import DataFolder
from s7.data.uea import READERS, read_arff, read_ts
from s7.encoders import LinearEncoder
from s7.job import Job
from s7.tasks.eigenworms import FILES, EigenWorms, Parts, published, shuffled, stratified

CLASSES = ("wild", "goa-1", "unc-1")


def text_of(series, split):
    return split.join(",".join(str(float(number)) for number in dimension) for dimension in series.T)


def ts(values, labels, classes=CLASSES):
    """A .ts file as the archive has them."""
    head = ["#Worms, and \xb5m", "@problemName EigenWorms", "@timeStamps false", "@missing false", "@univariate false"]
    head += [f"@dimensions {values.shape[2]}", "@equalLength true", f"@seriesLength {values.shape[1]}"]
    head += [f"@classLabel true {' '.join(classes)}", "", "@data"]
    lines = [f"{text_of(one, ':')}:{classes[label]}" for one, label in zip(values, labels, strict=True)]
    return ("\n".join(head + lines) + "\n").encode("latin-1")


def arff(values, labels, classes=CLASSES):
    """An .arff file as the archive has them."""
    head = ["% Worms, and \xb5m", "@relation 'EigenWorms'", "", "@attribute eigenWorms relational"]
    head += [f"@attribute att{n} numeric" for n in range(values.shape[1])]
    head += ["@end eigenWorms", f"@attribute target {{{','.join(classes)}}}", "", "@data"]
    lines = [f"'{text_of(one, chr(92) + 'n')}',{classes[label]}" for one, label in zip(values, labels, strict=True)]
    return ("\r\n".join(head + lines) + "\r\n").encode("latin-1")


WRITERS = {".ts": ts, ".arff": arff}


def worms(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 7, 6)).astype(np.float32), np.arange(count) % 3


def write(place, train, test, kind=".ts", archived=False):
    folder = place / "eigenworms"
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"EigenWorms_{half}{kind}": WRITERS[kind](*q) for half, q in (("TRAIN", train), ("TEST", test))}
    if archived:
        with zipfile.ZipFile(folder / "EigenWorms.zip", "w") as archive:
            for name, content in ({"EigenWorms.txt": b"x"} | files).items():
                archive.writestr(name, content)
        return folder / "EigenWorms.zip"
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / f"EigenWorms_TRAIN{kind}"


def load(place, protocol="strict", heard=None, **settings):
    return EigenWorms(**settings).load(DataFolder(place), protocol, (heard if heard is not None else []).append)


# The formats.


@settings(max_examples=30)
@given(
    arrays(np.float32, array_shapes(min_dims=3, max_dims=3), elements=st.floats(-(2.0**99), 2.0**99, width=32)),
    st.integers(0, 2),
)
def test_both_formats_round_trip(values, label):
    labels = np.full(len(values), label)
    for kind, read in READERS.items():
        series = read(WRITERS[kind](values, labels).splitlines(True), "file")
        np.testing.assert_array_equal(series.values, values)
        assert series.values.dtype == np.float32
        assert series.labels.tolist() == labels.tolist()
        assert series.classes == CLASSES


def test_class_names_may_be_in_quotes_and_keys_in_any_case():
    lines = [b"@RELATION x", b"@Attribute class { 'lying still' , moving }", b"@DATA", b"\"1, 2\\n3 ,4\",'lying still'"]
    series = read_arff(lines, "file")
    assert series.classes == ("lying still", "moving")
    assert series.values.tolist() == [[[1, 3], [2, 4]]]
    assert series.labels.tolist() == [0]


HEAD = [b"@problemName x", b"@classLabel true a b", b"@data"]
GOOD = [*HEAD, b"1,2,3:4,5,6:a", b"7,8,9:10,11,12:b"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*GOOD, b"1,2,3:a"], "line 6: has 1 dimensions, the series before 2"),
        ([*GOOD, b"1,2,3:4,5:a"], "line 6: dimension 2 has 2 numbers, expected 3"),
        ([*GOOD, b"1,2:4,5:a"], "line 6: dimension 1 has 2 numbers, expected 3"),
        ([*HEAD, b"1,2,3:4,5:a"], "line 4: dimension 2 has 2 numbers, expected 3"),
        ([*GOOD, b"1,2,x:4,5,6:a"], "line 6: dimension 1, number 3 is not a finite number ('x')"),
        ([*GOOD, b"1,2,3,:4,5,6:a"], "line 6: dimension 1, number 4 is not a finite number ('')"),
        ([*GOOD, b"1,2,3:4,1e99,6:a"], "line 6: dimension 2, number 2 is not a finite number ('1e99')"),
        ([*GOOD, b"1,2,3:inf,5,6:a"], "line 6: dimension 2, number 1 is not a finite number ('inf')"),
        ([*GOOD, b"1,?,3:4,5,6:a"], "line 6: dimension 1, number 2 is missing (?); all must be there"),
        ([*GOOD, b"1,NaN,3:4,5,6:a"], "line 6: dimension 1, number 2 is missing (NaN); all must be there"),
        ([*GOOD, b"1,1_0,3:4,5,6:a"], "line 6: dimension 1 is not a list of numbers with commas between them"),
        ([*GOOD, b"1,2,3:4,5,6:c"], "line 6: no class 'c'; known: a, b"),
        ([*GOOD, b"1,2,3:4,5,6"], "line 6: no class '4,5,6'; known: a, b"),
        ([*GOOD, b"1,2,3:" + b"4," * 99], f"line 6: no class '{'4,' * 20}…'; known: a, b"),
        ([*HEAD, b"1 2 3:a"], "line 4: dimension 1, number 1 is not a finite number ('1 2 3')"),
        ([*HEAD, b"a"], "line 4: is not a series, a colon after each of its dimensions, and a class"),
        ([*GOOD, b"1,2,3:4,5,\xff:a"], "line 6: byte 0xff is not UTF-8"),
        ([b"@classLabel true \xff", *GOOD], "line 1: byte 0xff is not UTF-8"),
        (
            [b"@problemName x", b"@data", b"1:a"],
            "line 2: @data, but no line before it names the classes, such as @class",
        ),
        ([b"@classLabel false", b"@data"], "line 2: @data, but no line before it names the classes"),
        ([b"PK and so on", *GOOD], "line 1: starts with no @, and @data is still to come"),
        (HEAD[:2], "has no line @data; is it whole?"),
        ([], "has no line @data; is it whole?"),
        (HEAD, "has no series after @data; is it whole?"),
    ],
)
def test_an_invalid_line_is_rejected(lines, message):
    assert read_ts(GOOD, "file").labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match=f"^file: {re.escape(message)}"):
        read_ts(lines, "file")


@pytest.mark.parametrize("line", [b"1,2,a", b"'1,2", b"'1,2'a", b"'1,2' ,a"])
def test_an_arff_line_without_its_quotes_is_rejected(line):
    lines = [b"@attribute target {a,b}", b"@data", b"'1,2',a", line]
    with pytest.raises(ValueError, match=r"^file: line 4: is not a series between quotes, a comma and a class$"):
        read_arff(lines, "file")


# The splits.


def test_a_shuffle_is_that_of_scikit_learn():
    # The example in the documentation of train_test_split.
    kept, cut = shuffled(5, 0.33, seed=42)
    assert kept.tolist() == [2, 0, 3]
    assert cut.tolist() == [1, 4]


def test_the_papers_split_is_of_181_39_and_39():
    parts = published(259)
    assert [len(part) for part in parts] == [181, 39, 39]
    assert sorted(np.concatenate(parts)) == list(range(259))
    # The second shuffle, with the same seed, is of the remainder of the first split.
    order, again = (np.random.RandomState(1234).permutation(n) for n in (259, 78))
    assert parts.test.tolist() == order[:78][again[:39]].tolist()


@settings(max_examples=30)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(0, 4))
def test_strict_parts_are_disjoint_and_have_their_share_of_each_class(sizes, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if not len(labels):
        return
    parts = stratified(labels, seed)
    assert sorted(np.concatenate(parts)) == list(range(len(labels)))
    for part, share in zip(parts, (0.7, 0.15, 0.15), strict=True):
        for label, size in enumerate(sizes):
            assert abs(np.sum(labels[part] == label) - share * size) <= 1


def test_five_splits_differ_and_each_is_always_the_same():
    labels = np.arange(236) % 5
    tests = [tuple(stratified(labels, seed).test) for seed in range(5)]
    assert len(set(tests)) == 5
    assert tests[3] == tuple(stratified(labels, 3).test)


# The task.


def test_the_papers_protocol_does_not_standardize(place):
    train, test = worms(20), worms(19, seed=1)
    write(place, train, test, ".arff")
    problem = load(place, "paper")
    values, labels = (np.concatenate(q) for q in zip(train, test, strict=True))
    splits = Parts(problem.train, problem.valid, problem.test)
    for samples, part in zip(splits, published(39), strict=True):
        np.testing.assert_array_equal(samples.inputs.reshape(-1, 7, 6), values[part])
        np.testing.assert_array_equal(samples.targets, labels[part])
    assert problem.encoder == LinearEncoder(6)
    assert problem.objective.names == CLASSES
    assert problem.head.outputs == 3
    common = np.bincount(problem.train.targets).argmax()
    assert problem.baselines["most frequent class"]["accuracy"] == np.mean(problem.test.targets == common)


def test_strict_drops_duplicates_and_standardizes_by_the_training_data(place):
    train, test = worms(60), worms(40, seed=1)
    test[0][:10] = train[0][5:15]
    test[1][:9] = train[1][5:14]  # and one of the copies is under another class
    write(place, train, test)
    heard: list[str] = []
    problem = load(place, heard=heard)
    assert heard[1:] == ["10 of 100 recordings are exact copies of earlier ones, 1 of them with another label: removed"]
    splits = (problem.train, problem.valid, problem.test)
    assert sum(len(samples) for samples in splits) == 90
    rows = [row.tobytes() for samples in splits for row in samples.inputs.reshape(-1, 7 * 6)]
    assert len(set(rows)) == 90
    assert problem.encoder == LinearEncoder.of(problem.train)
    assert load(place, split=1).test.digest() != problem.test.digest()


def test_archive_and_files_of_both_kinds_give_the_same(place, tmp_path):
    halves = worms(20), worms(19, seed=1)
    digests = set()
    for n, (kind, archived) in enumerate((kind, archived) for kind in READERS for archived in (False, True)):
        write(tmp_path / str(n), *halves, kind, archived)
        digests.add(load(tmp_path / str(n), "paper").test.digest())
    assert len(digests) == 1


def test_parsed_data_are_cached_until_the_file_changes(place):
    heard: list[str] = []
    path = write(place, worms(20), worms(19, seed=1))
    first = load(place, "paper", heard)
    assert load(place, "paper", heard).train.digest() == first.train.digest()
    assert heard == [f"reading {path}, about half a minute …"]
    write(place, worms(20), worms(19, seed=2))
    assert load(place, "paper", heard).train.digest() != first.train.digest()
    assert len(heard) == 2


def test_inconsistent_files_are_rejected(place):
    values, labels = worms(20)
    path = write(place, (values, labels), (values[:, :5], labels))
    with pytest.raises(ValueError, match=f"^{path}: the test recordings are 5×6 of wild, .*training are 7×6"):
        load(place)
    path.with_name("EigenWorms_TEST.ts").unlink()
    with pytest.raises(FileNotFoundError, match=r"EigenWorms_TEST.ts is missing; it must be in the same folder as"):
        load(place)
    write(place, worms(1), worms(1, seed=1))
    with pytest.raises(ValueError, match=f"^{path}: has 2 recordings, too few"):
        load(place)


@pytest.mark.parametrize("archived", [False, True])
def test_an_invalid_number_is_rejected_with_its_file_and_line(place, archived):
    values, labels = worms(20)
    values[4, 2, 3] = np.nan
    path = write(place, worms(20), (values, labels), archived=archived)
    name = f"{path}: EigenWorms_TEST.ts" if archived else f"{path.parent}/EigenWorms_TEST.ts"
    with pytest.raises(ValueError, match=rf"^{name}: line 16: dimension 4, number 3 is missing \(nan\); all must be"):
        load(place)


def test_a_damaged_archive_is_rejected(place):
    path = write(place, worms(20), worms(19, seed=1), archived=True)
    whole = path.read_bytes()
    digit = whole.index(b"0.", 5000)
    for content in (whole[:-30], b"", whole[:digit] + b"1" + whole[digit + 1 :]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{path}: damaged, or not a .zip file .*get it again$"):
            load(place)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", b"")
    with pytest.raises(ValueError, match=f"^{path}: holds no EigenWorms_TRAIN.arff or EigenWorms_TRAIN.ts$"):
        load(place)


def test_invalid_settings_and_a_missing_archive_are_reported(place):
    with pytest.raises(ValueError, match="split=5 must be 0 to 4"):
        EigenWorms(split=5)
    with pytest.raises(FileNotFoundError, match=f"^{FILES[0]} is not in {place} or .*UEA"):
        load(place)
    assert EigenWorms().missing(DataFolder(place)).startswith(FILES[0])
    write(place, worms(20), worms(19, seed=1))
    assert EigenWorms().missing(DataFolder(place)) is None
    with pytest.raises(ValueError, match=r"split=2: the paper's protocol has one split only, 0"):
        load(place, "paper", split=2)


@pytest.mark.parametrize(
    ("model", "layer"),
    [("nrde", {"depth": 2, "window": 3}), ("nrde", {"depth": 3, "window": 3}), ("bilstm-conv", {"kernel": 2})],
)
def test_models_of_long_series_train_on_the_official_files(model, layer, place, tmp_path):
    write(place, worms(30), worms(12, seed=1))
    settings = {"model": {"width": 4, "layer": layer}, "train": {"epochs": 1, "batch_size": 8}}
    trained = Job("eigenworms", model=model, settings=settings).run(tmp_path / "run", DataFolder(place), say=str)
    assert np.isfinite(trained.result["test"]["loss"])
