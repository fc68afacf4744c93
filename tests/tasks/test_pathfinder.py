"""Pathfinder: images match their labels, contours do not touch, and published files are read or rejected."""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_edt

import s7
from s7.data.folder import DataFolder
from s7.tasks import pathfinder
from s7.tasks.blocks import make_blocks
from s7.tasks.pathfinder import Pathfinder, PathX
from s7.tasks.pathfinder_dashes import PATH_X, PATHFINDER, Stamps, dashes_of
from s7.tasks.pathfinder_pictures import FIRST, LONG, SECOND, SHORT, UNMARKED, make_block
from tests.listening import silent

# As the tasks' own, with fewer pictures in a block: sooner made.
SMALL = replace(PATHFINDER, block=10, pairs=384)
LARGE = replace(PATH_X, block=6, pairs=512)


@pytest.fixture
def small(monkeypatch):
    """Pathfinder in small blocks."""
    monkeypatch.setattr(Pathfinder, "recipe", SMALL)


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["32", "128"])
def drawn(request):
    """A recipe and a block of pictures to it."""
    return request.param, make_block(request.param, 3, 0)


def lines(recipe, pictures, n):
    """The dashes of a picture as (start, end), with the numbers of their contours and of themselves."""
    dashes = dashes_of(recipe, int(pictures.margins[n]))
    at, way = pictures.scenes.at[n], pictures.scenes.way[n]
    contour, number = np.nonzero(way >= 0)
    start = at[contour, number].astype(float)
    return np.stack([start, start + recipe.dash * dashes.toward[way[contour, number]]], 1), contour, number


def distances(ends):
    """Between dashes, of nine points on each."""
    t = np.linspace(0, 1, 9)[:, None]
    points = ends[:, None, 0] * (1 - t) + ends[:, None, 1] * t
    return np.linalg.norm(points[:, None, :, None] - points[None, :, None, :], axis=-1).min((2, 3))


# Drawing.


def test_a_picture_has_two_long_contours_and_short_ones(drawn):
    recipe, pictures = drawn
    there = (pictures.scenes.way >= 0).sum(2)
    assert (there[:, :2] == LONG).all()
    assert set(np.unique(there[:, 2:])) <= {0, SHORT}
    assert there.shape[1] == 2 + recipe.shorts
    assert (there[:, 2:] > 0).mean() > 0.6
    assert set(pictures.margins.tolist()) == set(recipe.margins)


def test_one_of_every_two_images_is_connected(drawn):
    _, pictures = drawn
    pairs = pictures.labels.reshape(-1, 2)
    assert (pairs.sum(1) == 1).all()
    assert 0 < pairs[:, 0].mean() < 1


def test_markers_are_at_the_ends_of_one_contour_or_of_two(drawn):
    _, pictures = drawn
    starts, ends = pictures.scenes.at[:, :2, 0], pictures.scenes.at[:, :2, -1]
    from_which = (starts == pictures.scenes.markers[:, None, 0]).all(-1)
    to_which = (ends == pictures.scenes.markers[:, None, 1]).all(-1)
    # Two contours begin and end at places of their own, so which of them it is is plain.
    assert (from_which.sum(1) == 1).all()
    assert (to_which.sum(1) == 1).all()
    np.testing.assert_array_equal((from_which & to_which).any(1), pictures.labels)


def test_contours_keep_their_distance(drawn):
    recipe, pictures = drawn
    for n in range(len(pictures.labels)):
        ends, contour, number = lines(recipe, pictures, n)
        apart = distances(ends)
        clearance = dashes_of(recipe, int(pictures.margins[n])).clearance
        # A place is a pixel: half of one may be lost by rounding.
        assert apart[contour[:, None] != contour].min() > clearance - 0.5
        # Nor does a contour come back to itself.
        later = (contour[:, None] == contour) & (number[:, None] > number + 1)
        assert apart[later].min() > clearance - 0.5


def test_a_contour_continues_with_a_gap_and_without_sharp_turns(drawn):
    recipe, pictures = drawn
    for n in range(len(pictures.labels)):
        margin = int(pictures.margins[n])
        ends, _, number = lines(recipe, pictures, n)
        # Dashes after the first are drawn from their far end.
        ends[number > 0] = ends[number > 0, ::-1]
        follows = np.flatnonzero(np.diff(number) == 1)
        gap = np.linalg.norm(ends[follows + 1, 0] - ends[follows, 1], axis=-1)
        assert gap.max() < 2 * margin + 1.5
        assert gap.min() > 0.4 * margin
        way = (ends[:, 1] - ends[:, 0]) / recipe.dash
        cosine = (way[follows] * way[follows + 1]).sum(-1)
        assert cosine.min() > np.cos(np.pi / 2 / recipe.continuity)
        assert ends.min() > 0
        assert ends.max() < recipe.side - 1


def test_pixels_use_the_whole_range_and_the_background_is_black(drawn):
    recipe, pictures = drawn
    assert pictures.images.dtype == np.uint8
    assert pictures.images.shape[1:] == (recipe.side, recipe.side)
    assert (pictures.images.max((1, 2)) == 255).all()
    assert (pictures.images.min((1, 2)) == 0).all()
    assert 0.5 < (pictures.images == 0).mean() < 0.95


def test_only_contours_and_markers_are_drawn(drawn):
    recipe, pictures = drawn
    for n, (image, markers) in enumerate(zip(pictures.images, pictures.scenes.markers, strict=True)):
        ends, _, _ = lines(recipe, pictures, n)
        assert image[tuple(np.round(ends.mean(1)).astype(int).T)].min() > 40
        t = np.linspace(0, 1, 9)[:, None]
        points = (ends[:, None, 0] * (1 - t) + ends[:, None, 1] * t).reshape(-1, 2)
        to_dash, to_marker = (_distance_to(q, recipe.side) for q in (np.round(points).astype(int), markers))
        far = (to_dash > recipe.thickness / 2 + 2.5) & (to_marker > recipe.radius + 1.5)
        # Lanczos' filter rings a little.
        assert image[far].max() < 20


def _distance_to(pixels, side):
    elsewhere = np.ones((side, side), bool)
    elsewhere[tuple(pixels.T)] = False
    return distance_transform_edt(elsewhere)


def test_there_are_two_discs(drawn):
    recipe, pictures = drawn
    r = int(recipe.radius)
    windows = np.lib.stride_tricks.sliding_window_view(pictures.images, (2 * r + 1, 2 * r + 1), axis=(1, 2))
    row, column = np.mgrid[-r : r + 1, -r : r + 1]
    disc = row**2 + column**2 <= recipe.radius**2
    full = (windows[..., disc] > 110).all(-1)
    for n, (markers, found) in enumerate(zip(pictures.scenes.markers, full, strict=True)):
        for marker in markers:
            assert found[tuple(marker - r)], n
        others = np.argwhere(found) + r
        # Any other place that is bright all around is in one of the two, by a pixel or so.
        assert np.linalg.norm(others[:, None] - markers, axis=-1).min(1).max() < recipe.radius + 1


def test_short_contours_are_brighter_in_small_pictures_only(drawn):
    recipe, pictures = drawn
    long, short = [], []
    for n, image in enumerate(pictures.images):
        ends, contour, _ = lines(recipe, pictures, n)
        brightness = image[tuple(np.round(ends.mean(1)).astype(int).T)]
        long += brightness[contour < 2].tolist()
        short += brightness[contour >= 2].tolist()
    assert np.mean(short) / np.mean(long) == pytest.approx(4 / 3 if recipe.side == 32 else 1, rel=0.1)


# The classes of contours.


def test_connected_markers_are_on_one_contour_and_others_on_two(drawn):
    recipe, pictures = drawn
    classes = pictures.contour_classes(recipe)
    assert classes.dtype == np.uint8
    assert classes.shape == pictures.images.shape
    for kind, expected in ((UNMARKED, True), (FIRST, True), (SECOND, pictures.labels == 0)):
        drawn_there = ((classes == kind) & (pictures.images >= pathfinder.INK)).any((1, 2))
        np.testing.assert_array_equal(drawn_there, np.broadcast_to(expected, len(drawn_there)))


def test_a_marker_has_the_class_of_its_contour(drawn):
    recipe, pictures = drawn
    for image, label, markers in zip(
        pictures.contour_classes(recipe), pictures.labels, pictures.scenes.markers, strict=True
    ):
        first, second = sorted(map(tuple, markers))
        assert image[first] == FIRST
        assert image[second] == (FIRST if label else SECOND)


def test_all_dashes_of_a_contour_have_one_class(drawn):
    recipe, pictures = drawn
    classes = pictures.contour_classes(recipe)
    for n, image in enumerate(classes):
        ends, contour, _ = lines(recipe, pictures, n)
        kinds = image[tuple(np.round(ends.mean(1)).astype(int).T)]
        for number in np.unique(contour):
            here = set(kinds[contour == number])
            assert len(here) == 1
            assert number < 2 or here == {UNMARKED}


# By which numbers.


def same(one, other):
    return all(np.array_equal(p, q) for p, q in zip(one, other, strict=True))


def test_a_block_depends_on_its_recipe_and_two_numbers_only():
    first, again = make_block(SMALL, 1, 2), make_block(SMALL, 1, 2)
    assert same(first[:3], again[:3])
    assert same(first.scenes, again.scenes)
    for other in ((1, 3), (2, 2)):
        assert not same(first[:1], make_block(SMALL, *other)[:1])


def test_another_process_draws_the_same_pictures():
    # One block, so that one process starts: it takes its time.
    (here,), (there,) = (make_blocks(partial(pathfinder._draw, SMALL, 0, 1), 1, silent, n) for n in (1, 2))
    again = pathfinder._draw(SMALL, 0, 0, 1)
    assert here.keys() == there.keys() == again.keys()
    assert same(here.values(), there.values())
    assert same(here.values(), again.values())


@given(st.data())
@settings(max_examples=25)
def test_stamps_are_pictures_pasted_where_they_are_brighter(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size, columns, count = 5, 13, 3
    stencils = rng.integers(0, 256, (4, size, size)) * (rng.random((4, size, size)) < 0.5)
    stencils[:, 2, 2] = 1  # none is empty
    stamps = Stamps.of(stencils.astype(np.uint8), columns)
    canvases = rng.integers(0, 256, (count, columns, columns)).astype(np.uint8)
    expected = canvases.copy()
    who = rng.permutation(count)[:2]
    at = rng.integers(2, columns - 2, (2, 2))
    way = rng.integers(0, 4, 2)
    for n, (row, column), w in zip(who, at, way, strict=True):
        window = expected[n, row - 2 : row + 3, column - 2 : column + 3]
        window[:] = np.maximum(window, stencils[w])
    stamps.put(canvases.reshape(count, -1), who, at[:, 0] * columns + at[:, 1], way)
    np.testing.assert_array_equal(canvases, expected)


# The tasks.


@pytest.mark.usefixtures("small")
def test_the_task_splits_its_pictures_and_draws_them_once(place):
    task = Pathfinder(pictures=20)
    heard = []
    problem = task.load(DataFolder(place), "strict", heard.append)
    # A slow machine also says how much is left.
    assert [text for text in heard if "left" not in text] == ["generating images 0 to 20 of 20 …"]
    parts = (problem.train, problem.valid, problem.test)
    assert [len(q) for q in parts] == [16, 2, 2]
    assert {q.event_shape for q in parts} == {(1,)}
    assert {q.inputs.dtype for q in parts} == {np.dtype(np.uint8)}
    pictures = [row.tobytes() for q in parts for row in q.inputs.reshape(len(q), 1024)]
    assert len(set(pictures)) == 20
    assert [q.targets.mean() for q in parts] == [0.5, 0.5, 0.5]
    assert problem.objective.names == ("apart", "joined")
    assert problem.encoder.mean[0] == pytest.approx(problem.train.inputs.mean())
    assert problem.baselines == {"most frequent class": {"accuracy": 0.5}}
    assert task.missing(DataFolder(place)) is None
    again = task.load(DataFolder(place), "paper", pytest.fail)
    assert [q.digest() for q in (again.train, again.test)] == [q.digest() for q in (problem.train, problem.test)]
    # Pixels in reading order.
    block = make_block(SMALL, 0, 0)
    np.testing.assert_array_equal(problem.train.inputs[:1024, 0], block.images[0].ravel())
    np.testing.assert_array_equal(problem.train.targets[:10], block.labels)


@pytest.mark.usefixtures("small")
def test_images_are_cached_in_parts_that_larger_sets_share(place, monkeypatch):
    monkeypatch.setattr(pathfinder, "_TOGETHER", 1)
    heard = []
    whole = Pathfinder(pictures=20).load(DataFolder(place), "strict", heard.append).train
    assert heard == ["generating images 0 to 10 of 20 …", "generating images 10 to 20 of 20 …"]
    larger = Pathfinder(pictures=24).load(DataFolder(place), "strict", heard.append).train
    assert heard[2:] == ["generating images 20 to 24 of 24 …"]
    assert larger.take(np.arange(16)).digest() == whole.digest()


@pytest.mark.usefixtures("small")
def test_contours_are_the_targets_of_pixels_with_ink(place):
    heard = []
    problem = Pathfinder(pictures=20, target="contours").load(DataFolder(place), "strict", heard.append)
    started = [text for text in heard if "left" not in text]
    assert started == ["generating images 0 to 20 of 20 …"]
    train, block = problem.train, make_block(SMALL, 0, 0)
    np.testing.assert_array_equal(train.counts, train.inputs[:, 0] >= pathfinder.INK)
    np.testing.assert_array_equal(train.targets[:10_240], block.contour_classes(SMALL).ravel())
    assert problem.head == s7.PerStep(3)
    assert problem.objective.names == ("unmarked", "first", "second")
    assert 0.3 < problem.baselines["most frequent class"]["accuracy"] < 0.8
    # The images are those of the labels.
    labelled = Pathfinder(pictures=20).load(DataFolder(place), "strict", pytest.fail)
    np.testing.assert_array_equal(labelled.train.inputs, train.inputs)


@pytest.mark.usefixtures("small")
def test_pixels_of_a_row_are_read_together(place):
    single, double = (Pathfinder(pictures=20, patch=n).load(DataFolder(place), "strict", silent) for n in (1, 2))
    np.testing.assert_array_equal(double.train.inputs, single.train.inputs.reshape(-1, 2))
    assert set(double.train.lengths) == {512}
    assert double.encoder.inputs == 2
    dense = Pathfinder(pictures=20, patch=4, target="contours").load(DataFolder(place), "strict", silent).train
    np.testing.assert_array_equal(dense.counts, dense.inputs.max(1) >= pathfinder.INK)


@pytest.mark.usefixtures("small")
def test_patches_can_cover_several_rows(place):
    task = Pathfinder(pictures=20, patch=8, patch_rows=4, target="contours")
    train, block = task.load(DataFolder(place), "strict", silent).train, make_block(SMALL, 0, 0)
    assert set(train.lengths) == {32}
    assert train.event_shape == (32,)
    classes = block.contour_classes(SMALL)
    for image in range(10):
        for place_in_image in range(32):
            row, column = divmod(place_in_image, 4)
            window = np.s_[image, 4 * row : 4 * row + 4, 8 * column : 8 * column + 8]
            event = image * 32 + place_in_image
            np.testing.assert_array_equal(train.inputs[event], block.images[window].ravel())
            assert train.targets[event] == classes[window].ravel()[block.images[window].argmax()]


def test_a_patch_has_the_class_of_its_brightest_pixel():
    events = np.array([[[90, 80], [10, 30], [0, 64]]], np.uint8)
    classes = np.array([[[1, 2], [0, 1], [0, 2]]], np.uint8)
    chosen, counts = pathfinder.patch_classes(events, classes)
    assert chosen.tolist() == [[1, 1, 2]]
    assert counts.tolist() == [[True, False, True]]


def test_settings_that_do_not_fit_are_rejected():
    with pytest.raises(ValueError, match="patch=5 does not divide the 32 pixels of a row"):
        Pathfinder(patch=5)
    with pytest.raises(ValueError, match="patch_rows=3 does not divide the 32 rows of an image"):
        Pathfinder(patch_rows=3)
    with pytest.raises(ValueError, match=r"target=contours needs data\.origin=made"):
        Pathfinder(origin="lra", target="contours")


def test_path_x_is_read_from_128_by_128_pixels(place, monkeypatch):
    monkeypatch.setattr(PathX, "recipe", replace(LARGE, margins=(2,), block=10))
    problem = PathX(pictures=10).load(DataFolder(place), "strict", silent)
    assert [len(q) for q in (problem.train, problem.valid, problem.test)] == [8, 1, 1]
    assert set(problem.train.lengths) == {16_384}


@pytest.mark.parametrize("kind", [Pathfinder, PathX])
def test_too_few_pictures_are_rejected(kind):
    with pytest.raises(ValueError, match="pictures=9 must be at least 10"):
        kind(pictures=9)
    with pytest.raises(ValueError, match="seed=-1 must be at least 0"):
        kind(seed=-1)


# The published files.


def write_pictures(place, inner="lra/lra_release/lra_release", side=32):
    """Twelve pictures in two folders, of the brightness 10 n + label in all their pixels."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing; pip install 's7-ssm[images]'")
    folder = place / inner / f"pathfinder{side}" / "curv_contour_length_14"
    (folder / "metadata").mkdir(parents=True)
    for part in range(2):
        (folder / "imgs" / str(part)).mkdir(parents=True)
        lines = []
        for n in range(6):
            number, label = 6 * part + n, (n + part) % 2
            pixels = np.full((side, side), 10 * number + label, np.uint8)
            image.fromarray(pixels).save(folder / "imgs" / str(part) / f"sample_{n}.png")
            lines.append(f"imgs/{part} sample_{n}.png {n} {label} 1.0 14 4 2 0.5 1 1")
        (folder / "metadata" / f"{part}.npy").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("inner", ["lra/lra_release/lra_release", "lra/lra_release"])
def test_the_published_pictures_are_read_with_their_labels(place, inner):
    write_pictures(place, inner)
    task = Pathfinder(origin="lra")
    assert task.missing(DataFolder(place)) is None
    problem = task.load(DataFolder(place), "strict", silent)
    parts = (problem.train, problem.valid, problem.test)
    assert [len(q) for q in parts] == [10, 1, 1]
    brightness = np.concatenate([q.inputs.reshape(len(q), 1024) for q in parts])
    assert (brightness == brightness[:, :1]).all()
    np.testing.assert_array_equal(brightness[:, 0] % 10, np.concatenate([q.targets for q in parts]))
    assert sorted(brightness[:, 0] // 10) == list(range(12))
    assert (np.diff(brightness[:, 0] // 10) != 1).any()


def test_a_picture_of_another_size_is_rejected(place):
    folder = write_pictures(place)
    image = pytest.importorskip("PIL.Image")
    path = folder / "imgs" / "1" / "sample_3.png"
    image.fromarray(np.zeros((64, 32), np.uint8)).save(path)
    with pytest.raises(ValueError, match=f"^{path}: has 64×32 uint8 pixels, expected 32×32"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"^{path}: damaged, or not an image"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("imgs/0 sample_0.png 0", "line 7 is not folder, file, number and label 0 or 1: 'imgs/0 sample_0.png 0'"),
        ("imgs/0 sample_0.png 0 2 1.0", "line 7 is not folder, file, number and label 0 or 1"),
        ("imgs/0 sample_9.png 0 1 1.0", r"line 7 names .*imgs/0/sample_9.png, which is missing"),
    ],
)
def test_an_invalid_line_of_metadata_is_rejected(place, line, message):
    file = write_pictures(place) / "metadata" / "0.npy"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises((ValueError, FileNotFoundError), match=f"^{file}: {message}"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)


def test_binary_or_empty_metadata_are_rejected(place):
    folder = write_pictures(place) / "metadata"
    np.save(folder / "1.npy", np.zeros(3))
    with pytest.raises(ValueError, match=rf"^{folder}/1.npy: not lines of text; get it again"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)
    (folder / "1.npy").unlink()
    with pytest.raises(ValueError, match=f"^{folder}: its files list 6 images, expected at least 10"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)


def test_without_pillow_the_error_names_the_extra(place, monkeypatch):
    write_pictures(place)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"Pillow is missing; pip install 's7-ssm\[images\]'"):
        Pathfinder(origin="lra").load(DataFolder(place), "strict", silent)


@pytest.mark.parametrize(("kind", "side"), [(Pathfinder, 32), (PathX, 128)])
def test_missing_files_are_reported_with_an_alternative(place, kind, side):
    task = kind(origin="lra")
    message = task.missing(DataFolder(place))
    assert f"pathfinder{side}/curv_contour_length_14/metadata is not in" in message
    assert f"s7 data fetch {kind.name}, or use data.origin=made" in message
    with pytest.raises(FileNotFoundError, match=f"pathfinder{side}"):
        task.load(DataFolder(place), "strict", silent)
