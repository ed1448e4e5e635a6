"""Accuracy over episodes, from images, arrays and enrolled classes."""

import json
import math
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frn.episodes import EpisodeShape, evaluation_episode
from frn.episodes.loader import EpisodeSampler
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, summarise
from frn.evaluation.arrays import evaluate
from frn.evaluation.episodes import enrolled_accuracies, episode_accuracies, episode_scorer, unequal_queries
from frn.evaluation.features import OnnxExtractor, TorchExtractor, turned_back
from frn.features.extractor import Extractor
from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.models.model import load_model
from frn.models.zoo import shipped_extractors
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import Prior
from tests.models import small_model

SIZES = (9, 12, 8, 10, 11, 9)
SHAPE = EpisodeShape(way=4, shot=2, queries=3)


def evaluate_episodes(head: Head, maps: torch.Tensor, *, episodes: int, **options: Any) -> Accuracy:
    return summarise(episode_accuracies(head, maps, SIZES, SHAPE, episodes=range(episodes), **options))


def class_maps(r: int = 9, d: int = 32) -> Tensor:
    """Make feature maps whose classes are separable, but not perfectly."""
    centres = torch.randn(len(SIZES), 1, r, d)
    return torch.cat(
        [centre + 4.0 * torch.randn(size, r, d) for centre, size in zip(centres, SIZES, strict=True)]
    ).relu()


def test_accuracy_and_interval_follow_the_paper() -> None:
    correct = [1.0, 0.5, 0.75, 0.25]
    accuracy = summarise(correct)
    assert accuracy.mean == 62.5
    assert accuracy.ci95 == pytest.approx(1.96 * 100 * np.std(correct) / math.sqrt(4))


@pytest.mark.parametrize("method", ["frn", "proto"])
def test_cached_features_give_the_same_scores_as_the_head(method: str) -> None:
    maps, head = class_maps(), build_head(method, 32)
    sampled = np.stack([evaluation_episode(SIZES, SHAPE, seed=0, index=i) for i in range(11)])
    with torch.no_grad():
        logits = episode_scorer(head, maps, SHAPE)(torch.from_numpy(sampled))
        for episode, scored in zip(sampled, logits, strict=True):
            rows = torch.from_numpy(episode)
            expected = head(maps[rows[:, :2]], maps[rows[:, 2:].flatten()])
            torch.testing.assert_close(scored, expected, rtol=1e-4, atol=1e-4)


def test_the_same_seed_gives_exactly_the_same_number() -> None:
    maps, head = class_maps(), FRNHead()
    first, again = (evaluate_episodes(head, maps, episodes=101, seed=5) for _ in range(2))
    other = evaluate_episodes(head, maps, episodes=101, seed=6)
    assert first == again
    assert first.mean != other.mean


def test_exported_file_cannot_provide_a_head_with_layers() -> None:
    from frn_export.graphs.backbone import features_graph

    from frn.errors import FrnError
    from frn.evaluation.features import OnnxExtractor
    from frn.features.extractor import Extractor

    def exported(method: str) -> OnnxExtractor:
        graph = features_graph(small_model(method)).SerializeToString()
        return OnnxExtractor(Extractor(graph, "m.onnx", threads=1))

    with pytest.raises(
        FrnError, match=r"exported ctx model does not contain its whole head \(key.weight, value.weight\)"
    ):
        exported("ctx").new_head()
    for method in ("frn", "proto", "dsn", "ridge"):
        assert type(exported(method).new_head()) is type(build_head(method, 64))


def test_some_of_the_episodes_have_the_accuracies_of_all() -> None:
    maps, head = class_maps(), FRNHead()
    ranges = range(30), range(5, 22)
    whole, some = (episode_accuracies(head, maps, SIZES, SHAPE, episodes=each, seed=0) for each in ranges)
    np.testing.assert_array_equal(some, whole[5:22])
    assert set(np.round(12 * whole, 9)) <= set(range(13))


def test_threads_are_restored_and_an_error_stops_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, scored = torch.get_num_threads(), list[int]()

    def stop(*_: int) -> None:
        raise InterruptedError

    def drawn(*drawing: Any, **how: Any) -> Any:
        scored.append(1)
        return evaluation_episode(*drawing, **how)

    monkeypatch.setattr("frn.evaluation.episodes.evaluation_episode", drawn)
    torch.set_num_threads(2)
    try:
        with pytest.raises(InterruptedError):
            evaluate_episodes(FRNHead(), class_maps(), episodes=4000, seed=0, progress=stop)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert 0 < len(scored) < 3200


@pytest.mark.parametrize("shot", [1, 4])
def test_enrolled_episodes_choose_their_own_alpha_and_gamma(shot: int) -> None:
    generator = np.random.default_rng(0)
    own = generator.standard_normal((6, 1, 1, 24))
    maps = (own + 0.3 * generator.standard_normal((6, 12, 9, 24))).reshape(-1, 9, 24).astype(np.float32)
    shape = EpisodeShape(way=4, shot=shot, queries=5)
    prior = Prior.trained(HeadParameters(1.0, 0.0, 2.0))
    shares = enrolled_accuracies(prior, maps, (12,) * 6, shape, episodes=range(8), seed=3)
    assert (shares > 0.95).all()
    again = enrolled_accuracies(prior, maps, (12,) * 6, shape, episodes=range(5, 8), seed=3)
    np.testing.assert_array_equal(again, shares[5:])


def test_transductive_accuracy_is_measured_on_the_same_queries() -> None:
    generator = np.random.default_rng(0)
    own = generator.standard_normal((6, 1, 4, 96))
    maps = (own + 2 * generator.standard_normal((6, 30, 4, 96))).reshape(-1, 4, 96).astype(np.float32)
    maps /= 10
    prior = Prior.trained(HeadParameters(4.0, 0.2, 20.0))
    shape = EpisodeShape(way=4, shot=1, queries=15)
    shares = enrolled_accuracies(prior, maps, (30,) * 6, shape, episodes=range(6), seed=3, transductive=True)
    plain = enrolled_accuracies(prior, maps, (30,) * 6, shape, episodes=range(6), seed=3)
    assert shares.shape == (6, 4)
    np.testing.assert_array_equal(shares[:, :1], plain)
    assert shares[:, 1].mean() > shares[:, 0].mean() + 0.05
    assert shares[:, 3].mean() > shares[:, 2].mean()


UNEQUAL = (30, 12, 25, 40)


@pytest.mark.parametrize(("index", "counts"), [(0, [9, 10, 5]), (1, [14, 0, 10]), (2, [9, 10, 5])])
def test_unequal_queries_are_the_recorded_ones(index: int, counts: list[int]) -> None:
    shape = EpisodeShape(way=3, shot=2, queries=8)
    drawn = evaluation_episode(UNEQUAL, shape, seed=0, index=index)
    found = unequal_queries(drawn, UNEQUAL, shape, np.random.default_rng([0, index]))
    assert [len(own) for own in found] == counts
    ends = np.cumsum(UNEQUAL)
    for supports, own in zip(drawn[:, :2], found, strict=True):
        assert len(set(own)) == len(own)
        assert not set(own) & set(supports)
        assert set(np.searchsorted(ends, own, side="right")) <= {np.searchsorted(ends, supports[0], side="right")}


def test_a_small_class_gives_all_its_other_images() -> None:
    shape = EpisodeShape(way=2, shot=2, queries=8)
    for index in range(20):
        drawn = evaluation_episode((10, 10), shape, seed=0, index=index)
        first, second = unequal_queries(drawn, (10, 10), shape, np.random.default_rng(index))
        assert len(first) + len(second) <= 16
        assert max(len(first), len(second)) == 8
        if len(first) == 8:
            assert set(first) | set(drawn[0, :2]) == set(
                range(10 * int(drawn[0, 0] >= 10), 10 + 10 * int(drawn[0, 0] >= 10))
            )


class Pixels(list[np.typing.NDArray[np.uint8]]):
    """Stored images, without their file."""

    def images(self) -> np.typing.NDArray[np.uint8]:
        return np.stack(self)


def noise(count: int) -> Any:
    return Pixels(np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8))


@pytest.fixture(params=["torch", "onnx"])
def extractors(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """The same model without and with mirror images."""
    if request.param == "torch":
        return TorchExtractor(small_model()), TorchExtractor(small_model(), tta="hflip")
    exported = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    return OnnxExtractor(exported), OnnxExtractor(exported, tta="hflip")


def test_maps_are_computed_in_batches_with_progress(
    extractors: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, seen = noise(10), []
    whole = extractors[0].extract(images)
    monkeypatch.setattr("frn.evaluation.features.BATCH", 4)
    found = extractors[0].extract(images, lambda *done: seen.append(done))
    torch.testing.assert_close(found, whole)
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_mirrored_maps_are_the_mean_of_both_orientations(extractors: tuple[Any, Any]) -> None:
    torch.manual_seed(0)
    plain, mirrored = extractors
    if isinstance(plain, TorchExtractor):
        mirrored.model.load_state_dict(plain.model.state_dict())
    images = noise(3)
    flipped = Pixels([each[:, ::-1] for each in images])
    other = turned_back(plain.extract(flipped), (4, 4))
    torch.testing.assert_close(mirrored.extract(images), (plain.extract(images) + other) / 2)


def test_torch_and_exported_models_scale_pixels_by_255() -> None:
    exported = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    model, images = load_model("conv4"), noise(2)
    pixels = torch.from_numpy(images.images()).permute(0, 3, 1, 2).double() / 255
    with torch.no_grad():
        expected = model.feature_maps(pixels.float())
    torch.testing.assert_close(TorchExtractor(model).extract(images), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(OnnxExtractor(exported).extract(images), expected, rtol=1e-4, atol=1e-5)


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
