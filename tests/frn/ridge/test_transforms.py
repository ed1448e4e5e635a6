"""The head under torch's compiler, exporter, transforms and higher-order gradients."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from frn.heads.frn import FRNHead
from frn.models.wrapper import FRN
from frn.ridge.reconstruction import class_error, moment_error, whitened_error
from tests.frn.backbones.test_compiled import needs_compiler

WAY, R, D, QUERIES = 3, 4, 12, 5
SHOTS = pytest.mark.parametrize("shot", [1, 5])  # with p below d and above d


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def episode(shot: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(WAY, shot, R, D, generator=generator), torch.randn(QUERIES, R, D, generator=generator)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gradient", [True, False])
def test_head_compiles_as_one_graph(gradient: bool) -> None:
    head, (support, query) = FRNHead(), episode(1)
    with torch.set_grad_enabled(gradient):
        logits = torch.compile(head, fullgraph=True, backend="aot_eager")(support, query)
        assert_near(logits, head(support, query))
    if gradient:
        compiled = torch.autograd.grad(logits.square().sum(), head.alpha)[0]
        assert_near(compiled, torch.autograd.grad(head(support, query).square().sum(), head.alpha)[0])


@needs_compiler
@pytest.mark.parametrize(("shot", "gradient"), [(1, False), (5, True)])  # each takes ten seconds
def test_head_compiles_with_inductor(shot: int, gradient: bool) -> None:
    head, (support, query) = FRNHead(), episode(shot)
    with torch.set_grad_enabled(gradient):
        logits, expected = torch.compile(head, fullgraph=True)(support, query), head(support, query)
    assert_near(logits, expected)
    if gradient:
        gradients = [torch.autograd.grad(each.square().sum(), head.alpha)[0] for each in (logits, expected)]
        assert_near(*gradients)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch runs it eagerly after a graph break
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, needs_compiler])])
def test_network_compiles(backend: str) -> None:
    """The head breaks the graph here, because it reads labels to gather the classes."""
    model = FRN(nn.Conv2d(3, D, 3, stride=2))
    support, labels, query = torch.randn(4, 3, 9, 9), torch.tensor([0, 0, 1, 1]), torch.randn(2, 3, 9, 9)
    logits = torch.compile(model, backend=backend)(support, labels, query)
    assert_near(logits, model(support, labels, query))
    logits.logsumexp(1).sum().backward()


@SHOTS
def test_head_exports(shot: int) -> None:
    head, (support, query) = FRNHead(), episode(shot)
    assert_near(torch.export.export(head, (support, query)).module()(support, query), head(support, query))


@SHOTS
@pytest.mark.parametrize("gradient", [True, False])
def test_vmap_scores_each_episode(shot: int, gradient: bool) -> None:
    head, (support, query) = FRNHead(), episode(shot)
    supports, queries = torch.stack([support, support.flip(0)]), torch.stack([query, 2 * query])
    with torch.set_grad_enabled(gradient):
        together = torch.vmap(head)(supports, queries)
        assert_near(together, torch.stack([head(s, q) for s, q in zip(supports, queries, strict=True)]))


@SHOTS
def test_vmap_accepts_several_lambdas(shot: int) -> None:
    support, query = episode(shot)
    lams = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    pool = support.flatten(1, 2)
    together = torch.vmap(lambda lam: class_error(query, pool, lam, 1.0))(lams)
    assert_near(together, torch.stack([class_error(query, pool, lam, 1.0) for lam in lams]))


@SHOTS
def test_jacrev_equals_the_gradient(shot: int) -> None:
    head, (support, query) = FRNHead(), episode(shot)
    jacobian = torch.func.jacrev(lambda maps: head(support, maps))(query)
    maps = query.requires_grad_()
    assert_near(jacobian.sum((0, 1)), torch.autograd.grad(head(support, maps).sum(), maps)[0])


@pytest.mark.parametrize(
    ("error", "shape"), [(whitened_error, (2, 3, 4)), (moment_error, (2, 3, 4)), (moment_error, (2, 5, 4))]
)
def test_second_gradients_equal_the_formula(error: object, shape: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn((2, 2, 4) if error is moment_error else (3, 4), generator=generator, dtype=torch.float64)
    pool = torch.randn(shape, generator=generator, dtype=torch.float64)
    lam, rho = (torch.tensor(value, dtype=torch.float64) for value in (0.7, 0.9))
    inputs = tuple(tensor.requires_grad_() for tensor in (query, pool, lam, rho))
    assert callable(error)
    torch.autograd.gradcheck(error, inputs)
    torch.autograd.gradgradcheck(error, inputs)
