"""Event tasks: official files are read, split by protocol, and rejected if invalid."""

import gzip

import numpy as np
import pytest

from s7.data.folder import DataFolder
from s7.encoders import EventEncoder, TokenEncoder
from s7.events.augmentation import EventAugmentation, EventAugmenter
from s7.heads import Mean, TimeMean
from s7.settings import build, table_of
from s7.tasks import dvs_gesture, nmnist
from s7.tasks.dvs_gesture import DvsGesture
from s7.tasks.nmnist import NMnist
from s7.tasks.shd import Shd
from s7.tasks.ssc import Ssc
from tests.events.writers import aedat_bytes, bin_bytes, needs_h5py, some_events, write_spikes
from tests.listening import silent
from tests.real_data import real_file

TASKS = (NMnist, DvsGesture, Shd, Ssc)


@pytest.fixture
def folder(cache, tmp_path):
    """A data folder, and no other to search."""
    return DataFolder(tmp_path)


def lengths(problem):
    return [len(q) for q in (problem.train, problem.valid, problem.test)]


# All of them.


@pytest.mark.parametrize("kind", TASKS)
def test_missing_data_are_reported_with_instructions(kind, folder):
    missing = kind().missing(folder)
    assert missing.startswith(f"{kind.name.replace('-', '_')}/")
    assert f" is not in {folder.given} or " in missing
    assert f"; s7 data fetch {kind.name}, or " in missing
    with pytest.raises(FileNotFoundError) as error:
        kind().load(folder, "strict", silent)
    assert str(error.value) == missing


@pytest.mark.parametrize("kind", TASKS)
def test_augmentation_is_a_setting(kind):
    task = build(kind, {"augment": {"drop": 0.1, "noise": 3}, "repair": True}, "data")
    assert task.augment == EventAugmentation(drop=0.1, noise=3)
    assert build(kind, table_of(task), "data") == task
    assert kind().augment == EventAugmentation()


# N-MNIST.


def write_nmnist(place, train=30, test=4):
    """The official folders, with the digit n mod 10 in file n."""
    for split, count in (("Train", train), ("Test", test)):
        for n in range(count):
            path = place / "nmnist" / split / str(n % 10) / f"{n + 1:05d}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bin_bytes(*some_events(10 + n, 34, n)))


def write_small(place, **changes):
    """The same as arrays."""
    events = [some_events(10 + n, 34, n) for n in (*range(30), *range(4))]
    arrays = {name: np.concatenate(q) for name, q in zip("xypt", zip(*events, strict=True), strict=True)}
    arrays["offsets"] = np.concatenate([[0], np.cumsum([len(q[0]) for q in events])])
    arrays["label"] = np.array([n % 10 for n in (*range(30), *range(4))], np.uint8)
    arrays["is_test"] = np.arange(34) >= 30
    path = place / nmnist.SMALL
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=False, **(arrays | changes))
    return path


def test_a_tenth_of_the_training_digits_is_for_validation(folder, tmp_path):
    write_nmnist(tmp_path)
    heard = []
    problem = NMnist(augment=EventAugmentation(crop=5)).load(folder, "strict", heard.append)
    assert heard == ["reading 34 recordings of N-MNIST …"]
    assert lengths(problem) == [27, 3, 4]
    # The length identifies a recording; each is in exactly one split.
    assert sorted([*problem.train.lengths, *problem.valid.lengths]) == list(range(10, 40))
    assert problem.test.lengths.tolist() == [10, 11, 12, 13]
    for samples in (problem.train, problem.valid, problem.test):
        np.testing.assert_array_equal(samples.targets, (samples.lengths - 10) % 10)
    assert problem.encoder == EventEncoder((34, 34))
    assert problem.head == Mean(10)
    assert problem.objective.names == tuple("0123456789")
    assert problem.augmentation == EventAugmenter(EventAugmentation(crop=5), NMnist.sensor, 10)


def test_tokens_and_gaps_of_digits_are_those_of_the_events(folder, tmp_path):
    write_nmnist(tmp_path)
    test = NMnist().load(folder, "strict", silent).test
    x, y, p, t = some_events(12, 34, 2)
    here = slice(*test.offsets[2:4])
    np.testing.assert_array_equal(test.inputs[here], 2 * (34 * x + y) + p)
    np.testing.assert_allclose(test.dt[here], np.diff(t, prepend=t[0]) / 1000, rtol=1e-6)


def test_folders_and_arrays_of_the_same_digits_are_the_same(folder, tmp_path):
    heard = []
    write_small(tmp_path)
    small = NMnist().load(folder, "strict", heard.append)
    assert heard[0].endswith("the first 30 training and 4 test recordings of N-MNIST only")
    write_nmnist(tmp_path)  # all of it is preferred
    full = NMnist().load(folder, "strict", heard.append)
    assert heard[1].startswith("reading 34")
    for split in ("train", "valid", "test"):
        assert getattr(small, split).digest() == getattr(full, split).digest()


def test_the_first_recordings_alone_can_be_used(folder, tmp_path):
    write_nmnist(tmp_path)
    problem = NMnist(recordings=10).load(folder, "strict", silent)
    assert lengths(problem) == [9, 1, 4]
    assert sorted([*problem.train.targets, *problem.valid.targets]) == list(range(10))
    with pytest.raises(ValueError, match=r"Train: has 30 training recordings, 31 are needed"):
        NMnist(recordings=31).load(folder, "strict", silent)
    with pytest.raises(ValueError, match=r"recordings=-1 must be 0 \(all\) or at least 2"):
        NMnist(recordings=-1)


def test_another_part_of_the_digits_can_be_for_validation(folder, tmp_path):
    write_nmnist(tmp_path)
    assert lengths(NMnist(validation=0.3).load(folder, "strict", silent)) == [21, 9, 4]
    assert lengths(NMnist(recordings=2, validation=0.3).load(folder, "strict", silent)) == [1, 1, 4]
    for wrong in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match=rf"validation={wrong:g} must be a fraction between 0 and 1, such as 0\.1"):
            NMnist(validation=wrong)


def test_an_empty_digit_is_an_error_or_left_out(folder, tmp_path):
    write_nmnist(tmp_path)
    bad = tmp_path / "nmnist" / "Test" / "3" / "00099.bin"
    bad.write_bytes(b"")
    with pytest.raises(ValueError, match=rf"^test: {bad} is empty; leave it out, as tasks with repair=True do$"):
        NMnist().load(folder, "strict", silent)
    bad.write_bytes(bin_bytes(*(np.array(q) for q in ([1, 2], [3, 4], [0, 1], [9, 8]))))
    with pytest.raises(ValueError, match=rf"^test: {bad}: time goes back at event 1, from 0.009 to 0.008 ms"):
        NMnist().load(folder, "strict", silent)
    bad.with_name("00100.bin").write_bytes(b"")
    heard = []
    problem = NMnist(repair=True).load(folder, "strict", heard.append)
    assert lengths(problem) == [27, 3, 5]
    assert problem.test.inputs[-2:].tolist() == [2 * (34 * 2 + 4) + 1, 2 * (34 + 3)]
    assert heard[1:] == ["test: dropped 1 empty recordings and sorted 1 events that go back in time"]


def test_digits_without_a_test_set_are_missing(folder, tmp_path):
    write_nmnist(tmp_path, test=0)
    assert NMnist().missing(folder).startswith("nmnist/Test is not in ")
    with pytest.raises(FileNotFoundError, match="nmnist/Test is not in"):
        NMnist().load(folder, "strict", silent)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_test": np.zeros(3, bool)}, "is_test must hold one bool"),
        ({"label": np.full(34, 10)}, None),
        ({"offsets": np.arange(35)}, "offsets must rise from 0 to the number of events"),
    ],
)
def test_invalid_arrays_of_digits_are_rejected(changes, message, folder, tmp_path):
    path = write_small(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"^{path}: {message}" if message else "^train: label of .* outside of 0 to 9"):
        NMnist().load(folder, "strict", silent)


def test_the_real_digits_are_read():
    path = real_file(nmnist.SMALL)
    problem = NMnist().load(DataFolder(path.parents[1]), "strict", silent)
    assert lengths(problem) == [900, 100, 100]
    assert sum(len(q.inputs) for q in (problem.train, problem.valid, problem.test)) == 4_518_827
    assert problem.baselines == {"most frequent class": {"accuracy": 0.15}}
    assert problem.train.inputs.dtype == np.uint16
    # A recording takes three saccades of 0.1 s.
    assert 250 < problem.train.dt.sum() / 900 < 330


# DVS-Gesture.

TRIALS = {"train": [f"user0{n}_{light}" for n in range(1, 6) for light in ("led", "lab")], "test": ["user09_natural"]}
# Two gestures a trial, the second of which another one overlaps.
GESTURES = [(1, 1000, 3000), (11, 4000, 6001), (4, 6000, 7000)]


def write_trials(place, times=None):
    """The official folder; an event every 0.1 ms, and all trials alike but for where their events are."""
    root = place / dvs_gesture.FOLDER
    root.mkdir(parents=True, exist_ok=True)
    table = [dvs_gesture.HEADING, *(",".join(map(str, gesture)) for gesture in GESTURES)]
    for split, names in TRIALS.items():
        lines = "".join(f"{name}.aedat\n" for name in names)
        (root / f"trials_to_{split}.txt").write_text(f"{lines}\n")
        for name in names:
            t = np.arange(0, 10_000, 100) if times is None else times
            x = np.full(len(t), int(name[4:6]))
            (root / f"{name}.aedat").write_bytes(aedat_bytes(x, x, x % 2, t, 30))
            (root / f"{name}_labels.csv").write_text("\r\n".join(table) + "\r\n")
    return root


def people(samples):
    """Whose events there are."""
    return set((samples.inputs // 2 % 128).tolist())


def test_gestures_are_cut_at_their_times_and_split_by_person(folder, tmp_path):
    write_trials(tmp_path)
    assert DvsGesture().missing(folder) is None
    problem = DvsGesture().load(folder, "strict", silent)
    assert lengths(problem) == [12, 18, 3]
    assert (people(problem.train), people(problem.valid), people(problem.test)) == ({1, 2}, {3, 4, 5}, {9})
    assert problem.test.targets.tolist() == [0, 10, 3]
    # From the start on, to the end but without it: 6,000 is in two gestures, 7,000 in none.
    assert problem.test.lengths.tolist() == [20, 21, 10]
    assert problem.test.inputs[0] == 2 * (128 * 9 + 9) + 1
    assert problem.test.dt[:3].tolist() == pytest.approx([0, 0.1, 0.1])
    assert problem.encoder == EventEncoder((128, 128))
    assert problem.head == TimeMean(11)
    assert problem.objective.names[0] == "hand clapping"
    assert problem.augmentation is None
    assert len(problem.objective.names) == 11


def test_the_papers_protocol_trains_on_all_people_and_selects_on_the_test_set(folder, tmp_path):
    write_trials(tmp_path)
    problem = DvsGesture().load(folder, "paper", silent)
    assert people(problem.train) == {1, 2, 3, 4, 5}
    assert problem.valid.digest() == problem.test.digest()
    assert people(problem.test) == {9}


def test_a_list_with_a_missing_trial_is_rejected(folder, tmp_path):
    root = write_trials(tmp_path)
    (root / "user02_lab.aedat").unlink()
    message = (
        rf"^{root}/trials_to_train\.txt: line 4 names user02_lab\.aedat, but {root}/user02_lab\.aedat does not exist$"
    )
    with pytest.raises(FileNotFoundError, match=message):
        DvsGesture().load(folder, "strict", silent)
    write_trials(tmp_path)
    (root / "user09_natural_labels.csv").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"trials_to_test\.txt: line 1 names .*, but .*_labels\.csv does not exist"
    ):
        DvsGesture().load(folder, "strict", silent)
    (root / "trials_to_test.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"trials_to_test\.txt: names no trials$"):
        DvsGesture().load(folder, "strict", silent)
    (root / "trials_to_test.txt").unlink()
    assert DvsGesture().missing(folder).startswith("dvs_gesture/DvsGesture/trials_to_test.txt is not in")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x,3000", "line 3 is '1,x,3000', expected whole numbers: class,startTime_usec,endTime_usec"),
        ("1,2000", "line 3 is '1,2000', expected whole numbers"),
        ("0,1000,2000", "line 3 has the class 0, outside 1 to 11"),
        ("12,1000,2000", "line 3 has the class 12, outside 1 to 11"),
        ("2,2000,2000", "line 3 ends at 2000, not after its start at 2000"),
    ],
)
def test_an_invalid_table_of_gestures_is_rejected(line, message, tmp_path):
    path = tmp_path / "user01_led_labels.csv"
    path.write_text(f"{dvs_gesture.HEADING}\n1,1000,3000\n{line}\n")
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        dvs_gesture.read_gestures(path)
    path.write_text(f"{dvs_gesture.HEADING}\n")
    with pytest.raises(ValueError, match=f"^{path}: lists no gestures"):
        dvs_gesture.read_gestures(path)


def test_a_table_may_have_no_heading(tmp_path):
    path = tmp_path / "user01_led_labels.csv"
    path.write_text("3,1000,2000\n\n11,2000,3000\n")
    assert dvs_gesture.read_gestures(path) == [(2, 1000, 2000, 1), (10, 2000, 3000, 3)]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.array([1500, 4500]), "line 4 of user01_led_labels.csv is empty"),
        (
            np.array([1500, 4500, 4400, 6500]),
            r"line 3 of user01_led_labels.csv: time goes back at event 1, from 4.5 to",
        ),
    ],
    ids=["empty", "back"],
)
def test_an_invalid_gesture_is_rejected(times, message, folder, tmp_path):
    root = write_trials(tmp_path, times)
    with pytest.raises(ValueError, match=rf"^train: {root}/user01_led\.aedat, {message}"):
        DvsGesture().load(folder, "strict", silent)
    assert sum(lengths(DvsGesture(repair=True).load(folder, "strict", silent))) in (22, 33)


def test_an_event_outside_of_the_camera_is_rejected(folder, tmp_path):
    root = write_trials(tmp_path)
    columns = (np.array(q) for q in ([1, 200, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1500, 1600, 4500, 6500]))
    (root / "user01_lab.aedat").write_bytes(aedat_bytes(*columns))
    message = rf"^train: {root}/user01_lab\.aedat, line 2 .*: event 1 has x=200, outside of 0 to 127$"
    with pytest.raises(ValueError, match=message):
        DvsGesture().load(folder, "strict", silent)


def test_a_truncated_trial_is_rejected(folder, tmp_path):
    path = write_trials(tmp_path) / "user01_led.aedat"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=rf"^{path}: byte \d+: cut off inside of packet 3; get it again$"):
        DvsGesture().load(folder, "strict", silent)


def test_too_few_people_are_rejected(folder, tmp_path):
    path = write_trials(tmp_path) / "trials_to_train.txt"
    path.write_text("user01_led.aedat\nuser01_lab.aedat\nuser02_led.aedat\n")
    with pytest.raises(ValueError, match=f"^{path}: names trials of 2 people, at least 4 are needed"):
        DvsGesture().load(folder, "strict", silent)
    assert lengths(DvsGesture().load(folder, "paper", silent)) == [9, 3, 3]


def test_ten_recordings_give_a_warning():
    path = real_file(dvs_gesture.SAMPLE)
    heard = []
    problem = DvsGesture().load(DataFolder(path.parents[1]), "strict", heard.append)
    assert heard == [f"{path}: trains, validates and tests on the same 10 recordings; not a result"]
    assert lengths(problem) == [10, 10, 10]
    assert problem.train.digest() == problem.valid.digest() == problem.test.digest()
    assert len(problem.train.inputs) == 1_206_710
    assert all("not a result" in text for text in DvsGesture.protocols.values())


# SHD and SSC.


def write_words(place, task, split, count, first=0, **changes):
    """A file in which recording n has n + first + 1 spikes, of the class and speaker n mod 5."""
    rng = np.random.default_rng(count)
    sizes = [n + first + 1 for n in range(count)]
    contents = {
        "times": [np.sort(rng.uniform(0, 1.4, size)) for size in sizes],
        "units": [rng.integers(0, 700, size) for size in sizes],
        "labels": np.arange(count) % 5,
        "speakers": np.arange(count) % 5 * 2,
        "names": [f"word {n}" for n in range(20)],
    }
    path = place / task / f"{task}_{split}.h5"
    write_spikes(path, **(contents | changes))
    return path


@needs_h5py
def test_the_last_two_speakers_are_for_validation(folder, tmp_path):
    write_words(tmp_path, "shd", "train", 20)
    write_words(tmp_path, "shd", "test", 5, first=20)
    assert Shd().missing(folder) is None
    problem = Shd().load(folder, "strict", silent)
    assert lengths(problem) == [12, 8, 5]
    assert set((problem.valid.lengths - 1) % 5) == {3, 4}
    assert set((problem.train.lengths - 1) % 5) == {0, 1, 2}
    np.testing.assert_array_equal(problem.train.targets, (problem.train.lengths - 1) % 5)
    assert problem.encoder == TokenEncoder(700)
    assert problem.head == Mean(20)
    assert problem.objective.names[3] == "word 3"
    assert problem.encoder.size == 700
    assert problem.baselines == {"most frequent class": {"accuracy": 0.2}}


@needs_h5py
def test_the_papers_protocol_of_shd_selects_on_the_test_set(folder, tmp_path):
    write_words(tmp_path, "shd", "train", 20, speakers=None)
    write_words(tmp_path, "shd", "test", 5)
    problem = Shd().load(folder, "paper", silent)
    assert lengths(problem) == [20, 5, 5]
    assert problem.valid.digest() == problem.test.digest()
    with pytest.raises(ValueError, match=r"shd_train\.h5: has no array extra/speaker; it has .*labels"):
        Shd().load(folder, "strict", silent)


@needs_h5py
def test_too_few_speakers_are_rejected(folder, tmp_path):
    path = write_words(tmp_path, "shd", "train", 4, speakers=[1, 1, 2, 2])
    write_words(tmp_path, "shd", "test", 5)
    with pytest.raises(ValueError, match=f"^{path}: extra/speaker names 2 speakers, at least 3 are needed$"):
        Shd().load(folder, "strict", silent)


@needs_h5py
def test_ssc_has_its_own_validation_file(folder, tmp_path):
    for split, count in (("train", 10), ("valid", 4), ("test", 6)):
        path = write_words(tmp_path, "ssc", split, count, first=count, speakers=None)
    path.with_name("ssc_test.h5.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert Ssc().missing(folder) is None
    strict, paper = (Ssc().load(folder, protocol, silent) for protocol in ("strict", "paper"))
    assert lengths(strict) == lengths(paper) == [10, 4, 6]
    assert strict.valid.digest() == paper.valid.digest()
    assert strict.head == Mean(35)
    assert strict.objective.names == ()  # twenty names do not fit 35 classes
    (tmp_path / "ssc" / "ssc_valid.h5").unlink()
    assert Ssc().missing(folder).startswith("ssc/ssc_valid.h5 is not in")


@needs_h5py
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": [[1, 2], [3, 700]]}, "recording 1: event 1 has x=700, outside of 0 to 699"),
        ({"times": [[0.5, 0.25], [1, 1]]}, "recording 0: time goes back at event 1, from 500 to 250 ms"),
        ({"times": [[0.5, 0.75], []], "units": [[1, 2], []]}, "recording 1 is empty"),
        ({"labels": [1, 20]}, None),
    ],
    ids=["outside", "back", "empty", "label"],
)
def test_invalid_files_of_spoken_words_are_rejected(changes, message, folder, tmp_path):
    write_words(tmp_path, "shd", "train", 10)
    two = {"times": [[0.5, 0.75], [1, 1]], "units": [[1, 2], [3, 4]], "labels": [0, 1], "speakers": [0, 1]}
    path = write_words(tmp_path, "shd", "test", 2, **(two | changes))
    wanted = f"^test: {path}: {message}" if message else r"^test: label of sequence 1 is outside of 0 to 19 \(20\)"
    with pytest.raises(ValueError, match=wanted):
        Shd().load(folder, "paper", silent)
