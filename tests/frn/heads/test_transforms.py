"""Every head under torch's compiler, exporter, transforms and higher-order gradients."""

import shutil
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from frn.heads import HEADS, Head, build_head
from frn.heads.frn import FRNHead
from frn.models.wrapper import FRN
from frn.ridge.reconstruction import class_error, moment_error, whitened_error

WAY, R, D, QUERIES = 3, 4, 12, 5
pytestmark = pytest.mark.nightly

SHOTS = pytest.mark.parametrize("shot", [1, 5])  # with p below d and above d
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
FREE = torch.export.Dim.DYNAMIC


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def episode(shot: int, way: int = WAY, queries: int = QUERIES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(way, shot, R, D, generator=generator), torch.randn(queries, R, D, generator=generator)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def compiles(head: Head) -> None:
    """Without a graph break."""
    support, query = (maps.requires_grad_() for maps in episode(2))
    assert_near(torch.compile(head, fullgraph=True, backend="eager")(support, query), head(support, query))


def exports(head: Head) -> None:
    """With free numbers of classes, shots and queries, for p below and above d."""
    free = ({0: FREE, 1: FREE}, {0: FREE})
    program = torch.export.export(head, episode(2), dynamic_shapes=free).module()
    for way, shot, queries in ((3, 2, 5), (5, 1, 7), (2, 5, 3), (7, 6, 40)):
        maps = episode(shot, way, queries)
        assert_near(program(*maps), head(*maps))


def batches(head: Head) -> None:
    for shot in (1, 5):
        support, query = episode(shot)
        supports, queries = torch.stack([support, support.flip(0)]), torch.stack([query, 2 * query])
        together = torch.vmap(head)(supports, queries)
        assert_near(together, torch.stack([head(s, q) for s, q in zip(supports, queries, strict=True)]))


def has_jacobian(head: Head) -> None:
    for shot in (1, 5):
        support, query = episode(shot)
        jacobian = torch.func.jacrev(lambda maps, support=support: head(support, maps))(query)
        maps = query.requires_grad_()
        expected = torch.autograd.grad(head(support, maps).sum(), maps)[0]
        torch.testing.assert_close(jacobian.sum((0, 1)), expected, rtol=1e-3, atol=1e-3)


def has_second_gradients(head: Head) -> None:
    support, query = (maps.double().requires_grad_() for maps in episode(2, 2, 2))
    torch.autograd.gradgradcheck(head.double(), (support, query), fast_mode=True)


def takes_unequal_shots(head: Head) -> None:
    """Each class counts as if its supports were repeated equally often, up to the same number."""
    support, query = episode(6)
    pools = [maps[:shot] for maps, shot in zip(support, (1, 2, 3), strict=True)]
    repeated = torch.stack([pool.repeat(6 // len(pool), 1, 1) for pool in pools])
    torch.testing.assert_close(head.compare(pools, query), head(repeated, query), rtol=1e-3, atol=1e-3)


CHECKS: dict[str, Callable[[Head], None]] = {
    "torch.compile": compiles,
    "torch.export": exports,
    "vmap": batches,
    "jacrev": has_jacobian,
    "second gradients": has_second_gradients,
    "unequal shots": takes_unequal_shots,
}
SOLVER = "a solver on the processor computes the transport"
SGD = "SGD fits a layer to the supports"
CHOICE = "the penalty is chosen by value"
ROWS = "one fit sees each support as a row: |X W - Y|^2 counts the copy of a support as another support"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "deepemd": dict.fromkeys(CHECKS, SOLVER) | {"unequal shots": SGD},
    "baseline": dict.fromkeys(CHECKS, SGD),
    "baseline++": dict.fromkeys(CHECKS, SGD),
    "logreg": {
        **dict.fromkeys(("torch.compile", "torch.export", "vmap", "second gradients"), CHOICE),
        "unequal shots": ROWS,
    },
    "ridge-loo": {"torch.export": "with one shot there is no penalty to choose", "unequal shots": ROWS},
    "ridge": {"unequal shots": ROWS},
    "knn": {"unequal shots": "a class of k supports has at most k of the nearest, so votes grow with k"},
    "bifrn": {"unequal shots": "the supports' error is a sum over k maps, so it grows with k"},
    "frn-tdm": {"unequal shots": "the weights compare the classes' means, the errors need all rows of each class"},
}
"""What a head cannot do, and why."""


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", HEADS)
def test_head_is_plain_torch(name: str, check: str) -> None:
    torch.manual_seed(0)
    head = build_head(name, D).eval()
    if reason := EXCEPTIONS.get(name, {}).get(check):
        pytest.skip(reason)
    CHECKS[check](head)


def test_compiled_head_has_the_gradients_of_its_parameters() -> None:
    head, maps = FRNHead(), episode(1)
    logits = (torch.compile(head, fullgraph=True, backend="aot_eager")(*maps), head(*maps))
    gradients = [torch.autograd.grad(each.square().sum(), head.alpha)[0] for each in logits]
    assert_near(*gradients)


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
    """Labels are read to gather the classes, which breaks the graph."""
    model = FRN(nn.Conv2d(3, D, 3, stride=2))
    support, labels, query = torch.randn(4, 3, 9, 9), torch.tensor([0, 0, 1, 1]), torch.randn(2, 3, 9, 9)
    logits = torch.compile(model, backend=backend)(support, labels, query)
    assert_near(logits, model(support, labels, query))
    logits.logsumexp(1).sum().backward()


def test_network_without_labels_is_one_graph_and_exports() -> None:
    model = FRN(nn.Conv2d(3, D, 3, stride=2)).eval()
    support, query = torch.randn(2, 3, 3, 9, 9), torch.randn(4, 3, 9, 9)
    expected = model(support.flatten(0, 1), torch.arange(2).repeat_interleave(3), query)
    assert_near(model(support, query=query), expected)
    assert_near(torch.compile(model, fullgraph=True, backend="aot_eager")(support, None, query), expected)
    free = {"support": {0: FREE, 1: FREE}, "labels": None, "query": {0: FREE}}
    program = torch.export.export(model, (support, None, query), dynamic_shapes=free).module()
    one_shot = torch.randn(5, 1, 3, 9, 9)
    assert_near(program(one_shot, None, query[:2]), model(one_shot, query=query[:2]))


@SHOTS
def test_vmap_accepts_several_lambdas(shot: int) -> None:
    support, query = episode(shot)
    lams = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    pool = support.flatten(1, 2)
    together = torch.vmap(lambda lam: class_error(query, pool, lam, 1.0))(lams)
    assert_near(together, torch.stack([class_error(query, pool, lam, 1.0) for lam in lams]))


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
