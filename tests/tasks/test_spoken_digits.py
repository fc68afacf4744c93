"""Spoken digits: the published split, held-out speakers, and equal recordings from every file format."""

import io
import re
import tarfile
import wave

import numpy as np
import pytest

from s7.data.folder import DataFolder
from s7.events.augmentation import EventAugmentation
from s7.events.sound_variation import SoundVariation
from s7.events.spikes import SpikeEncoder
from s7.settings import build, table_of
from s7.tasks import spoken_digits
from s7.tasks.spoken_digits import FILES, SpokenDigits, read_spoken, split
from tests.listening import silent
from tests.real_data import real_file

SPEAKERS = ("ann", "bob", "cy")
INDICES = (0, 4, 5, 9, 10, 49)
ENCODER = SpikeEncoder(channels=20)


def some_digits():
    """Two digits by three speakers, by name: each another noise of another length."""
    rng = np.random.default_rng(0)
    names = [f"{digit}_{speaker}_{index}" for digit in (3, 7) for speaker in SPEAKERS for index in INDICES]
    return {name: rng.normal(0, 3000, int(rng.integers(800, 1600))).astype(np.int16) for name in names}


def as_wave(audio, rate=8000, channels=1, width=2):
    """The bytes of a WAV file."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(audio.astype("<i2").tobytes())
    return stream.getvalue()


def write_folder(place, digits):
    """The recordings, one file each."""
    folder = place / FILES[2]
    folder.mkdir(parents=True)
    for name, audio in digits.items():
        (folder / f"{name}.wav").write_bytes(as_wave(audio))
    return folder


def write_archive(place, digits):
    """The published archive, with its other files."""
    path = place / FILES[1]
    path.parent.mkdir(parents=True)
    top = "free-spoken-digit-dataset-1.0.10"
    members = {f"{top}/README.md": b"digits", f"{top}/recordings/._x.wav": b"", f"{top}/utils/beep.wav": b"no sound"}
    members |= {f"{top}/recordings/{name}.wav": as_wave(audio) for name, audio in digits.items()}
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


def arrays_of(digits):
    """The recordings end to end."""
    about = [name.split("_") for name in digits]
    return {
        "audio": np.concatenate(list(digits.values())),
        "offsets": np.cumsum([0, *map(len, digits.values())]),
        "label": np.array([q[0] for q in about]).astype(np.uint8),
        "speaker": np.array([q[1] for q in about]),
        "index": np.array([q[2] for q in about]).astype(np.uint8),
    }


def write_arrays(place, digits, **changed):
    """The .npz file, with some of its arrays changed."""
    path = place / FILES[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays_of(digits) | changed))
    return path


WRITERS = (write_folder, write_archive, write_arrays)


def load(place, **settings):
    """The task on data in a place, with few channels."""
    return SpokenDigits(spikes=ENCODER, **settings).load(DataFolder(place), "strict", silent)


@pytest.mark.parametrize("write", WRITERS)
def test_every_kind_of_file_gives_the_same_recordings(write, tmp_path):
    digits = some_digits()
    spoken = read_spoken(write(tmp_path, dict(reversed(digits.items()))))
    assert spoken.names == [f"{name}.wav" for name in digits]
    for n, audio in enumerate(digits.values()):
        assert np.array_equal(spoken.audio[spoken.offsets[n] : spoken.offsets[n + 1]], audio)
    assert spoken.label.tolist() == [3] * 18 + [7] * 18
    assert spoken.digest() == read_spoken(write_arrays(tmp_path / "other", digits)).digest()


def test_the_published_split_has_all_speakers_in_all_splits(tmp_path):
    spoken = read_spoken(write_arrays(tmp_path, some_digits()))
    parts = split(spoken, "")
    assert {name: set(spoken.take[q].tolist()) for name, q in parts.items()} == {
        "test": {0, 4},
        "valid": {5, 9},
        "train": {10, 49},
    }
    assert all(set(spoken.speaker[q].tolist()) == set(SPEAKERS) for q in parts.values())


@pytest.mark.parametrize(("speaker", "valid", "train"), [("ann", "bob", "cy"), ("cy", "ann", "bob")])
def test_a_held_out_speaker_is_only_in_the_test_set(tmp_path, speaker, valid, train):
    spoken = read_spoken(write_arrays(tmp_path, some_digits()))
    parts = split(spoken, speaker)
    assert {name: set(spoken.speaker[q].tolist()) for name, q in parts.items()} == {
        "test": {speaker},
        "valid": {valid},
        "train": {train},
    }
    assert sum(parts.values()).tolist() == [1] * len(spoken.label)


def test_recordings_of_the_training_speakers_can_be_for_validation(tmp_path):
    spoken = read_spoken(write_arrays(tmp_path, some_digits()))
    parts = split(spoken, "bob", "recordings")
    assert set(spoken.speaker[parts["test"]].tolist()) == {"bob"}
    for name, takes in (("valid", {0, 4}), ("train", {5, 9, 10, 49})):
        assert set(spoken.speaker[parts[name]].tolist()) == {"ann", "cy"}
        assert set(spoken.take[parts[name]].tolist()) == takes
    assert sum(parts.values()).tolist() == [1] * len(spoken.label)


@pytest.mark.parametrize(("validate", "message"), [("speakers", "did you mean 'speaker'"), ("recordings", "speaker")])
def test_an_impossible_validation_is_rejected(validate, message):
    with pytest.raises(ValueError, match=rf"^data\.validate.*{message}"):
        SpokenDigits(validate=validate)


def test_variants_are_added_to_the_training_recordings(tmp_path, cache):
    write_arrays(tmp_path, some_digits())
    plain, varied = load(tmp_path), load(tmp_path, vary=SoundVariation(copies=2, speed=1.2, tilt=3, ripple=3))
    assert len(varied.train) == 3 * len(plain.train)
    assert varied.train.targets.tolist() == 3 * plain.train.targets.tolist()
    first, second = (np.diff(varied.train.offsets)[12 * n : 12 * (n + 1)] for n in (1, 2))
    assert (first != second).any()
    assert (first != np.diff(plain.train.offsets)).any()
    for name in ("valid", "test"):
        assert np.array_equal(getattr(varied, name).inputs, getattr(plain, name).inputs)


def test_an_unknown_speaker_meets_the_nearest(tmp_path):
    spoken = read_spoken(write_arrays(tmp_path, some_digits()))
    with pytest.raises(ValueError, match=r"^data\.speaker: no speaker 'anne'; did you mean 'ann'\?$"):
        split(spoken, "anne")


def test_the_task_reads_the_spikes_of_each_recording(tmp_path, cache):
    digits = some_digits()
    write_arrays(tmp_path, digits)
    problem = load(tmp_path)
    assert [(q.name, len(q)) for q in (problem.train, problem.valid, problem.test)] == [
        ("train", 12),
        ("valid", 12),
        ("test", 12),
    ]
    expected = [name for name in digits if name.endswith(("_5", "_9"))]
    for n, name in enumerate(expected):
        spikes = ENCODER(digits[name], 8000)
        at = slice(problem.valid.offsets[n], problem.valid.offsets[n + 1])
        assert np.array_equal(problem.valid.inputs[at], spikes.x)
        np.testing.assert_allclose(problem.valid.dt[at], np.diff(spikes.t, prepend=spikes.t[0]), atol=1e-4)
        assert problem.valid.targets[n] == int(name[0])
    assert problem.encoder.size == 20
    assert problem.head.outputs == problem.objective.outputs == 10
    assert problem.objective.names[7] == "seven"
    assert problem.baselines["most frequent class"]["accuracy"] == 0.5
    for part in (problem.train, problem.valid, problem.test):
        problem.objective.check(part)


def test_spikes_are_cached_by_settings_and_audio(tmp_path, cache):
    digits = some_digits()
    write_arrays(tmp_path, digits)
    heard = []

    def count(**settings):
        SpokenDigits(**({"spikes": ENCODER} | settings)).load(DataFolder(tmp_path), "strict", heard.append)
        return len(heard)

    assert count() == 1
    assert heard == ["converting 36 recordings to spikes, about 15 s …"]
    assert count() == 1
    assert count(speaker="bob") == 1
    assert count(spikes=SpikeEncoder(channels=21)) == 2
    digits["3_ann_0"][5] += 1
    write_arrays(tmp_path, digits)
    assert count() == 3


def test_augmentation_varies_training_recordings(tmp_path, cache):
    write_arrays(tmp_path, some_digits())
    problem = load(tmp_path, augment=EventAugmentation(drop=0.5))
    chosen = np.arange(3)
    varied = problem.augmentation(problem.train, chosen, seed=0, epoch=0)
    assert len(varied.inputs) < len(problem.train.take(chosen).inputs)
    assert varied.inputs.max() < 20


def test_settings_round_trip_through_a_table():
    task = SpokenDigits(spikes=ENCODER, speaker="theo", augment=EventAugmentation(roll=3))
    assert build(SpokenDigits, table_of(task), "data") == task


# Files that are not right.


def refused(path, message):
    """Reading fails with this one-line message."""
    with pytest.raises(ValueError, match=message) as error:
        read_spoken(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"rate": 16000}, "16,000 Hz, 1 channels, 16 bits; expected 8,000 Hz, 1 channel, 16 bits"),
        ({"channels": 2}, "8,000 Hz, 2 channels, 16 bits; expected"),
        ({"width": 1}, "8,000 Hz, 1 channels, 8 bits; expected"),
    ],
)
def test_audio_of_another_format_is_rejected(tmp_path, form, message):
    folder = write_folder(tmp_path, some_digits())
    (folder / "5_bob_2.wav").write_bytes(as_wave(np.zeros(800, np.int16), **form))
    refused(folder, f"^{folder}/5_bob_2.wav: {message}")


@pytest.mark.parametrize("size", [0, 3, 20, 60, 1001])
def test_truncated_audio_is_rejected(tmp_path, size):
    folder = write_folder(tmp_path, some_digits())
    (folder / "5_bob_2.wav").write_bytes(as_wave(np.zeros(800, np.int16))[:size])
    refused(folder, f"^{folder}/5_bob_2.wav: (not a WAV file|ends after)")


def test_an_invalid_file_name_is_rejected(tmp_path):
    folder = write_folder(tmp_path, some_digits())
    (folder / "five_bob.wav").write_bytes(as_wave(np.zeros(800, np.int16)))
    refused(folder, f"^{folder}/five_bob.wav: expected a name such as 7_jackson_32.wav")


def test_an_empty_folder_is_rejected(tmp_path):
    refused(write_folder(tmp_path, {}), r"recordings: no recordings/\{digit\}_\{speaker\}_\{index\}\.wav in it")


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.99])
def test_a_truncated_archive_is_rejected(tmp_path, part):
    path = write_archive(tmp_path, some_digits())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    refused(path, rf"^{path}: damaged, or not a \.tar\.gz archive")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"audio": np.zeros(5)}, "audio must be int16"),
        ({"label": np.zeros(3, int)}, "expected one label, speaker and index for each recording"),
        ({"label": np.full(36, 12)}, "recording 0 has label 12, outside of 0 to 9"),
        ({"speaker": np.zeros(36, int)}, "names for speaker"),
        ({"offsets": np.zeros(37, int)}, "offsets must rise from 0 to the number of samples"),
    ],
)
def test_arrays_that_do_not_fit_are_rejected(tmp_path, changed, message):
    path = write_arrays(tmp_path, some_digits(), **changed)
    refused(path, f"^{path}: .*{message}")


def test_a_silent_recording_is_rejected(tmp_path, cache):
    digits = some_digits()
    digits["7_cy_9"][:] = 0
    path = write_arrays(tmp_path, digits)
    with pytest.raises(ValueError, match=f"^{path}: 7_cy_9.wav makes no spikes; it is silent or too short"):
        load(tmp_path)
    assert not (cache / "spoken-digits").exists()


def test_a_part_without_recordings_is_rejected(tmp_path, cache):
    path = write_arrays(
        tmp_path, {name: audio for name, audio in some_digits().items() if name[-2:] not in ("_5", "_9")}
    )
    with pytest.raises(ValueError, match=f"^{path}: no recordings for valid, some are missing"):
        load(tmp_path)


def test_missing_data_are_reported_with_instructions(tmp_path, cache):
    folder = DataFolder(tmp_path)
    message = f"{FILES[0]} is not in {tmp_path} or {cache}; s7 data fetch spoken-digits"
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(message)}"):
        SpokenDigits().load(folder, "strict", silent)
    assert SpokenDigits().missing(folder).startswith(message)
    write_folder(tmp_path, some_digits())
    assert SpokenDigits().missing(folder) is None


def test_the_published_recordings_are_split_as_published():
    spoken = read_spoken(real_file(*FILES))
    assert {name: int(q.sum()) for name, q in split(spoken, "").items()} == {"train": 2400, "valid": 300, "test": 300}
    assert {name: int(q.sum()) for name, q in split(spoken, "theo").items()} == {
        "train": 2000,
        "valid": 500,
        "test": 500,
    }
    # A few are enough to see that spikes are neither few nor many.
    some = np.arange(0, 3000, 100)
    sizes = [len(SpikeEncoder()(spoken.audio[slice(*spoken.offsets[n : n + 2])], spoken_digits.RATE).t) for n in some]
    assert 200 < np.median(sizes) < 3000
    assert min(sizes) > 50
