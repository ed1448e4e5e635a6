"""Classifiers on pooled features, compared with those in scikit-learn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from torch import Tensor, nn

from frn.episodes import EpisodeShape
from frn.evaluation.episodes import episode_accuracies
from frn.heads.vectors.classical import CLASSICAL, PENALTIES, ClassicalHead, logistic, nearest_neighbours, ridge


def draw(way: int, shot: int, d: int = 12, noise: float = 0.8) -> tuple[Tensor, Tensor]:
    """Make supports (way, shot, d) and queries (way * 6, d) of unit length."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(way, 1, d, generator=generator)
    maps = F.normalize(centres + noise * torch.randn(way, shot + 6, d, generator=generator), dim=-1)
    return maps[:, :shot], maps[:, shot:].flatten(0, 1)


@pytest.mark.parametrize("shot", [1, 4])
def test_logistic_regression_equals_scikit_learn(shot: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.heads.vectors.classical.CS", (10.0,))
    monkeypatch.setattr("frn.heads.vectors.classical.USUAL", 10.0)
    support, query = draw(3, shot)
    examples = support.flatten(0, 1).double().numpy()
    mean = examples.mean(0)
    model = LogisticRegression(C=10, fit_intercept=False, tol=1e-8, max_iter=1000)
    model.fit(examples - mean, np.repeat(np.arange(3), shot))
    expected = model.predict_log_proba(query.numpy() - mean)
    np.testing.assert_allclose(logistic(support, query).log_softmax(-1), expected, atol=2e-3)


def test_ridge_penalty_minimises_the_leave_one_out_error() -> None:
    support, query = draw(4, 5, noise=1.2)
    examples, labels = support.flatten(0, 1).double().numpy(), np.repeat(np.eye(4), 5, axis=0) - 1 / 4
    models = [Ridge(alpha=penalty) for penalty in PENALTIES]
    left_out = [cross_val_predict(model, examples, labels, cv=LeaveOneOut()) for model in models]
    best = models[int(np.argmin([np.square(found - labels).sum() for found in left_out]))].fit(examples, labels)
    np.testing.assert_allclose(ridge(support, query), best.predict(query.double().numpy()), atol=1e-6)


def test_neighbours_vote_by_their_cosine() -> None:
    support = F.normalize(torch.tensor([[[1.0, 0.0], [1.0, 0.2]], [[0.0, 1.0], [-1.0, 0.0]]]), dim=-1)
    scores = nearest_neighbours(support, torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(scores, torch.tensor([[1 + 1 / 1.04**0.5, 0.0]]))


@pytest.mark.parametrize("name", ["baseline", "baseline++"])
def test_baseline_follows_the_official_fit(name: str) -> None:
    """The code of `set_forward_adaptation` and `distLinear`, with the same initial weights and order."""
    support, query = draw(3, 2)
    support, query = 3 * support.double(), 3 * query.double()
    way, shot, d = support.shape
    generator = torch.Generator().manual_seed(0)
    bound = d**-0.5
    weight = nn.Parameter(torch.empty(way, d).uniform_(-bound, bound, generator=generator).double())
    if name == "baseline":
        second = nn.Parameter(torch.empty(way).uniform_(-bound, bound, generator=generator).double())
    else:
        second = nn.Parameter(weight.detach().norm(dim=1, keepdim=True))
    unit = support.square().mean().sqrt()

    def scores(x: Tensor) -> Tensor:
        if name == "baseline":
            return (x / unit) @ weight.T + second
        return 2 * (x / x.norm(dim=1, keepdim=True)) @ (second * weight / weight.norm(dim=1, keepdim=True)).T

    optimizer = torch.optim.SGD([weight, second], lr=0.01, momentum=0.9, dampening=0.9, weight_decay=0.001)
    examples, labels = support.flatten(0, 1), torch.arange(way).repeat_interleave(shot)
    for _ in range(100):
        for chosen in torch.randperm(way * shot, generator=generator).split(4):
            optimizer.zero_grad()
            nn.CrossEntropyLoss()(scores(examples[chosen]), labels[chosen]).backward()
            optimizer.step()
    found = ClassicalHead(CLASSICAL[name])(support[:, :, None], query[:, None])
    torch.testing.assert_close(found, scores(query).detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "shot"), [(name, 1 + 2 * (place % 2)) for place, name in enumerate(CLASSICAL)])
def test_every_classifier_solves_separable_episodes(name: str, shot: int) -> None:
    generator = torch.Generator().manual_seed(1)
    maps = torch.randn(6, 1, 1, 16, generator=generator) + 0.3 * torch.randn(6, 9, 4, 16, generator=generator)
    shape = EpisodeShape(way=5, shot=shot, queries=4)
    head, sizes = ClassicalHead(CLASSICAL[name]), (9,) * 6
    found = episode_accuracies(head, maps.flatten(0, 1), sizes, shape, episodes=range(9), seed=0)
    assert found.mean() > 0.95
