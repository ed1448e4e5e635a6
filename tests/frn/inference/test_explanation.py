"""Sums over the parts of a photo and over example parts are exact, and say what the examples are worth."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from frn import FewShotClassifier
from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded
from frn.features.feature_cache import FeatureStore
from frn.inference.classifier import Classifier
from frn.inference.explanation import Box, Explanation, Rebuilt, compare, contributions, explain, rebuild
from frn.projects.session import Support
from frn.ridge.enrolment import Allowance
from frn.ridge.parameters import HeadParameters
from frn.ridge.reconstruction import reconstruct
from tests.drawings import MOTHS, PHOTO, QUERIES

HEAD = HeadParameters(0.3, -0.2, 20.0)
DRAWS = np.random.default_rng(0)
PHOTOS = tuple(Support(Path(f"{i}.jpg"), str(i), 0, 0) for i in range(9))


def plain(grid: tuple[int, int], tta: str = "none") -> Any:
    """Return what an explanation needs of an extractor."""
    return SimpleNamespace(grid=grid, tta=tta)


@pytest.fixture(scope="module")
def classifier(embedded: Path, tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """The samples, with classes of different sizes."""
    store = FeatureStore(Path(shutil.copy(embedded / "features.sqlite", tmp_path_factory.mktemp("store"))))
    found = Classifier(load_extractor("frn-photo", "cpu"), store)
    homes = sorted(MOTHS.iterdir())
    assert not found.enroll({home.name: sorted(home.iterdir())[: 3 + i % 3] for i, home in enumerate(homes)})
    return found


def read(classifier: Classifier, path: Path) -> Embedded:
    ((_, found),) = classifier.extractor.read([path], store=classifier.store)
    assert isinstance(found, Embedded)
    return found


@pytest.mark.parametrize("k", [1, 3, 9])  # fewer and more locations than channels
def test_shares_of_example_locations_sum_to_what_is_rebuilt(k: int) -> None:
    query, pool = DRAWS.random((12, 50)), DRAWS.random((k, 12, 50))
    taken, reconstruction = contributions(query, pool, HEAD)
    rows = torch.from_numpy(pool).flatten(0, 1)[None]
    expected = reconstruct(torch.from_numpy(query), rows, HEAD.lam(12 * k, 50), HEAD.rho())[0].numpy()
    np.testing.assert_allclose(reconstruction, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(taken.sum((1, 2)), (query * expected).sum(1), rtol=1e-9)


@pytest.mark.parametrize("allowance", [Allowance(), Allowance(0.03, 0.01), Allowance(0.03, 10.0)])
def test_shares_of_the_photo_sum_to_the_decision(allowance: Allowance) -> None:
    query, pools = DRAWS.random((12, 20)), [DRAWS.random((k, 12, 20)) for k in (3, 5)]
    first, second = (
        rebuild(str(len(pool)), PHOTOS[: len(pool)], query, pool, HEAD, plain((3, 4)), more)
        for pool, more in zip(pools, (Allowance(), allowance), strict=True)
    )
    explanation = compare(first, second, HEAD.gamma, 12)
    errors = [np.square(query - contributions(query, pool, HEAD)[1]).sum(1).mean() for pool in pools]
    excess = errors[1] - allowance.usual * np.square(query).sum(1).mean()
    margin = HEAD.gamma * (errors[1] + allowance.share * max(0, excess) - errors[0])
    assert explanation.margin == pytest.approx(margin, rel=1e-9)
    assert explanation.shares.sum() == pytest.approx(1, abs=1e-9)
    for rebuilt in (first, second):
        for box in (None, Box(1, 0, 2, 2)):
            assert rebuilt.origin(box).sum() == pytest.approx(1, abs=1e-9)
            of_cells = [s.share for s in rebuilt.sources(box, 99, 0)]
            assert sum(of_cells) == pytest.approx(1, abs=1e-9)
            assert of_cells == sorted(of_cells, reverse=True)


def test_decision_is_that_of_the_classifier(classifier: Classifier) -> None:
    """For queries and examples, and classes of different sizes."""
    for path in (PHOTO, MOTHS / "eyed footman" / "2.jpg"):
        photo = read(classifier, path)
        prediction = classifier.predict(photo.maps, photo.key)
        best, *others = sorted(prediction.errors, key=prediction.errors.__getitem__)
        for other in others:
            found = explain(classifier, photo.maps, photo.key, other)
            margin = classifier.head.gamma * (prediction.errors[other] - prediction.errors[best])
            assert found.margin == pytest.approx(margin, rel=1e-4)
            assert found.best.name == best
            for rebuilt in (found.best, found.other):
                assert rebuilt is not None
                assert rebuilt.explained() == pytest.approx(prediction.explained[rebuilt.name], abs=1e-5)
                assert path not in [support.path for support in rebuilt.photos]
        assert explain(classifier, photo.maps, photo.key).other.name == others[0]  # type: ignore[union-attr]
    with pytest.raises(FrnError, match="is the answer"):
        explain(classifier, photo.maps, photo.key, best)
    with pytest.raises(FrnError, match=r"no class is named 'x'\. The classes are banded footman, "):
        explain(classifier, photo.maps, photo.key, "x")


def test_removing_an_example_costs_what_its_share_says(classifier: Classifier) -> None:
    shares, losses = list[float](), list[float]()
    for path in sorted(QUERIES.iterdir()):
        maps = read(classifier, path).maps
        best = explain(classifier, maps).best
        pool = np.stack([classifier.example_maps()[photo.key] for photo in best.photos])
        for number, share in enumerate(best.of_photos()):
            fewer = rebuild("", PHOTOS[1 : len(pool)], maps, np.delete(pool, number, 0), classifier.head, plain((6, 6)))
            shares.append(share * len(pool))
            losses.append((1 - fewer.explained() / best.explained()) * len(pool))
    slope, correlation = np.polyfit(shares, losses, 1)[0], np.corrcoef(shares, losses)[0, 1]
    print(f"loss of what is explained for a share of 1: {slope:.2f}; correlation {correlation:.2f}")
    assert correlation > 0.6
    assert 0.2 < slope < 1.2  # the other examples take over part of it


def test_views_spread_their_locations_over_the_cells_they_cover() -> None:
    extractor = load_extractor("conv4", "cpu", "views")
    query, pool = (DRAWS.random(shape) for shape in (extractor.shape, (2, *extractor.shape)))
    found = rebuild("a", PHOTOS[:2], query, pool, HEAD, extractor)
    taken, reconstruction = contributions(query, pool, HEAD)
    assert found.taken.sum() == pytest.approx(taken.sum(), rel=1e-9)
    assert found.errors.sum() == pytest.approx(np.square(query - reconstruction).sum(), rel=1e-9)
    assert found.errors.shape == extractor.grid
    first = np.zeros_like(query)
    first[0] = 1
    covered = extractor.on_grid(np.eye(len(query)))[0] > 0
    np.testing.assert_array_equal(rebuild("a", (), first, pool[:0], HEAD, extractor).energies > 0, covered)
    assert 0 < covered.sum() < covered.size


def rebuilt(errors: np.ndarray) -> Rebuilt:
    """Return a class of two examples that rebuilds every cell in the same way."""
    return Rebuilt("a", PHOTOS[:2], np.ones((*errors.shape, 2, *errors.shape)), errors, np.full(errors.shape, 9.0))


def test_parts_are_neighbouring_cells_with_the_largest_shares() -> None:
    second = np.full((6, 6), 1.0)
    second[1:3, 2:4] = 4  # one part
    second[5, 0] = 6
    second[0, 5] = -4  # speaks for the other class
    found = compare(rebuilt(np.full((6, 6), 1.0)), replace(rebuilt(second), name="b"), 1.0, 36)
    parts = found.parts()
    assert [(part.box, round(part.share * 12, 9)) for part in parts] == [
        (Box(2, 1, 2, 2), 12),
        (Box(0, 5, 1, 1), 5),
        (Box(5, 0, 1, 1), -5),
    ]
    assert found.sentence() == (
        "a rather than b: parts 1 and 2 outweigh the rest; a explains 89% of these parts, b 51%; part 3 speaks for b"
    )
    assert found.sentence(unknown=True).startswith("unknown; nearest a rather than b: ")


@pytest.mark.parametrize("scale", [1.0, 0.001])
def test_parts_grow_to_a_third_of_a_side_around_the_largest_share(scale: float) -> None:
    """Cells join that have at least half of its share; of those for the other class, only the largest is a part."""
    second = np.ones((7, 10))
    second[2, 2], second[6, 9], second[6, 0], second[0, 9] = 1.5, 0.75, -4, -3
    first = rebuilt(np.zeros((7, 10)))
    found = compare(replace(first, taken=scale * first.taken), rebuilt(second), 1.0, 70)
    assert [(part.box, round(part.share * second.sum(), 9)) for part in found.parts()] == [
        (Box(0, 0, 4, 3), 12.5),
        (Box(4, 0, 4, 3), 12),
        (Box(0, 3, 4, 3), 12),
        (Box(0, 6, 1, 1), -4),
    ]


def of_single_cells(errors: np.ndarray) -> Explanation:
    """Return the decision against a class with these errors, for a photo whose cells come from different ones."""
    (h, w), cells = errors.shape, np.eye(errors.size)
    first = replace(rebuilt(np.zeros((h, w))), taken=cells.reshape(h, w, 1, h, w), photos=PHOTOS[:1])
    return compare(first, replace(rebuilt(errors), name="b"), 1.0, errors.size)


@pytest.mark.parametrize(
    ("against", "deciding", "speaking"),
    [(1.0, 5, 0), (-2.3, 4, 1), (-1.3, 5, 0)],  # -7% of the decision is not minor, -4% is
)
def test_at_most_five_parts_are_shown(against: float, deciding: int, speaking: int) -> None:
    errors = np.ones((6, 6))
    errors[0, 5] = against
    parts = of_single_cells(errors).parts()
    assert [part.share > 0 for part in parts] == [True] * deciding + [False] * speaking


def test_neighbours_with_half_of_the_share_join_a_part() -> None:
    errors = np.zeros((6, 6))
    errors[0, 1:3], errors[2:4, 3], errors[3, 4] = (0.5, 1.0), (0.5, 1.0), 0.4
    parts = compare(rebuilt(np.zeros((6, 6))), rebuilt(errors), 1.0, 36).parts()
    assert [part.box for part in parts] == [Box(1, 0, 2, 1), Box(3, 2, 1, 2), Box(4, 3, 1, 1)]


def test_parts_that_make_up_half_are_enough() -> None:
    errors = np.full((3, 3), 0.5)
    errors[0] = 1.0
    assert [part.box for part in of_single_cells(errors).parts()] == [Box(x, 0, 1, 1) for x in range(3)]


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        (0.0, "a rather than b: part 1 makes up 100% of the decision; a explains 100% of this part, b 56%"),
        (-0.5, "a rather than b: part 1 outweighs the rest; a explains 100% of this part, b 56%; part 2 speaks for b"),
    ],
)
def test_one_part_may_decide_alone(rest: float, sentence: str) -> None:
    errors = np.full((2, 2), rest)
    errors[0, 0] = 4.0
    assert of_single_cells(errors).sentence() == sentence


def test_equal_classes_share_the_decision_evenly() -> None:
    found = compare(rebuilt(np.ones((2, 3))), rebuilt(np.ones((2, 3))), 1.0, 6)
    assert (found.margin, found.shares.tolist()) == (0, [[1 / 6] * 3] * 2)


@pytest.mark.parametrize(("count", "end"), [(10, "c8, c9"), (11, "c8, c9, …")])
def test_up_to_ten_classes_are_named(count: int, end: str) -> None:
    errors = {f"c{place}": float(place) for place in range(count)}
    answering: Any = SimpleNamespace(other=None, predict=lambda *_: SimpleNamespace(errors=errors))
    with pytest.raises(FrnError, match=f"{end}$"):
        explain(answering, np.ones((1, 1), np.float32), against="x")


def test_boxes_overlap_if_they_share_a_cell() -> None:
    boxes = [Box(*box) for box in itertools.product(range(3), range(3), (1, 3), (1, 3))]
    for one, other in itertools.product(boxes, repeat=2):
        sizes = [np.zeros((6, 6), dtype=bool) for _ in range(2)]
        for cells, (x, y, width, height) in zip(sizes, (one, other), strict=True):
            cells[y : y + height, x : x + width] = True
        assert one.overlaps(other) == (sizes[0] & sizes[1]).any()
    assert Box(1, 2, 3, 4).within((8, 6)) == (1 / 6, 2 / 8, 3 / 6, 4 / 8)


def test_cells_of_different_origin_are_different_parts() -> None:
    first, second = np.zeros((6, 6)), np.ones((6, 6))
    alone = rebuilt(first)
    taken = np.zeros_like(alone.taken)
    taken[:, :3, 0], taken[:, 3:, 1] = 1, 1
    parts = compare(replace(alone, taken=taken), rebuilt(second), 1.0, 36).parts()
    assert all(part.box.x + part.box.width <= 3 or part.box.x >= 3 for part in parts)
    assert {(part.box.width, part.box.height) for part in parts} <= {(2, 2), (1, 2), (2, 1), (1, 1)}


def test_example_parts_of_a_photo_do_not_overlap() -> None:
    sources = rebuilt(np.zeros((6, 6))).sources(most=8)
    assert len(sources) == 8
    assert len(rebuilt(np.zeros((6, 6))).sources()) == 3
    assert [s.share for s in sources] == pytest.approx([9 / 72] * 8)
    assert len({s.photo.key for s in sources}) == 2
    each = rebuilt(np.zeros((6, 6))).sources(most=8, one_each=True)
    assert [s.photo for s in each] == [*PHOTOS[:2]]


def test_single_class_is_compared_with_reconstructing_nothing() -> None:
    found = compare(rebuilt(np.full((2, 2), 1.0)), None, 2.0, 4)
    assert found.margin == 16
    assert "make up 75% of what it explains; a explains 89% of these parts" in found.sentence()


def test_class_without_other_examples_rebuilds_nothing() -> None:
    query = DRAWS.random((4, 5))
    found = rebuild("a", (), query, np.zeros((0, 4, 5), np.float32), HEAD, plain((2, 2)))
    assert (found.explained(), found.sources(), found.of_photos().tolist()) == (0, [], [])


@pytest.mark.parametrize(("scale", "share"), [(0.0, 0.0), (0.01, 1.0)])
def test_faint_photos_are_explained_and_black_ones_are_not(scale: float, share: float) -> None:
    query, pool = scale * DRAWS.random((4, 5)), DRAWS.random((2, 4, 5))
    found = rebuild("a", PHOTOS[:2], query, pool, HEAD, plain((2, 2)))
    assert (found.explained() > 0) == bool(share)
    assert found.of_photos().sum() == pytest.approx(share)


def test_the_library_explains_photos_of_any_kind() -> None:
    classes = {home.name: sorted(home.iterdir())[:3] for home in sorted(MOTHS.iterdir())[:3]}
    query = next(QUERIES.iterdir())
    found = FewShotClassifier("conv4").fit(classes).explain(query)
    pixels = {name: [np.asarray(Image.open(path)) for path in paths] for name, paths in classes.items()}
    other = FewShotClassifier("conv4").fit(pixels).explain(np.asarray(Image.open(query)))
    assert found.sentence() == other.sentence()
    np.testing.assert_allclose(found.shares, other.shares)
