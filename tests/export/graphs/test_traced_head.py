"""Linear algebra that ONNX lacks, in traced heads, compared with torch."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from frn_export.graphs.traced_head import traced_head_graph
from torch import Tensor

from frn.errors import FrnError
from frn.features.onnx_runtime import TRACED_HEAD, open_session, run_session
from frn.heads import Head

D = 4


def graph_of(head: Head) -> onnx.ModelProto:
    """Trace a head over maps of 1 x 2 locations."""
    model: Any = SimpleNamespace(grid=(1, 2), d=D, config=SimpleNamespace(method="own"), head=head)
    return traced_head_graph(model)


class Traced:
    """A traced head in onnxruntime."""

    def __init__(self, head: Head) -> None:
        self.session = open_session(graph_of(head).SerializeToString(), "head.onnx", device="cpu")

    def __call__(self, support: Tensor, query: Tensor) -> np.ndarray:
        inputs = {"support": support.numpy(), "query": query.numpy()}
        (logits,) = run_session(self.session, ["logits"], inputs)
        return logits


class Solving(Head):
    """Logits 2 q^T A^-1 q for each query's mean q and A = S^T S + I of each class."""

    def __init__(self, solve: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.solve = solve
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        pool = support.flatten(1, 2)
        system = pool.mT @ pool + torch.eye(D, dtype=pool.dtype)
        right = query.mean(1).mT.expand(system.shape[0], -1, -1)  # way, d, q
        return self.scale * self.solve(system, right).sum(1).mT


def by_triangle(system: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(torch.linalg.cholesky(system), right, upper=False).square()


def by_turned_system(system: Tensor, right: Tensor) -> Tensor:
    turn = torch.tensor([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 2], [0, 0, -2, 0]])
    return right * torch.linalg.solve(system + turn, right)


SOLUTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cholesky_solve": lambda system, right: right * torch.cholesky_solve(right, torch.linalg.cholesky(system)),
    "cholesky_ex": lambda system, right: right * torch.cholesky_solve(right, torch.linalg.cholesky_ex(system)[0]),
    "cholesky_inverse": lambda system, right: right * (torch.cholesky_inverse(torch.linalg.cholesky(system)) @ right),
    "solve_triangular": by_triangle,
    "solve": by_turned_system,
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solution_equals_that_of_torch_for_any_episode(name: str) -> None:
    head = Solving(SOLUTIONS[name])
    run = Traced(head)
    torch.manual_seed(0)
    for way, shot, queries in ((3, 2, 4), (1, 5, 2), (6, 1, 1)):
        support, query = torch.randn(way, shot, 2, D), torch.randn(queries, 2, D)
        with torch.no_grad():
            expected = head(support, query).numpy()
        np.testing.assert_allclose(run(support, query), expected, rtol=1e-4, atol=1e-5)


class Failing(Head):
    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        system = support[:, 0, 0, :, None] * torch.eye(D)
        failed = torch.linalg.cholesky_ex(system)[1]
        return failed.float().expand(query.shape[0], -1)


def test_system_with_nan_is_reported_as_failed() -> None:
    support = torch.ones(3, 1, 2, D)
    support[1, 0, 0, 2] = torch.nan
    assert Traced(Failing())(support, torch.ones(2, 2, D)).tolist() == [[0, 1, 0]] * 2


class Diagonal(Head):
    """The inverse of a diagonal matrix in double precision."""

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        system = support[:, 0, 0, :, None].double() * torch.eye(D, dtype=torch.float64)
        return torch.cholesky_inverse(torch.linalg.cholesky(system)).sum(1).float()


def test_inverse_is_exact_down_to_ten_orders_of_magnitude() -> None:
    values = torch.tensor([[1.0, 1e-3, 1e-7, 1e-10], [1e4, 1e4, 1e-6, 3.0]])
    found = Traced(Diagonal())(values[:, None, None].expand(-1, 1, 2, -1).contiguous(), torch.ones(2, 2, D))
    np.testing.assert_allclose(found, 1 / values.numpy(), rtol=1e-6)


def test_file_names_its_method_and_shapes() -> None:
    graph = graph_of(Failing())
    assert {p.key: p.value for p in graph.metadata_props}["frn.method"] == "own"
    assert {p.key: p.value for p in graph.metadata_props}["frn.format"] == TRACED_HEAD
    shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.graph.input]
    assert shapes == [["way", "shot", 2, D], ["q", 2, D]]


def test_unsupported_head_prints_nothing_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    class Embedded(Head):
        def forward(self, support: Tensor, query: Tensor) -> Tensor:
            return torch.diag_embed(support[:, 0, 0])

    with pytest.raises(FrnError, match="diag_embed"):
        graph_of(Embedded())
    assert capfd.readouterr().out == ""
