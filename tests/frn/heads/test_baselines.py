"""The baselines from the paper and the literature: logits and gradients, compared in float64 with plain formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads import HEADS, build_head
from frn.heads.ctx import CTXHead
from frn.heads.vectors.classical import CLASSICAL
from frn.heads.vectors.prototypes import ROOT_FLOOR, CosineHead, CovarianceHead, ProtoHead, SimpleShotHead
from frn.heads.vectors.regression import DSNHead, RidgeHead
from frn.ridge.reconstruction import location_error
from tests.frn.heads.oracle import Plain, assert_equals, pairwise

WAY, SHOT, R, D, QUERIES = 3, 2, 4, 12, 5
TESTED_ALIKE = [name for name in HEADS if name not in ("deepemd", *CLASSICAL)]
"""All trained heads but DeepEMD, whose SGD batches several shots and passes them no gradient: see `test_deepemd.py`."""
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
