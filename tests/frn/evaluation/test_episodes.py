"""Accuracy over episodes from cached features."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.accuracy import Accuracy, summarise
from frn.evaluation.episodes import episode_accuracies, episode_scorer
from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.heads.head import Head
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
