"""What examples are worth, and the changes that follow from it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from frn.estimator.loading import load_extractor
from frn.features.feature_cache import FeatureStore
from frn.inference.classifier import Classifier
from frn.inference.explanation import contributions
from frn.inference.lessons import advise, advise_small, costs, worth
from frn.projects.session import ClassEntry, State, Support
from frn.ridge.parameters import HeadParameters
from tests.drawings import DRAWINGS

MOTHS = DRAWINGS / "moths"
pytestmark = pytest.mark.usefixtures("warm_cache")
HEAD = HeadParameters(0.3, -0.2, 20.0)


@pytest.mark.parametrize(
    ("d", "counts"),
    [
        (5, (3, 1, 2)),  # more locations than channels
        (50, (3, 1, 2)),
        (5, (13, 2)),  # every second photo of the first class is looked at
        (5, (2,)),
    ],
)
def test_worth_is_the_mean_of_what_examples_contribute_to_photos(d: int, counts: tuple[int, ...]) -> None:
    draws = np.random.default_rng(0)
    pools = [draws.random((k, 4, d)) for k in counts]
    for label, found in enumerate(worth(pools, HEAD)):
        pool, k = pools[label], len(pools[label])
        others = [each for place, each in enumerate(pools) if place != label]
        step = 2 if k > 12 else 1
        expected = [_mean_share(pool, list(other[:: 2 if len(other) > 12 else 1])) for other in others]
        np.testing.assert_allclose(found.others, np.mean(expected, 0) if others else np.nan, rtol=1e-9)
        own = np.full((k, k), np.nan)
        for place in range(0, k, step):
            rest = np.delete(np.arange(k), place)
            if k > 1:
                own[place, rest] = _mean_share(pool[rest], [pool[place]])
        if k > 1:
            np.testing.assert_allclose(found.own, np.nanmean(own, 0), rtol=1e-9)
        else:
            assert np.isnan(found.own).all()


def _mean_share(pool: np.ndarray, photos: list[np.ndarray]) -> np.ndarray:
    shares = [contributions(photo, pool, HEAD)[0].sum((0, 2)) / np.square(photo).sum() for photo in photos]
    return np.asarray(np.mean(shares, 0))


def test_a_photo_in_the_wrong_class_is_to_be_removed_and_others_are_not() -> None:
    classes = {home.name: sorted(home.iterdir())[:4] for home in sorted(MOTHS.iterdir())[:3]}
    first, second, third = classes
    stray = sorted((MOTHS / second).iterdir())[4]
    classifier = Classifier(load_extractor("frn-photo", "cpu"), FeatureStore())
    classifier.enroll(classes)
    assert not [line for line in advise(classifier) if line.startswith("remove")]
    classifier.enroll({**classes, first: [*classes[first], stray], third: classes[third][:1]})
    advice = advise(classifier)
    assert advice[0].startswith(f"remove {second}/{stray.name} from {first}: it looks like {second}, and explains ")
    assert advice[1:] == [f"add photos to {third}: it has a single one"]
    maps = _alike_in_a_class(classifier, np.ones(5))
    assert not [line for line in advise(classifier, maps.__getitem__) if line.startswith("remove")]


def _alike_in_a_class(classifier: Classifier, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return maps by content key; the examples of a class share a random map, with the weight of their place."""
    draws, maps = np.random.default_rng(0), dict[str, np.ndarray]()
    for entry in classifier.state.classes:
        common = draws.standard_normal(classifier.extractor.shape)
        for weight, photo in zip(weights, entry.supports, strict=False):
            maps[photo.key] = common * weight + draws.standard_normal(common.shape) / 5
    return maps


def test_the_photo_that_carries_the_most_of_its_class_comes_first() -> None:
    """The first photo of a class explains what the others share; the more others, the larger its share."""
    classes = {home.name: sorted(home.iterdir())[:k] for home, k in zip(sorted(MOTHS.iterdir()), (3, 5), strict=False)}
    classifier = Classifier(load_extractor("frn-photo", "cpu"), FeatureStore())
    classifier.enroll(classes)
    maps = _alike_in_a_class(classifier, np.array([20, 1, 1, 1, 1]))
    carried = [line for line in advise(classifier, maps.__getitem__) if "it alone gives" in line]
    assert carried == [
        f"add photos like {entry.name}/{entry.supports[0].path.name} to {entry.name}: "
        f"it alone gives {share} of what this class explains"
        for entry, share in zip(reversed(classifier.state.classes), ("78%", "66%"), strict=True)
    ]


def with_mistakes(counts: tuple[int, ...], few: int, many: int, n: int = 20) -> Any:
    """Return classes of these sizes, of whose `n` examples `few` are wrong as in the smallest class, `many` as it is.

    They are all of the first class.
    """
    errors, labels, rows = np.full((n, len(counts)), 0.9), np.zeros(n, dtype=int), np.arange(n)
    errors[:, 0] = np.where(rows < many, 3.0, 0.5)
    smaller = np.column_stack([np.where(rows < few, 3.0, 0.9), np.ones(n)])
    entries = [SimpleNamespace(name=name, supports=[None] * k) for name, k in zip("abcd", counts, strict=False)]
    return SimpleNamespace(
        left_out=[errors, labels, np.ones(n), errors, smaller], state=SimpleNamespace(classes=entries)
    )


@pytest.mark.parametrize(
    ("counts", "few", "n", "advice"),
    [
        ((16, 1, 4), 20, 20, "b: a single photo costs about 95 points of accuracy there; 4 more gain about 86"),
        (
            (16, 2, 2),
            20,
            20,
            "b and 1 other: 2 photos cost about 95 points of accuracy there; 4 more each gain about 84",
        ),
        (
            (16, 1, 1, 1),
            *(20, 20),
            "b and 2 others: a single photo costs about 95 points of accuracy there; 4 more each gain about 86",
        ),
        ((16, 1), 4, 100, "b: a single photo costs about 4 points of accuracy there; 4 more gain about 3"),
        ((16, 1), 3, 100, ""),
    ],
)
def test_small_classes_cost_accuracy_that_more_photos_gain(
    counts: tuple[int, ...], few: int, n: int, advice: str
) -> None:
    assert advise_small(with_mistakes(counts, few, 0, n)) == ([f"add photos to {advice}"] if advice else [])


@pytest.mark.parametrize("least", [1, 2])
def test_mistakes_follow_a_power_of_the_number_of_photos(least: int) -> None:
    cost = costs(with_mistakes((16 * least, least, 4 * least), 10, 0))
    assert cost(least) == 10.5 / 21
    assert cost(16 * least) == pytest.approx(0.5 / 21)
    assert cost(4 * least) == pytest.approx(np.sqrt(cost(least) * cost(16 * least)))
    assert cost(100) == cost(np.inf) == pytest.approx(cost(16 * least))


@pytest.mark.parametrize(
    ("few", "many", "n", "expected"), [(3, 1, 20, 3.5 / 21), (2, 1, 20, 0), (10, 0, 19, 0), (10, 0, 0, 0)]
)
def test_a_single_mistake_or_too_few_examples_may_be_chance(few: int, many: int, n: int, expected: float) -> None:
    assert costs(with_mistakes((16, 1), few, many, n))(1) == expected
    nothing = with_mistakes((16, 1), few, many, n)
    nothing.left_out[4][:] = -1  # no example is scored as in a small class
    assert costs(nothing)(1) == 0


Photo = tuple[np.ndarray, str, float, tuple[float, float]]
AXES = 2 * np.eye(8)


def photo(row: np.ndarray, looks_like: str = "", lead: float = 0.0, margins: tuple[float, float] = (0, 0)) -> Photo:
    """Return a photo of one location, its rival by leave-one-out, and its margins at the edge and within the photo."""
    return row, looks_like, lead, margins


def advised(classes: dict[str, list[Photo]], grid: tuple[int, int] = (3, 3)) -> list[str]:
    entries = tuple(
        ClassEntry(
            n, name, tuple(Support(Path(f"x/{name}/{place}"), f"{name}{place}", 0, 0) for place in range(len(each)))
        )
        for n, (name, each) in enumerate(classes.items())
    )
    photos = {f"{name}{place}": one for name, each in classes.items() for place, one in enumerate(each)}
    names = list(classes)
    left_out = [s for entry in entries if len(entry.supports) > 1 for s in entry.supports]
    labels = [names.index(entry.name) for entry in entries if len(entry.supports) > 1 for _ in entry.supports]
    errors = np.full((len(left_out), len(names)), 3.0)
    for row, (support, label) in enumerate(zip(left_out, labels, strict=True)):
        _, rival, lead, _ = photos[support.key]
        errors[row, label] = 2
        if rival:
            errors[row, names.index(rival)] = 2 * (1 - lead)

    def error_maps(maps: np.ndarray, key: str) -> np.ndarray:
        own = next(place for place, entry in enumerate(entries) if key in [s.key for s in entry.supports])
        found = np.full((len(names), *grid), 9.0)
        found[own - 1] = 8
        outside, inside = photos[key][3]
        found[own] = 8 - outside * np.square(maps).sum()
        found[own, 1:-1, 1:-1] = 8 - inside * np.square(maps).sum()
        return found

    fake: Any = SimpleNamespace(
        other=None,
        classes=classes,
        names=names,
        head=HEAD,
        state=State(entries),
        left_out=(errors, np.array(labels, dtype=int), None, None, np.full((len(errors), 2), -1.0)),
        left_out_photos=left_out,
        leave_one_out={name: np.full(len(each), 0.5) for name, each in classes.items() if len(each) > 1},
        error_maps=error_maps,
        extractor=SimpleNamespace(
            grid=grid, on_grid=lambda values: np.broadcast_to(values[..., None], (len(values), *grid))
        ),
    )
    return advise(fake, {key: row[None] for key, (row, *_) in photos.items()}.__getitem__)


def same(axis: int, count: int, looks_like: str = "", margins: tuple[float, float] = (0, 0)) -> list[Photo]:
    return [photo(AXES[axis], looks_like, 0.1, margins)] * count


STRAYS = {
    name: [*same(axis, 3), photo(AXES[3] + share * AXES[axis], "d", lead)]
    for axis, (name, share, lead) in enumerate((("a", 0.4, 0.8), ("b", 0.1, 0.1), ("c", 0.15, 0.05)))
} | {"d": same(3, 3)}
"""Each of the first three classes has a photo of the last one, with a part of its own."""
FEW = {
    "f": [*same(0, 3), *same(0, 1, "g"), photo(np.zeros(8), "g", 0.1)],  # three of five are right
    "g": [*same(1, 3), *same(1, 5, "f")],
    "h": same(2, 1),
}
REMOVED = ["remove b/3 from b: it looks like d, and explains ", "remove a/3 from a: it looks like d, and explains "]
WRONG, SINGLE = "add photos to g: 5 of its 8 photos look like another class", "add photos to h: it has a single one"


@pytest.mark.parametrize(
    ("classes", "small", "advice"),
    [
        (STRAYS, [], REMOVED),
        (FEW, [], [WRONG, SINGLE]),
        (STRAYS | FEW, [], [*REMOVED, WRONG]),
        (STRAYS | FEW, ["small"], [*REMOVED, "small"]),
        (FEW, ["small"], [WRONG, "add photos to f: 2 of its 5 photos look like another class", "small"]),
        (
            {
                "a": [*same(0, 1), *same(0, 2, "b"), photo(AXES[1] + 0.2 * AXES[0], "b", 0.3)],
                "b": [*same(1, 1), photo(AXES[1] + 0.3 * AXES[4], "a", 0.1)],
            },
            [],
            [
                "remove a/3 from a: it looks like b, and explains ",
                "add photos to a: 2 of its 4 photos look like another class",
                "add photos to b: 1 of its 2 photos looks like another class",
            ],
        ),
        (  # the 25 classes that explain least of themselves are looked at, first those with one photo
            {**{f"c{place:02}": same(0, 1) for place in range(25)}, "z": same(1, 2, "c00")},
            [],
            ["add photos to c00: it has a single one", "add photos to c01: it has a single one"],
        ),
        (
            {
                "c": [photo(2 * AXES[0]), photo(AXES[0] + 3 * AXES[5]), photo(AXES[0] + 3 * AXES[6])],
                "e": [*same(1, 2), *same(7, 1)],  # either of two gives half
                "f": [*same(2, 1), photo(AXES[2] + 3 * AXES[3])],
            },
            [],
            ["add photos like c/0 to c: it alone gives "],
        ),
    ],
)
def test_most_useful_advice_comes_first(
    classes: dict[str, list[Photo]], small: list[str], advice: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn.inference.lessons.advise_small", lambda _: small)
    given = advised(classes)
    assert [line[: len(start)] for line, start in zip(given, advice, strict=True)] == advice


def test_backgrounds_that_three_quarters_of_a_class_share_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.inference.lessons.MOST", 9)
    clear, faint, filled = (0.3, 0.1), (0.1, 0.1), (0.3, 0.6)
    classes = {
        "p": [*same(0, 12, margins=clear), *same(0, 1)],  # every second one is looked at: 6 of 7
        "q": [*same(1, 3, margins=clear), *same(1, 1, margins=filled)],
        "s": same(2, 3, margins=(0.5, 0.6)),
        "t": same(3, 2, margins=clear),
        "u": [*same(4, 2, margins=clear), *same(4, 2, margins=faint)],
    }
    boxed = [
        f"box the subject in the photos of {which} share a background, which then decides"
        for which in ("s: 3 of 3", "p: 11 of 13", "q: 3 of 4")
    ]
    assert advised(classes) == advised({**classes, "v": [*same(5, 2, margins=clear), *same(5, 1)]}) == boxed
    assert advised({name: classes[name] for name in "pqst"}) == []  # it may be a subject that no other resembles
    assert advised(classes, grid=(2, 3)) == []


def test_other_heads_and_no_classes_have_no_advice() -> None:
    for other, classes in (("proto", {"a": None}), (None, {})):
        assert advise(SimpleNamespace(other=other, classes=classes)) == []  # type: ignore[arg-type]


def test_a_class_whose_photos_share_a_background_is_to_be_boxed(tmp_path: Path) -> None:
    homes = sorted(MOTHS.iterdir())
    noise = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    wall = Image.fromarray(noise).resize((192, 192), Image.Resampling.BICUBIC)
    for number, photo in enumerate(sorted(homes[0].iterdir())):
        scene = wall.copy()
        scene.paste(Image.open(photo).resize((64, 64)), (40 + 12 * number, 96 - 12 * number))
        scene.save(tmp_path / f"{number}.png")
    classes = {home.name: sorted(home.iterdir()) for home in homes[1:]}
    classifier = Classifier(load_extractor("frn-photo", "cpu"), FeatureStore())
    classifier.enroll({**classes, "one place": sorted(tmp_path.iterdir())})
    boxed = [line for line in advise(classifier) if line.startswith("box")]
    assert boxed == ["box the subject in the photos of one place: 5 of 5 share a background, which then decides"]
