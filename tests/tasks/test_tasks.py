"""Tasks: data follow the published procedures and splits, and invalid files are rejected."""

import gc
import json
import re
import sys
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from s7.cli.main import main
from s7.data.folder import DataFolder, read_arrays
from s7.tasks import TASKS, find_task, fitzhugh_nagumo, pendulum, pendulum_frames, walker2d
from s7.tasks.fitzhugh_nagumo import FitzHughNagumo
from s7.tasks.pendulum import Pendulum
from s7.tasks.walker2d import Walker2d
from tests.listening import silent
from tests.real_data import real_place

# Where data are.


def test_data_folders_are_searched_in_order(cache, tmp_path, monkeypatch):
    assert DataFolder().places == [cache]
    monkeypatch.setenv("S7_DATA", str(tmp_path / "named"))
    assert DataFolder().places == [tmp_path / "named", cache]
    assert DataFolder(tmp_path / "given").places == [tmp_path / "given", cache]


def test_the_first_file_in_the_first_place_is_found(cache, tmp_path):
    folder = DataFolder(tmp_path / "given")
    assert folder.find("a", "b") is None
    for place, name in ((cache, "a"), (cache, "b"), (tmp_path / "given", "b")):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    assert folder.find("a", "b") == tmp_path / "given" / "b"
    assert folder.find("b", "a") == tmp_path / "given" / "b"
    assert folder.find("a") == cache / "a"
    assert folder.require("a", how="ask for it") == cache / "a"
    with pytest.raises(FileNotFoundError, match=f"^c is not in {tmp_path}/given or {cache}; ask for it"):
        folder.require("c", "d", how="ask for it")


def make_counted():
    made = []

    def make():
        made.append(1)
        return {"q": np.arange(5.0) + len(made)}

    return make, made


def test_simulated_data_are_cached_by_settings(cache):
    make, made = make_counted()
    first = DataFolder().simulated("task", {"seed": 1, "size": 2}, make)
    again = DataFolder().simulated("task", {"size": 2, "seed": 1}, make)
    assert len(made) == 1
    assert again["q"].tolist() == first["q"].tolist()
    assert DataFolder().simulated("task", {"seed": 2, "size": 2}, make)["q"][0] == 2
    assert len(made) == 2


@pytest.mark.parametrize("damage", [lambda q: q[:-30], lambda q: b"", lambda q: q[:150] + b"x" + q[151:]])
def test_a_damaged_cache_is_made_again(cache, damage):
    make, made = make_counted()
    DataFolder().simulated("task", {}, make)
    (file,) = (cache / "task").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert DataFolder().simulated("task", {}, make)["q"][0] == 2
    assert len(made) == 2
    assert DataFolder().simulated("task", {}, make)["q"][0] == 2
    assert len(made) == 2


def test_a_failed_simulation_leaves_no_file(cache):
    with pytest.raises(KeyboardInterrupt):
        DataFolder().simulated("task", {}, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert not cache.exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_file_of_arrays_is_rejected(save, tmp_path):
    path = tmp_path / "q.npz"
    save(path, q=np.random.default_rng(0).normal(size=300))
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"q\.npz: damaged, or not a \.npz file of plain arrays .*get it again"):
            read_arrays(path)


def test_a_rejected_file_is_closed(tmp_path):
    (tmp_path / "q.npz").write_bytes(b"PK\x03\x04 and no more")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="damaged, or not"):
            read_arrays(tmp_path / "q.npz")
        gc.collect()
    assert not heard


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_altered_byte_of_an_array_is_seen(save, tmp_path):
    path = tmp_path / "q.npz"
    save(path, q=np.random.default_rng(0).normal(size=300))
    whole = path.read_bytes()
    # From behind the entry's own header to before the directory at the end.
    for place in range(60, len(whole) - 150, 37):
        altered = bytearray(whole)
        altered[place] ^= 64
        path.write_bytes(altered)
        with pytest.raises(ValueError, match=r"q\.npz: damaged, or not a \.npz file of plain arrays"):
            read_arrays(path)


def test_an_npy_file_is_no_npz_file(tmp_path):
    with (tmp_path / "q.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"q\.npz: damaged, or not a \.npz file"):
        read_arrays(tmp_path / "q.npz")


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "q.npz", q=np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"q\.npz: damaged, or not a \.npz file of plain arrays"):
        read_arrays(tmp_path / "q.npz")


# Tasks by name.


def test_an_unknown_task_gets_a_suggestion():
    for name, kind in TASKS.items():
        assert find_task(name) is kind
        assert "strict" in kind.protocols
        assert kind.title
        assert kind.source
    with pytest.raises(ValueError, match="no task 'pendulem'; did you mean 'pendulum'"):
        find_task("pendulem")


# Pendulum.


def test_pendulums_follow_the_equation():
    seed, count = 5, 2
    found = pendulum_frames.swing(count, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, 2 * np.pi, count)
    pushes = rng.normal(0, 0.1, (100, count))
    for n in range(count):
        angle, speed = float(start[n]), 0.0
        for frame in range(100):
            assert found[n, frame] == pytest.approx(angle % (2 * np.pi) - np.pi, abs=1e-9)
            for _ in range(100):
                speed += 1e-4 * (29.43 * np.sin(angle) - 0.1 * speed)
                angle += 1e-4 * speed
            speed += pushes[frame, n]


def test_without_pushes_a_pendulum_never_rises_above_its_start(monkeypatch):
    monkeypatch.setattr(pendulum_frames, "PUSH", 0.0)
    angles = pendulum_frames.swing(20, np.random.default_rng(0))
    # It hangs at 0, and so -cos is its height.
    height = -np.cos(angles)
    assert (height <= height[:, :1] + 1e-3).all()
    assert (height.min(1) < -0.99).mean() > 0.5
    assert angles.min() >= -np.pi
    assert angles.max() < np.pi


def test_visibility_is_a_part_and_the_first_frames_are_clean():
    clear = pendulum_frames.visibility(200, np.random.default_rng(0))
    assert clear.shape == (200, 100)
    assert (clear[:, :5] == 1).all()
    assert clear.min() == 0
    assert clear.max() == 1
    assert 0.1 < (clear[:, 5:] == 0).mean() < 0.5
    assert 0.1 < (clear[:, 5:] == 1).mean() < 0.5


@pytest.mark.parametrize("angle", [0.0, np.pi / 2, -np.pi / 2, 3.0, 0.7, -2.2])
def test_the_rod_is_drawn_at_the_angle(angle):
    (picture,) = pendulum_frames.render(np.array([angle]))
    assert picture.min() == 0
    assert picture.max() > 200
    row, column = np.mgrid[:24, :24] - 11.5
    # Half of 55 of 128 pixels from the middle, 0 downwards, to the right of it at a quarter turn.
    middle = 55 / 2 / 128 * 24
    assert (picture * column).sum() / picture.sum() == pytest.approx(middle * np.sin(angle), abs=0.15)
    assert (picture * row).sum() / picture.sum() == pytest.approx(middle * np.cos(angle), abs=0.15)
    assert picture[(column * np.sin(angle) + row * np.cos(angle)) < -3].max() == 0
    assert picture.sum() / 255 == pytest.approx(55 * 8 * (24 / 128) ** 2, rel=0.1)


def test_frames_are_distinct_and_in_order_and_the_first_are_seen_clearly():
    made = pendulum_frames.generate(3, 30, seed=1)
    assert made.images.shape == (3, 30, 24, 24)
    assert made.images.dtype == np.uint8
    assert (np.diff(made.frames) > 0).all()
    assert made.frames.min() >= 0
    assert made.frames.max() < 100
    np.testing.assert_allclose((made.angles**2).sum(-1), 1, rtol=1e-6)
    early = made.frames < 5
    assert early.any()
    sine, cosine = made.angles[early].astype(np.float64).T
    # The stored angle has single precision, so pixels at the edge of the rod may differ.
    rendered = pendulum_frames.render(np.arctan2(sine, cosine))
    assert np.abs(made.images[early] - rendered).max() <= 10


def test_pendulums_depend_on_the_seed():
    heard = []
    first = pendulum_frames.generate(2, 10, 1, watch=lambda done, of: heard.append((done, of)))
    again, other = pendulum_frames.generate(2, 10, 1), pendulum_frames.generate(2, 10, 2)
    assert heard[-1] == (2, 2)
    for name in first._fields:
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
        assert getattr(first, name).tobytes() != getattr(other, name).tobytes()


@pytest.mark.parametrize("kept", [0, 101])
def test_the_selected_frames_are_sorted_and_distinct(kept):
    with pytest.raises(ValueError, match=f"kept={kept} must be between 1 and 100"):
        pendulum_frames.generate(1, kept, 0)


def test_the_pendulum_task_reads_pictures_and_gaps(cache, monkeypatch):
    monkeypatch.setattr(pendulum, "SIZES", {"train": 3, "valid": 2, "test": 1})
    heard = []
    problem = Pendulum(frames=8, seed=4).load(DataFolder(), "strict", heard.append)
    assert heard == ["simulating 6 pendulums, about a minute …"]
    Pendulum(frames=8, seed=4).load(DataFolder(), "strict", heard.append)
    assert len(heard) == 1
    made = pendulum_frames.generate(6, 8, 4)
    assert [(q.name, len(q)) for q in (problem.train, problem.valid, problem.test)] == [
        ("train", 3),
        ("valid", 2),
        ("test", 1),
    ]
    assert problem.valid.inputs.tobytes() == made.images[3:5].tobytes()
    assert problem.valid.event_shape == problem.encoder.event_shape
    assert problem.valid.dt.reshape(2, 8).tolist() == np.diff(made.frames[3:5], prepend=made.frames[3:5, :1]).tolist()
    assert problem.valid.targets.tolist() == made.angles[3:5].reshape(-1, 2).tolist()
    assert problem.head.outputs == problem.objective.outputs
    problem.objective.check(problem.test)


def test_a_picture_in_a_mirror_is_that_of_the_opposite_angle():
    angles = np.array([[0.4, -2.0, 3.0]])
    pictures, opposite = (pendulum_frames.render(q.ravel()).astype(np.uint8)[None] for q in (angles, -angles))
    targets = np.stack([np.sin(angles), np.cos(angles)], -1)
    frames = np.array([[3, 4, 9]])
    mirrored = pendulum.mirror(pendulum_frames.Pendulums(pictures, frames, targets))
    assert mirrored.images.tolist() == opposite.tolist()
    np.testing.assert_allclose(mirrored.angles, np.stack([np.sin(-angles), np.cos(-angles)], -1))
    assert mirrored.frames.tolist() == frames.tolist()


def test_copies_are_the_same_swings_through_other_noise(cache, monkeypatch):
    monkeypatch.setattr(pendulum, "SIZES", {"train": 3, "valid": 2, "test": 1})
    plain, more = (Pendulum(frames=30, copies=q).load(DataFolder(), "strict", silent) for q in (1, 3))
    assert [len(q) for q in (more.train, more.valid, more.test)] == [9, 2, 1]
    assert more.train.take(range(3)).digest() == plain.train.digest()
    assert more.test.digest() == plain.test.digest()
    first, second, third = (more.train.take(range(n, n + 3)) for n in (0, 3, 6))
    for other in (second, third):
        assert np.array_equal(other.targets, first.targets)
        assert np.array_equal(other.dt, first.dt)
        assert not np.array_equal(other.inputs, first.inputs)
    assert not np.array_equal(second.inputs, third.inputs)
    # The first frames of each sequence have no noise and are equal.
    made = pendulum_frames.generate(6, 30, 0)
    clean = (made.frames[:3] < pendulum_frames.CLEAN_FRAMES).ravel()
    assert clean.any()
    difference = np.abs(first.inputs[clean].astype(int) - second.inputs[clean].astype(int))
    assert difference.max() <= 1


def test_mirrored_pendulums_are_only_in_the_training_data(cache, monkeypatch):
    monkeypatch.setattr(pendulum, "SIZES", {"train": 3, "valid": 2, "test": 1})
    plain, more = (Pendulum(frames=8, mirrored=q).load(DataFolder(), "strict", silent) for q in (False, True))
    assert [len(q) for q in (more.train, more.valid, more.test)] == [6, 2, 1]
    assert more.train.take(range(3)).digest() == plain.train.digest()
    assert more.valid.digest() == plain.valid.digest()


# FitzHugh–Nagumo.


def rates(_, state):
    v, w = state
    return v - v**3 / 3 - w + 0.5, (v + 0.7 - 0.8 * w) / 50


def test_neurons_are_those_of_scipy_and_near_the_truth():
    start = np.array([-0.3, 0.9, 0.05])
    found, exact = (fitzhugh_nagumo.simulate(start, tolerance) for tolerance in (1e-3, 1e-7))
    times = np.linspace(0, 400, 1001)
    for v0, trace, true in zip(start, found, exact, strict=True):
        scipys = solve_ivp(rates, (0, 400), (v0, 0), t_eval=times).y[0]
        # Until the first spike's end step by step; then rounding grows, to no more than the tolerance allows.
        np.testing.assert_allclose(trace[:60], scipys[:60], rtol=1e-9)
        np.testing.assert_allclose(trace, scipys, atol=0.1)
        precise = solve_ivp(rates, (0, 400), (v0, 0), t_eval=times, rtol=1e-7, atol=1e-9).y[0]
        np.testing.assert_allclose(true, precise, atol=1e-11)
        assert np.sqrt(np.mean((trace - true) ** 2)) < 0.1
    assert found.max() > 1.5
    assert found.min() < -1.5


def test_the_initial_values_are_those_of_lem():
    values = fitzhugh_nagumo.initial_values()
    assert values.shape == (1280,)
    # np.random.seed(1234), then one draw after another.
    np.testing.assert_allclose(values[:3], [-0.61696110, 0.24421754, -0.12454452], atol=1e-8)


def test_the_neuron_task_predicts_the_change(cache, monkeypatch):
    monkeypatch.setattr(fitzhugh_nagumo, "SIZES", {"train": 3, "valid": 2, "test": 24})
    problem = FitzHughNagumo().load(DataFolder(), "strict", silent)
    assert [len(q) for q in (problem.train, problem.valid, problem.test)] == [3, 2, 24]
    inputs, targets = (q.reshape(24, 1000) for q in (problem.test.inputs, problem.test.targets))
    np.testing.assert_allclose(inputs[:, :-1] + targets[:, :-1], inputs[:, 1:], atol=1e-6)
    # The published error of predicting no change.
    assert problem.baselines["persistence"]["rmse"] == pytest.approx(0.0785, rel=0.05)
    assert problem.head.scale == pytest.approx(np.sqrt(np.mean(np.square(problem.train.targets))))
    assert problem.objective.unit == pytest.approx(problem.head.scale**2)
    assert problem.encoder.mean == pytest.approx((problem.train.inputs.mean(),), rel=1e-5)


# Walker2d.

LENGTHS = [90 + 7 * n for n in range(20)]


def rollouts(lengths=LENGTHS):
    """Numbers that tell rollout, step and channel."""
    return [1000.0 * n + np.arange(length)[:, None] + np.arange(17) / 17 for n, length in enumerate(lengths)]


def write_rollouts(place, lengths=LENGTHS, **changes):
    """The file, with the rollouts in another order than that of their names."""
    path = place / "walker2d" / "rollouts.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(0).permutation(len(lengths))
    chosen = [rollouts(lengths)[n] for n in order]
    arrays = {
        "obs": np.concatenate(chosen).astype(np.float32),
        "offsets": np.cumsum([0, *(len(q) for q in chosen)]),
        "names": np.array([f"rollout_{n:03}.npy" for n in order]),
    }
    np.savez(path, **{name: array for name, array in {**arrays, **changes}.items() if array is not None})
    return path


def plain_windows(rollouts, rng, length=64):
    """The recipe of ODE-LSTM, step by step."""
    states, gaps, following = [], [], []
    for rollout in rollouts:
        kept, last = [], -1
        for step in range(len(rollout) - 1):
            if rng.random_sample() <= 0.9:
                kept.append((rollout[step], step - last, rollout[step + 1]))
                last = step
        for start in range(0, len(kept) - length, length // 4):
            state, gap, after = zip(*kept[start : start + length], strict=True)
            states.append(state)
            gaps.append(gap)
            following.append(after)
    return np.array(states), np.array(gaps), np.array(following)


def test_rollouts_are_in_the_order_of_their_names(tmp_path):
    found = walker2d.read_rollouts(write_rollouts(tmp_path))
    assert len(found) == 20
    for mine, expected in zip(found, rollouts(), strict=True):
        np.testing.assert_array_equal(mine, expected.astype(np.float32))


def test_the_published_archive_gives_the_same_rollouts(tmp_path):
    path = tmp_path / "walker.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for n, rollout in reversed(list(enumerate(rollouts()))):
            buffer = BytesIO()
            np.save(buffer, rollout)
            archive.writestr(f"walker/rollout_{n:03d}.npy", buffer.getvalue())
    for mine, expected in zip(walker2d.read_rollouts(path), rollouts(), strict=True):
        np.testing.assert_array_equal(mine, expected.astype(np.float32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("walker/rollout_999.npy", b"no array")
    with pytest.raises(ValueError, match=r"walker.zip: damaged, or not a .zip file of .npy rollouts"):
        walker2d.read_rollouts(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"walker.zip: damaged, or not a .zip file of .npy rollouts"):
        walker2d.read_rollouts(path)


def test_rollouts_are_split_into_75_10_and_15_percent():
    parts = walker2d.split(list(range(400)))
    assert [len(part) for part in parts] == [300, 40, 60]
    assert sorted(n for part in parts for n in part) == list(range(400))
    assert walker2d.split(list(range(400))) == parts
    assert [len(part) for part in walker2d.split(list(range(20)))] == [15, 2, 3]


@pytest.mark.parametrize("length", [64, 30])
def test_windows_are_those_of_a_plain_loop(length):
    some = [q.astype(np.float32) for q in rollouts([150, 90, 40])]
    found = walker2d.windows(some, np.random.RandomState(3), length)
    for mine, expected in zip(found, plain_windows(some, np.random.RandomState(3), length), strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_walker_windows_that_are_too_long_are_refused(tmp_path, cache):
    write_rollouts(tmp_path)
    with pytest.raises(ValueError, match=r"window of 500 steps needs 10 rollouts of at least 1000 steps, 0 found; use"):
        Walker2d(window=500).load(DataFolder(tmp_path), "strict", silent)


def test_the_walker_task_predicts_the_change_with_a_tenth_missing(tmp_path, cache):
    write_rollouts(tmp_path)
    problem = Walker2d().load(DataFolder(tmp_path), "strict", silent)
    parts = walker2d.split([q.astype(np.float32) for q in rollouts()])
    rng = np.random.RandomState(891374)
    for samples, part in zip((problem.train, problem.valid, problem.test), parts, strict=True):
        states, gaps, following = plain_windows(part, rng)
        assert len(samples) == len(states)
        np.testing.assert_array_equal(samples.inputs.reshape(*gaps.shape, 18)[..., :17], states)
        np.testing.assert_array_equal(samples.inputs[:, 17], gaps.ravel())
        np.testing.assert_array_equal(samples.dt, gaps.ravel())
        np.testing.assert_array_equal(samples.targets, (following - states).reshape(-1, 17))
    assert problem.model == {"bidirectional": False}
    # Here every step changes all numbers by one.
    assert problem.baselines["persistence"]["mse"] == pytest.approx(1, rel=1e-3)
    assert problem.head.mean == pytest.approx((1.0,) * 17, rel=1e-3)


def test_copies_lose_steps_of_their_own_and_the_first_is_as_published(tmp_path, cache):
    write_rollouts(tmp_path)
    one, three = (Walker2d(copies=n).load(DataFolder(tmp_path), "strict", silent) for n in (1, 3))
    assert len(three.train) > 2.5 * len(one.train)
    first = three.train.take(np.arange(len(one.train)))
    assert first.digest() == one.train.digest()
    assert three.train.take(np.arange(len(one.train), 2 * len(one.train))).digest() != first.digest()
    assert three.test.digest() == one.test.digest()
    assert Walker2d(elapsed=False).load(DataFolder(tmp_path), "strict", silent).train.event_shape == (17,)
    with pytest.raises(ValueError, match="copies=0 must be at least 1"):
        Walker2d(copies=0)


def test_the_papers_protocol_is_bidirectional_and_selects_on_the_test_set(tmp_path, cache):
    write_rollouts(tmp_path)
    strict, paper = (Walker2d().load(DataFolder(tmp_path), protocol, silent) for protocol in ("strict", "paper"))
    assert paper.model == {"bidirectional": True}
    assert paper.valid.digest() == paper.test.digest() == strict.test.digest()
    assert strict.valid.digest() != strict.test.digest()
    assert paper.train.digest() == strict.train.digest()


BAD = np.concatenate(rollouts()).astype(np.float32)
BAD[7, 3] = np.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": None}, "has no array names; it has obs, offsets"),
        ({"obs": BAD}, r"obs\[7, 3\] is not finite \(nan\)"),
        ({"obs": BAD[:, :16]}, r"expected obs \(steps, 17\)"),
        ({"obs": BAD[:-1]}, "expected obs .* one more offset than names"),
        ({"names": np.array(["a", "b"])}, "one more offset than names"),
    ],
    ids=["no names", "nan", "a column short", "a step short", "names short"],
)
def test_invalid_rollouts_are_rejected(changes, message, tmp_path, cache):
    path = write_rollouts(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
        Walker2d().load(DataFolder(tmp_path), "strict", silent)


@pytest.mark.usefixtures("as_users_see_it")
def test_too_few_rollouts_are_rejected(tmp_path, cache):
    path = write_rollouts(tmp_path, [150] * 5)
    with pytest.raises(ValueError, match=f"{path}"):
        Walker2d().load(DataFolder(tmp_path), "strict", silent)


def test_a_damaged_file_of_rollouts_is_rejected(tmp_path, cache):
    path = write_rollouts(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=f"^{path}: damaged, or not a .npz file"):
        Walker2d().load(DataFolder(tmp_path), "strict", silent)


def test_missing_rollouts_are_reported_with_instructions(tmp_path, cache):
    folder = DataFolder(tmp_path)
    message = f"walker2d/walker.zip is not in {tmp_path} or {cache}; {walker2d.HOW}"
    assert "s7 data fetch walker2d" in message
    with pytest.raises(FileNotFoundError, match=f"^{message}$"):
        Walker2d().load(folder, "strict", silent)
    assert Walker2d().missing(folder) == message
    write_rollouts(tmp_path)
    assert Walker2d().missing(folder) is None
    assert Pendulum().missing(folder) is None


def test_the_rollouts_of_ode_lstm_give_the_published_number_of_windows():
    place = real_place(*walker2d.FILES[:2])
    problem = Walker2d().load(DataFolder(place), "strict", silent)
    assert [len(q) for q in (problem.train, problem.valid, problem.test)] == [9684, 1272, 1937]
    assert {q.even for q in (problem.train, problem.valid, problem.test)} == {True}


# Tasks of users.


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The example of the page, in the current folder."""
    page = (Path(__file__).parents[2] / "docs" / "your-own-task.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "clicks.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [q for q in sys.path if q])
    yield tmp_path
    sys.modules.pop("clicks", None)


def test_the_commands_train_and_evaluate_a_users_task(here, capsys):
    assert main(["train", "clicks:Clicks", "--set", "data.recordings=60", "train.epochs=1", "train.buckets=1"]) == 0
    run = here / "runs" / "clicks.Clicks-s7-ours-strict-0"
    result = json.loads((run / "result.json").read_text())
    assert result["task"] == "clicks:Clicks"
    assert result["classes"] == ["first", "second"]
    assert main(["eval", str(run)]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_a_missing_users_task_is_reported(here):
    with pytest.raises(ValueError, match=r"clicks.py: no task 'Click'; did you mean 'Clicks'\?"):
        find_task("clicks:Click")
    with pytest.raises(ValueError, match=r"^clacks:Clicks: no module 'clacks' in this folder or on the Python path"):
        find_task("clacks:Clicks")
    (here / "needy.py").write_text("import not_installed_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        find_task("needy:Task")
