"""Features from elsewhere: shapes and types are checked, and problems give a one-line error."""

import json
import time
from typing import Any

import numpy as np
import pytest

from frn.episodes.loader import EpisodeSampler
from frn.errors import FrnError
from frn.evaluation.arrays import evaluate

LABELS = [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("shot", [np.int64(1), np.array([1, 2])], ids=["one", "several"])
def test_numpy_shots_become_integers_in_results(shot: Any) -> None:
    results = evaluate(np.eye(6), LABELS, way=2, shot=shot, queries=1, episodes=2)
    assert [entry["shot"] for entry in json.loads(json.dumps(results))] == np.atleast_1d(shot).tolist()


@pytest.mark.nightly
def test_default_protocol_follows_the_paper() -> None:
    maps, began = np.random.default_rng(0).standard_normal((5 * 21, 2)), time.perf_counter()
    results = evaluate(maps, np.repeat(np.arange(5), 21))
    assert [(each["way"], each["shot"], each["queries"], each["episodes"]) for each in results] == [
        (5, 1, 16, 10_000),
        (5, 5, 16, 10_000),
    ]
    assert 0 < sum(each["seconds"] for each in results) <= time.perf_counter() - began + 0.001  # each is rounded


def test_episodes_have_seed_0_unless_another_is_given() -> None:
    maps, labels = np.random.default_rng(0).standard_normal((5 * 21, 2)), np.repeat(np.arange(5), 21)
    default = evaluate(maps, labels, shot=1, episodes=100)[0]["accuracy"]
    accuracies = [evaluate(maps, labels, shot=1, episodes=100, seed=seed)[0]["accuracy"] for seed in (0, 1)]
    assert default == accuracies[0] != accuracies[1]


def test_accuracy_requires_an_episode() -> None:
    with pytest.raises(FrnError, match="needs episodes >= 1, not 0"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=0)


def test_validation_classes_that_are_too_small_are_reported() -> None:
    with pytest.raises(FrnError, match=r"the validation features.*'?b'?"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=2, validation=(np.eye(6), list("aaaaab")))
    with pytest.raises(FrnError, match=r"the validation features.*'?c'?"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=2, validation=(np.eye(6), list("aabbbc")))


def test_feature_scale_does_not_change_heads_or_accuracy() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 8)
    maps, others = (generator.standard_normal((4, 16))[labels] + generator.standard_normal((32, 16)) for _ in range(2))
    found = [
        evaluate(unit * maps, labels, way=3, shot=2, queries=4, episodes=20, validation=(unit * others, labels))[0]
        for unit in (1.0, 8.0)
    ]
    assert found[0]["accuracy"] == found[1]["accuracy"]
    assert found[0]["head"] == pytest.approx(found[1]["head"])
    assert found[0]["accuracy"] != evaluate(maps, labels, way=3, shot=2, queries=4, episodes=20)[0]["accuracy"]


def test_maps_of_rows_and_columns_are_maps_of_locations() -> None:
    generator, labels = np.random.default_rng(0), np.tile(np.arange(4), 8)
    maps = generator.standard_normal((4, 6, 2, 2))[labels] + 2 * generator.standard_normal((32, 6, 2, 2))
    options: dict[str, Any] = {"way": 3, "shot": 2, "queries": 4, "episodes": 20}
    of_locations = maps.reshape(32, 6, 4).transpose(0, 2, 1)
    assert evaluate(maps, labels, **options)[0]["accuracy"] == evaluate(of_locations, labels, **options)[0]["accuracy"]
    mixed = maps.reshape(32, 4, 6)
    assert evaluate(maps, labels, **options)[0]["accuracy"] != evaluate(mixed, labels, **options)[0]["accuracy"]


@pytest.mark.parametrize("labels", [[10, 9, 2] * 4, ["b", "c", "a"] * 4, [0.5, 0.1, 2.0] * 4])
def test_episodes_depend_only_on_which_images_are_alike(labels: list[Any]) -> None:
    maps = np.random.default_rng(0).standard_normal((12, 4))
    options: dict[str, Any] = {"way": 2, "shot": 1, "queries": 2, "episodes": 20, "method": "nearest-mean"}
    assert evaluate(maps, labels, **options)[0]["accuracy"] == evaluate(maps, [0, 1, 2] * 4, **options)[0]["accuracy"]
    samplers = [
        EpisodeSampler(maps, way=2, shot=1, queries=2, episodes=3, labels=each) for each in (labels, list("abc" * 4))
    ]
    assert list(samplers[0]) == list(samplers[1])


@pytest.mark.parametrize(
    ("features", "labels", "reason"),
    [
        (np.ones(6), LABELS, r"or \(n, d, h, w\) with n labels, not \(6,\) with labels \(6,\)"),
        (np.ones((6, 1, 1, 1, 1)), LABELS, r"not \(6, 1, 1, 1, 1\) with labels \(6,\)"),
        (np.ones((6, 0)), LABELS, r"not \(6, 1, 0\) with labels \(6,\)"),
        (np.ones((6, 4)), LABELS[:5], r"not \(6, 1, 4\) with labels \(5,\)"),
        (np.ones((6, 4)), [LABELS], r"not \(6, 1, 4\) with labels \(1, 6\)"),
        (np.full((6, 4), np.inf), LABELS, "the features are not all finite numbers"),
        (np.array(["a"] * 6), LABELS, "the features are <U1, not numbers"),
        (np.ones((6, 4)), np.ones(6, complex), "the labels are complex128, not numbers or names"),
        ([[1.0], [1.0, 2.0]], LABELS[:2], "the features or labels are not an array"),
    ],
)
def test_unsuitable_features_and_labels_are_described(features: Any, labels: Any, reason: str) -> None:
    with pytest.raises(FrnError, match=reason):
        evaluate(features, labels, way=2, shot=1, queries=1, episodes=1)


def test_labels_may_be_of_several_types() -> None:
    mixed = np.array(["a", "a", None, None, 1, 1], dtype=object)
    (result,) = evaluate(np.eye(6), mixed, way=2, shot=1, queries=1, episodes=1)
    assert result["way"] == 2


def test_simpleshot_is_centred_on_the_validation_features() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 10)
    features = np.eye(5)[labels] + 0.3 * generator.standard_normal((50, 5))
    options: dict[str, Any] = {"shot": 1, "queries": 5, "episodes": 50}
    expected = evaluate(features, labels, method="simpleshot", validation=(features, labels), **options)
    offset = evaluate(features + 20, labels, method="simpleshot", validation=(features + 20, labels), **options)
    assert offset[0]["accuracy"] == expected[0]["accuracy"]
    assert offset[0]["accuracy"] > 50
    with pytest.raises(FrnError, match="subtracts the mean of other images: give their features as validation"):
        evaluate(features, labels, method="simpleshot", **options)
    with pytest.raises(FrnError, match="the validation features have 4 channels, the features 5"):
        evaluate(features, labels, validation=(features[:, :4], labels), **options)


def test_features_of_zeros_are_evaluated() -> None:
    (result,) = evaluate(np.zeros((6, 4)), LABELS, way=2, shot=1, queries=1, episodes=1)
    assert result["accuracy"] == 50


def test_classes_that_are_too_small_are_reported() -> None:
    for labels in ([0, 0, 0, 0, 0, 1], [0, 0, 2, 2, 2, 1]):  # even if two others are large enough
        with pytest.raises(FrnError, match=r"the features.*'?1'?"):
            evaluate(np.eye(6), labels, way=2, shot=1, queries=1, episodes=2)
