"""Baseline heads, compared with plain formulas and with recorded numbers of official codes."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from torch import Tensor, nn

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.episodes import episode_accuracies
from frn.heads import HEADS, build_head
from frn.heads.ctx import CTXHead
from frn.heads.deepemd import TEMPERATURE, DeepEMDHead, cross_reference
from frn.heads.vectors.classical import CLASSICAL, PENALTIES, ClassicalHead, logistic, nearest_neighbours, ridge
from frn.heads.vectors.prototypes import ROOT_FLOOR, CosineHead, CovarianceHead, ProtoHead, SimpleShotHead
from frn.heads.vectors.regression import DSNHead, RidgeHead
from frn.ridge.reconstruction import location_error
from tests.frn.heads.oracle import Plain, assert_equals, pairwise

WAY, SHOT, R, D, QUERIES = 3, 2, 4, 12, 5
TESTED_ALIKE = [name for name in HEADS if name not in ("deepemd", *CLASSICAL)]
"""All trained heads but DeepEMD, whose SGD batches several shots and passes them no gradient."""
IN_PLACE = ("proto", "proto-tdm", "dsn", "ridge", "bifrn", "lccrn", "mcl")
"""Bi-FRN and LCCRN depend on positions; with few channels, these heads compare corresponding locations."""


def episode() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    support = torch.randn(WAY, SHOT, R, D, generator=generator, dtype=torch.float64)
    return support, torch.randn(QUERIES, R, D, generator=generator, dtype=torch.float64)


def check(head: nn.Module, score: Plain) -> None:
    """Compare a head with a function that scores one query map against the supports of one class, without gamma."""
    gamma = head.double().get_parameter("gamma")
    plain = pairwise(score)
    assert_equals(head, lambda support, query: gamma * plain(support, query), *episode())


def onto_span(q: Tensor, rows: Tensor) -> Tensor:
    """Ridge projection of q onto the span of rows, with the DSN penalty."""
    weights = torch.linalg.solve(rows @ rows.T + 0.01 * torch.eye(len(rows), dtype=rows.dtype), rows @ q)
    return rows.T @ weights


@pytest.mark.parametrize("pooled", [True, False])
def test_protonet_is_the_distance_to_the_mean_of_the_supports(pooled: bool) -> None:
    def score(q: Tensor, s: Tensor) -> Tensor:
        difference = q - s.mean(0)
        return -(difference.mean(0) if pooled else difference).square().mean()

    check(ProtoHead(pooled=pooled), score)


@pytest.mark.parametrize("pooled", [True, False])
def test_dsn_is_the_distance_to_the_span_of_the_supports(pooled: bool) -> None:
    def score(q: Tensor, s: Tensor) -> Tensor:
        point, rows = (q.mean(0), s.mean(1)) if pooled else (q.flatten(), s.flatten(1))
        return -(point - onto_span(point, rows)).square().mean()

    check(DSNHead(pooled=pooled), score)


@pytest.mark.parametrize(("d", "pooled"), [(64, False), (640, True)])
def test_dsn_compares_whole_maps_with_few_channels_as_proto_does(d: int, pooled: bool) -> None:
    dsn, proto = build_head("dsn", d), build_head("proto", d)
    assert isinstance(dsn, DSNHead)
    assert isinstance(proto, ProtoHead)
    assert dsn.pooled == proto.pooled == pooled


def test_dsn_is_frn_with_one_location_and_its_lambda() -> None:
    support, query = episode()
    pool = support.mean(2)
    expected = -location_error(query.mean(1), pool, 0.01, 1.0).T / D
    torch.testing.assert_close(DSNHead(pooled=True).double()(support, query), expected)


def test_ctx_is_equation_12() -> None:
    torch.manual_seed(0)
    head = CTXHead(D).double()
    key, value = head.key.weight, head.value.weight

    def score(q: Tensor, s: Tensor) -> Tensor:
        rows = s.flatten(0, 1)
        errors = []
        for location in q:
            attention = torch.softmax((key @ location) @ (key @ rows.T) / D**0.5, dim=0)
            errors.append((value @ location - value @ rows.T @ attention).square().sum())
        return -torch.stack(errors).mean() / D

    check(head, score)


def test_covariance_compares_square_rooted_second_moments() -> None:
    def rooted(m: Tensor) -> Tensor:
        raw = sum(torch.outer(row, row) for row in m) / R
        return torch.sign(raw) * torch.sqrt(torch.abs(raw) + ROOT_FLOOR)  # type: ignore[arg-type]

    def score(q: Tensor, s: Tensor) -> Tensor:
        prototype = sum(rooted(m) for m in s) / SHOT
        return -(rooted(q) - prototype).square().sum() / D

    check(CovarianceHead(), score)


def test_simpleshot_centres_normalises_and_chooses_the_nearest_centroid() -> None:
    head = SimpleShotHead(D).double()
    head.centre.copy_(torch.linspace(-1, 1, D))

    def score(q: Tensor, s: Tensor) -> Tensor:
        on_sphere = [F.normalize(m.mean(0) - head.centre, dim=0) for m in (q, *s)]
        return -(on_sphere[0] - sum(on_sphere[1:]) / SHOT).square().sum()

    check(head.eval(), score)


def test_simpleshot_centre_is_updated_only_in_training() -> None:
    head, (support, query) = SimpleShotHead(D).double(), episode()
    head.eval()(support, query)
    assert head.centre.abs().max() == 0
    for _ in range(200):
        head.train()(support, query)
    mean = torch.cat([support.mean(2).flatten(0, 1), query.mean(1)]).mean(0)
    torch.testing.assert_close(head.centre, mean, rtol=1e-3, atol=1e-4)


def test_cosine_is_the_nearest_cosine_prototype() -> None:
    def score(q: Tensor, s: Tensor) -> Tensor:
        directions = torch.stack([m.mean(0) / m.mean(0).norm() for m in s]).mean(0)
        return torch.cosine_similarity(q.mean(0), directions, dim=0)

    check(CosineHead(), score)


@pytest.mark.parametrize("pooled", [True, False])
def test_ridge_regresses_the_labels_on_the_features(pooled: bool) -> None:
    head = RidgeHead(pooled=pooled).double()
    for parameter, value in zip((head.log_lam, head.offset, head.gamma), (0.7, 0.3, 1.7), strict=True):
        parameter.data.fill_(value)

    def plain(support: Tensor, query: Tensor) -> Tensor:
        examples, queries = (m.mean(-2) if pooled else m.flatten(-2) for m in (support.flatten(0, 1), query))
        labels = torch.eye(WAY, dtype=torch.float64).repeat_interleave(SHOT, 0)
        identity = torch.eye(examples.shape[1], dtype=torch.float64)  # the primal form; the head uses the dual
        ridge = examples.T @ examples + head.log_lam.exp() * identity
        return head.gamma * (queries @ torch.linalg.solve(ridge, examples.T @ labels)) + head.offset

    assert_equals(head, plain, *episode())


@pytest.mark.parametrize("name", TESTED_ALIKE)
def test_order_of_supports_and_queries_does_not_matter(name: str) -> None:
    torch.manual_seed(0)
    head, (support, query) = build_head(name, D).double().eval(), episode()
    with torch.no_grad():
        logits = head(support, query)
        torch.testing.assert_close(head(support[:, [1, 0]], query), logits)  # supports
        torch.testing.assert_close(head(support[[2, 0, 1]], query), logits[:, [2, 0, 1]])  # classes
        torch.testing.assert_close(head(support, query[[1, 0, 2, 4, 3]]), logits[[1, 0, 2, 4, 3]])  # queries
        if name not in IN_PLACE:
            torch.testing.assert_close(head(support[:, :, [3, 1, 0, 2]], query[:, [3, 1, 0, 2]]), logits)


@pytest.mark.parametrize("name", TESTED_ALIKE)
def test_gradients_are_those_of_the_logits(name: str) -> None:
    torch.manual_seed(0)
    head, (support, query) = build_head(name, D).double().eval(), episode()
    support, query = support[:2].requires_grad_(), query[:2].requires_grad_()
    torch.autograd.gradcheck(head, (support, query), fast_mode=True)
    head(support, query).square().sum().backward()
    for parameter_name, parameter in head.named_parameters():
        assert not parameter.requires_grad or parameter.grad is not None, parameter_name


@pytest.mark.parametrize("name", TESTED_ALIKE)
def test_half_precision_maps_are_compared_in_float32(name: str) -> None:
    torch.manual_seed(0)
    head, (support, query) = build_head(name, D).eval(), episode()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        logits = head(support.bfloat16(), query.bfloat16())
    expected = head(support.bfloat16().float(), query.bfloat16().float())
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected)


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


needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


def maps(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_linear_program(query: Tensor, shots: Tensor) -> Tensor:
    """Compute one logit as in the DeepEMD paper: weights, cosine costs, and a linear program solved by HiGHS.

    The flow is constant in the gradient; its duals are the derivatives of the cost by the weights.
    """
    optimize = pytest.importorskip("scipy.optimize")
    prototype, r = shots[0], len(query)
    supply = torch.stack([(u @ prototype.mean(0)).clamp(min=0) + 1e-3 for u in query])
    demand = torch.stack([(v @ query.mean(0)).clamp(min=0) + 1e-3 for v in prototype])
    limits = torch.cat([supply / supply.sum(), demand / demand.sum()])
    centred = [[u - u.mean() for u in side] for side in (query, prototype)]
    cost = torch.stack([1 - F.cosine_similarity(u, v, dim=0) for u in centred[0] for v in centred[1]])
    sums = np.zeros((2 * r, r * r))
    for i in range(r):
        sums[i, i * r : (i + 1) * r] = 1  # mass that location i sends
        sums[r + i, i::r] = 1  # mass that location i receives
    numbers = [tensor.detach().numpy() for tensor in (cost, limits)]
    program = optimize.linprog(numbers[0], A_eq=sums, b_eq=numbers[1], bounds=(0, None), method="highs-ds")
    flow, duals = torch.from_numpy(program.x), torch.from_numpy(program.eqlin.marginals)
    return TEMPERATURE * (1 - flow @ cost - duals @ (limits - limits.detach()))


@needs_pot
def test_logits_and_gradients_equal_those_of_the_linear_programs() -> None:
    assert_equals(DeepEMDHead(), pairwise(by_linear_program), maps(3, 1, 9, 12), maps(4, 9, 12, seed=1))


def test_locations_that_differ_from_the_other_map_get_little_weight() -> None:
    one, other = torch.tensor([[[1.0, 0], [0, 1], [-1, 0]]]), torch.tensor([[[2.0, 0], [4, 0]]])
    weights = cross_reference(one, other)
    torch.testing.assert_close(weights[0, 0] * 3.003, torch.tensor([3.001, 0.001, 0.001]))


@needs_pot
def test_the_fitted_prototypes_classify_the_supports_better_than_their_mean() -> None:
    support, target = maps(3, 4, 4, 12), torch.arange(3).repeat_interleave(4)
    head = DeepEMDHead(sfc_passes=5, sfc_rate=1)

    def loss(prototypes: Tensor) -> Tensor:
        return F.cross_entropy(head.score(prototypes, support.flatten(0, 1)), target)

    mean = support.mean(1).requires_grad_()
    fitted = head.structured_prototypes(support)
    assert loss(fitted) < 0.8 * loss(mean)
    assert torch.equal(fitted, head.structured_prototypes(support))  # fitting is deterministic
    one_step = DeepEMDHead(sfc_passes=1, sfc_rate=0.5, sfc_batch=12).structured_prototypes(support)
    torch.testing.assert_close(one_step, mean - 0.5 * torch.autograd.grad(loss(mean), mean)[0])


@needs_pot
def test_prototypes_are_also_fitted_if_gradients_are_disabled() -> None:
    support, query = maps(3, 2, 4, 8).float(), maps(2, 4, 8, seed=1).float()
    head = DeepEMDHead(sfc_passes=2)
    expected = head(support, query)
    with torch.inference_mode():
        torch.testing.assert_close(head(support * 1, query * 1), expected)


@needs_pot
def test_several_shots_train_the_backbone_through_the_queries() -> None:
    support, query = maps(2, 2, 4, 8).requires_grad_(), maps(2, 4, 8, seed=1).requires_grad_()
    DeepEMDHead(sfc_passes=1)(support, query)[:, 0].sum().backward()
    assert support.grad is None
    assert query.grad is not None
    assert query.grad.abs().max() > 0


def test_missing_solver_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(FrnError, match=r"needs POT for its linear programs: .* -m pip install"):
        DeepEMDHead()(maps(2, 1, 4, 8), maps(1, 4, 8))
