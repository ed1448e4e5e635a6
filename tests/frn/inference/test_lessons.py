"""What examples are worth, and the changes that follow from it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from frn.estimator.loading import load_extractor
from frn.features.feature_cache import FeatureStore
from frn.inference.classifier import Classifier
from frn.inference.explanation import contributions
from frn.inference.lessons import advise, advise_small, costs, worth
from frn.ridge.parameters import HeadParameters
from tests.drawings import DRAWINGS

MOTHS = DRAWINGS / "moths"
pytestmark = pytest.mark.usefixtures("warm_cache")
HEAD = HeadParameters(0.3, -0.2, 20.0)


@pytest.mark.parametrize("d", [5, 50])  # more and fewer locations than channels
def test_worth_is_the_mean_of_what_examples_contribute_to_photos(d: int) -> None:
    draws = np.random.default_rng(0)
    pools = [draws.random((k, 4, d)) for k in (3, 1, 2)]
    for label, found in enumerate(worth(pools, HEAD)):
        pool, k = pools[label], len(pools[label])
        others = [each for place, each in enumerate(pools) if place != label]
        expected = [_mean_share(pool, list(other)) for other in others]
        np.testing.assert_allclose(found.others, np.mean(expected, 0), rtol=1e-9)
        own = np.full((k, k), np.nan)
        for place in range(k):
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


def test_small_classes_cost_accuracy_that_more_photos_gain() -> None:
    """Of twenty examples, all are right with all 16 photos of their class, and ten with one."""
    errors, labels = np.full((20, 3), 2.0), np.zeros(20, dtype=int)
    errors[:, 0] = 1.0
    smaller = np.column_stack([np.where(np.arange(20) < 10, 3.0, 1.5), np.ones(20)])
    left_out = errors, labels, np.ones(20), errors, smaller
    entries = [SimpleNamespace(supports=[None] * count) for count in (16, 1, 4)]

    def cost(count: float, rows: slice = slice(None), left_out: tuple[np.ndarray, ...] = left_out) -> float:
        classifier = SimpleNamespace(left_out=[each[rows] for each in left_out], state=SimpleNamespace(classes=entries))
        return costs(classifier)(count)  # type: ignore[arg-type]

    for counts, words in (
        ((16, 1, 4), "add photos to b: a single photo costs about 48 points of accuracy there; 4 more gain about"),
        ((16, 2, 2), "add photos to b and 1 other: 2 photos cost about"),
        (
            (16, 1, 1, 1),
            "add photos to b and 2 others: a single photo costs about 48 points of accuracy there; 4 more each",
        ),
    ):
        named = [SimpleNamespace(name=name, supports=[None] * k) for name, k in zip("abcd", counts, strict=False)]
        classifier = SimpleNamespace(left_out=left_out, state=SimpleNamespace(classes=named))
        (line,) = advise_small(classifier)  # type: ignore[arg-type]
        assert line.startswith(words)
    assert cost(1) == 10.5 / 21
    assert cost(16) == pytest.approx(0.5 / 21)
    assert cost(4) == pytest.approx(np.sqrt(cost(1) * cost(16)))
    assert cost(100) == cost(np.inf) == pytest.approx(cost(16))
    assert cost(1, slice(9, 20)) == 0  # a single mistake may be chance
    assert cost(1, slice(19)) == 0
    assert cost(1, left_out=(*left_out[:4], np.full((20, 2), -1.0))) == 0  # no example is scored as in a small class


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
