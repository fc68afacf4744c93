"""Human activity: windows as published, disjoint splits, and invalid lines rejected."""

import lzma
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.data.folder import DataFolder
from s7.tasks.human_activity import ACTIVITIES, CLASSES, FILES, TABLE, TAGS, HumanActivity, Recording, each_step_once
from tests.real_data import real_place

TAG, ACTIVITY = list(TAGS), list(ACTIVITIES)
START = 633790226051280329


def rows(lengths):
    """Lines of recordings with these names and lengths; x is the line number, which identifies a step."""
    lines: list[str] = []
    for recording, (name, length) in enumerate(lengths.items()):
        for step in range(length):
            n = len(lines)
            time = START + 10**9 * recording + 270_296 * step
            date = "27.05.2009 14:03:25:127"
            numbers = f"{float(n)},{n / 7},-0.25"
            lines.append(f"{name},{TAG[n % 3]},{time},{date},{numbers},{ACTIVITY[n * n % 11]}")
    return lines


def write(place, lines, name=FILES[0], ends="\n"):
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(line + ends for line in lines).encode()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(TABLE, content)
    else:
        path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return path


def load(place, protocol="strict", heard=None, **settings):
    return HumanActivity(**settings).load(DataFolder(place), protocol, (heard if heard is not None else []).append)


def steps(samples):
    """The numbers of the lines in each window."""
    return samples.inputs[:, 4].reshape(-1, 32).astype(int)


ONE_PERSON = {"A01": 100, "A02": 70, "A03": 64}
FIVE_PERSONS = {f"{person}0{n}": 40 + 9 * n for person in "ABCDE" for n in (1, 2)}


def test_a_step_has_a_tag_a_position_an_activity_and_a_gap(place):
    lines = rows(ONE_PERSON)
    lines[1] = f"A01,{TAG[3]},{START + 1_351_457},-,4.25,1.5,0.5,standing up from sitting"
    write(place, lines)
    train = load(place).train
    assert train.inputs[:2].tolist() == [[1, 0, 0, 0, 0, 0, -0.25], [0, 0, 0, 1, 4.25, 1.5, 0.5]]
    assert train.inputs.dtype == np.float32
    assert CLASSES[train.targets[0]] == "lying"
    assert CLASSES[train.targets[1]] == "standing up"
    # 100 ns become units of 100 ms; nobody knows the first gap.
    np.testing.assert_array_equal(train.dt[:2], np.float32([5, 1.351457]))


def plain_windows(lines):
    """The recipe of ODE-LSTM, step by step: inputs, labels and gaps of windows, and which are tested."""
    series, before = {}, {}
    for n, line in enumerate(lines):
        name, tag, time, _, x, y, z, activity = line.split(",")
        gap = (int(time) - before[name]) / 1e6 if name in before else 5.0
        before[name] = int(time)
        one_hot = [float(tag == known) for known in TAG]
        series.setdefault(name, []).append(([*one_hot, float(x), float(y), float(z)], ACTIVITIES[activity], gap, n))
    cut = []
    for name in list(series)[:-1]:
        cut += [series[name][start : start + 32] for start in range(0, len(series[name]) - 32, 16)]
    order = np.random.RandomState(98841).permutation(len(cut))
    tested = int(0.2 * len(cut))
    return [cut[n] for n in order[tested:]], [cut[n] for n in order[:tested]]


def test_the_papers_windows_are_those_of_a_plain_loop(place):
    lines = rows(FIVE_PERSONS)
    write(place, lines)
    problem = load(place, "paper")
    for samples, expected in zip((problem.train, problem.test), plain_windows(lines), strict=True):
        inputs, labels, gaps, places = (list(q) for q in zip(*(s for w in expected for s in w), strict=True))
        np.testing.assert_array_equal(samples.inputs, np.float32(inputs))
        np.testing.assert_array_equal(samples.targets, labels)
        np.testing.assert_allclose(samples.dt, gaps, rtol=1e-6)
        np.testing.assert_array_equal(steps(samples).ravel(), places)
    assert problem.valid is problem.test
    last = [n for n, line in enumerate(lines) if line.startswith("E02")]
    assert not np.isin(steps(problem.train), last).any()


def test_strict_splits_by_person_and_counts_each_step_once(place):
    lines = rows(FIVE_PERSONS)
    write(place, lines)
    heard: list[str] = []
    problem = load(place, heard=heard)
    assert heard == ["split by person: A, B, C for training, D for validation, E for testing"]
    persons = np.array([line[0] for line in lines])
    for samples, who in ((problem.train, "ABC"), (problem.valid, "D"), (problem.test, "E")):
        mine = np.flatnonzero(np.isin(persons, list(who)))
        assert set(steps(samples).ravel()) == set(mine)
        # No window goes from one recording into the next.
        assert {len({lines[n][:3] for n in window}) for window in steps(samples)} == {1}
        assert (np.diff(steps(samples)) == 1).all()
        if samples.counts is not None:
            assert sorted(steps(samples).ravel()[samples.counts]) == mine.tolist()
    assert problem.train.counts is None
    assert problem.train.even


def test_each_person_can_be_the_test_set(place):
    write(place, rows(FIVE_PERSONS))
    heard: list[str] = []
    for split in range(5):
        load(place, heard=heard, split=split)
    assert [line[-13] for line in heard] == list("EDCBA")
    assert heard[4] == "split by person: B, C, D for training, E for validation, A for testing"
    with pytest.raises(ValueError, match=r"split=5: .* has 5 persons, so 0 to 4"):
        load(place, split=5)
    with pytest.raises(ValueError, match=r"split=1: the paper's protocol has one split only"):
        load(place, "paper", split=1)
    with pytest.raises(ValueError, match="split=-1 must be at least 0"):
        HumanActivity(split=-1)


def test_recordings_of_one_person_are_split_with_a_message(place):
    lines = rows(ONE_PERSON)
    write(place, lines)
    heard: list[str] = []
    problem = load(place, heard=heard)
    (said,) = heard
    assert "split by recording" in said
    assert "the test person also occurs in training" in said
    assert said.endswith("A01 for training, A02 for validation, A03 for testing")
    assert set(steps(problem.test).ravel()) == set(range(170, 234))
    assert set(steps(problem.valid).ravel()) == set(range(100, 170))
    assert problem.test.counts.all()
    # Here every step is counted, so the baseline is a plain share.
    common = np.bincount(problem.train.targets).argmax()
    assert problem.baselines["most frequent class"]["accuracy"] == np.mean(problem.test.targets == common)


@settings(max_examples=30)
@given(st.lists(st.integers(32, 200), min_size=1, max_size=4))
def test_every_step_counts_exactly_once(lengths):
    begins = np.cumsum([0, *lengths])
    recordings = [
        Recording("A01", np.full((size, 7), 0, np.float32), np.arange(begin, begin + size), np.zeros(size))
        for begin, size in zip(begins, lengths, strict=False)
    ]
    samples = each_step_once(recordings, "test")
    assert sorted(samples.targets[samples.counts]) == list(range(begins[-1]))
    assert len(samples) == sum(-(-size // 32) for size in lengths)


def test_a_decreasing_timestamp_is_clipped_or_rejected(place):
    lines = rows(ONE_PERSON)
    for n in (9, 120):
        name, tag, time, *rest = lines[n].split(",")
        lines[n] = ",".join([name, tag, str(int(time) - 270_296 - 30_000), *rest])
    path = write(place, lines)
    heard: list[str] = []
    problem = load(place, heard=heard)
    assert f"{path}: the timestamp goes back in 2 of 234 lines (10, 121): the gap is set to 0" in heard
    assert problem.train.dt[9] == 0
    assert problem.train.dt.min() == 0
    with pytest.raises(ValueError, match=f"^{path}: line 10: the timestamp goes back by 3.0 ms; backwards=.clip"):
        load(place, backwards="refuse")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_table_is_read_from_text_and_zip_files(place, name, ends, tmp_path):
    lines = rows(ONE_PERSON)
    write(place, lines, name, ends)
    write(tmp_path / "other", lines)
    assert load(place).train.digest() == load(tmp_path / "other").train.digest()


def changed(column, value):
    def change(line):
        fields = line.split(",")
        fields[column] = value
        return ",".join(fields)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line + ",more", "has 9 columns, expected 8"),
        (lambda line: "", "has 1 columns, expected 8"),
        (lambda line: line[:20], "has 3 columns, expected 8"),
        (changed(0, "12"), "recording '12' is not a person's letter and a number, such as A01"),
        (changed(1, "010-000-024-034"), "no tag '010-000-024-034'; did you mean '010-000-024-033'?"),
        (changed(2, "soon"), "timestamp 'soon' is not a whole number"),
        (changed(2, "9" * 25), f"timestamp '{'9' * 25}' is not a whole number"),
        (changed(4, "4,5"), "has 9 columns"),
        (changed(4, ""), "x '' is not a finite number"),
        (changed(5, "nan"), "y 'nan' is not a finite number"),
        (changed(6, "1e99"), "z '1e99' is not a finite number"),
        (changed(7, "flying"), "no activity 'flying'; did you mean 'lying'?"),
    ],
)
def test_an_invalid_line_is_rejected(place, change, message):
    lines = rows(ONE_PERSON)
    lines[57] = change(lines[57])
    path = write(place, lines)
    with pytest.raises(ValueError, match=f"^{path}: line 58: {re.escape(message)}"):
        load(place)


def test_a_byte_that_is_not_utf_8_is_rejected(place):
    path = write(place, rows(ONE_PERSON))
    path.write_bytes(path.read_bytes().replace(b"A03", b"A\xff3", 1))
    with pytest.raises(ValueError, match=f"^{path}: line 171: byte 0xff is not UTF-8$"):
        load(place)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_damaged_file_is_rejected(place, name):
    path = write(place, rows(ONE_PERSON), name)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"data/har/.*: truncated or damaged \.(xz|zip) file .*download it again$"):
        load(place)


def test_a_zip_file_of_something_else_is_rejected(place):
    path = write(place, [], FILES[1])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", b"")
    with pytest.raises(ValueError, match=f"^{path}: contains no {TABLE}$"):
        load(place)


def test_too_little_to_split_is_rejected(place):
    path = write(place, rows({"A01": 100, "B01": 100}))
    with pytest.raises(ValueError, match=f"^{path}: has 2 recordings, at least 3 are needed"):
        load(place)
    write(place, rows({"A01": 100, "A02": 7, "A03": 64}))
    with pytest.raises(ValueError, match=f"^{path}: recording A02 has 7 steps, fewer than a window of 32; remove it"):
        load(place)
    for lengths in ({"A01": 200}, {"A01": 32, "A02": 200}):
        write(place, rows(lengths))
        with pytest.raises(ValueError, match=f"^{path}: 0 windows of 32 steps without the last recording"):
            load(place, "paper")


def test_a_missing_table_is_reported_with_instructions(place):
    folder = DataFolder(place)
    with pytest.raises(FileNotFoundError, match=rf"^har/{TABLE} is not in {place} or .*UCI repository"):
        load(place)
    assert HumanActivity().missing(folder).startswith(f"har/{TABLE} is not in")
    write(place, rows(ONE_PERSON))
    assert HumanActivity().missing(folder) is None


def test_the_tenth_of_the_real_table_is_read():
    place = real_place(FILES[-1])
    heard: list[str] = []
    strict, paper = (load(place, protocol, heard) for protocol in ("strict", "paper"))
    assert "goes back in 2 of 16,486 lines (1603, 15106)" in heard[0]
    assert [len(q) for q in (strict.train, strict.valid, strict.test)] == [364, 178, 156]
    assert [int(q.counts.sum()) for q in (strict.valid, strict.test)] == [5691, 4965]
    assert [len(q) for q in (paper.train, paper.test)] == [574, 143]
    assert set(np.unique(strict.train.targets)) == set(range(7))
    assert 0.2 < np.median(strict.train.dt) < 0.3
    # The reason for two protocols: the fraction of test steps that are also in the training data.
    shares = []
    for problem in (paper, strict):
        learnt = {row.tobytes() for row in problem.train.inputs}
        shares.append(np.mean([row.tobytes() in learnt for row in problem.test.inputs]))
    assert shares == [pytest.approx(0.8, abs=0.03), 0]
