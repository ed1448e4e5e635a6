"""Any head as ONNX: torch's tracer writes the nodes, and this module adds the linear algebra that ONNX lacks.

The numbers of classes, shots and queries stay free. A positive definite system A = L L^T is solved by Z = A^-1/2
instead of its factor L; Z can replace L^-1 in everything that heads compute. Z comes from the scaled Newton-Schulz
iteration of `graphs.head`, with a fixed number of steps instead of a Loop, which the checks for untrusted files forbid.

Shape letters: way classes, r locations per map, d channels, q queries, m side of a system.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import onnx
import torch
from torch.onnx import symbolic_helper
from torch.onnx.utils import register_custom_op_symbolic

from frn.features.onnx_runtime import TRACED_HEAD
from frn.inference.scorers import UNEQUAL
from frn.models.model import Model
from frn_export.graphs.builder import DOUBLE, FLOAT, OPSET, GraphBuilder
from frn_export.graphs.traced import trace

LOWEST, STEPS = 1e-10, 16
"""Smallest eigenvalue of a system, as a fraction of its largest row sum, for which so many steps are exact."""
EXAMPLE = (3, 2, 4)  # classes, shots and queries of the traced episode


def traced_head_graph(model: Model) -> onnx.ModelProto:
    """Build `head.onnx` for any head: `support` (way, shot, r, d), `query` (q, r, d) to `logits` (q, way).

    Raises FrnError if the head cannot be traced.
    """
    h, w = model.grid
    r, d = h * w, model.d
    way, shot, queries = EXAMPLE
    generator = torch.Generator().manual_seed(0)
    support = torch.rand(way, shot, r, d, generator=generator)
    episode = {"support": support, "query": torch.rand(queries, r, d, generator=generator)}
    for name, symbolic in SYMBOLICS.items():
        register_custom_op_symbolic(f"aten::{name}", symbolic, OPSET)
    free = {"support": {0: "way", 1: "shot"}, "query": {0: "q"}}
    head = copy.deepcopy(model.head).float()
    graph = GraphBuilder()
    graph.include(trace(head, episode, "logits", free, f"the head of {model.config.method}"))
    return graph.model(
        inputs={"support": (FLOAT, ("way", "shot", r, d)), "query": (FLOAT, ("q", r, d))},
        outputs={"logits": (FLOAT, ("q", "way"))},
        metadata={"frn.method": model.config.method, UNEQUAL: model.head.unequal},
        name="head",
        kind=TRACED_HEAD,
    )


def _rank(x: Any) -> int:
    rank: int = symbolic_helper._get_tensor_rank(x)  # type: ignore[assignment]  # a traced value has one
    return rank


def _transposed(g: Any, x: Any) -> Any:
    order = list(range(_rank(x)))
    return g.op("Transpose", x, perm_i=[*order[:-2], order[-1], order[-2]])


def _ints(g: Any, *values: int) -> Any:
    return g.op("Constant", value_t=torch.tensor(values))


def _double(g: Any, value: float) -> Any:
    # a Constant node, because the exporter changes the type of scalars
    return g.op("Constant", value_t=torch.tensor([value], dtype=torch.float64))


def _inverse_root(g: Any, system: Any) -> Any:
    """Return A^-1/2 in double precision for positive definite A (..., m, m)."""
    system = g.op("Cast", system, to_i=DOUBLE)
    sums = g.op("ReduceSum", g.op("Abs", system), _ints(g, -1), keepdims_i=1)
    upper = g.op("ReduceMax", sums, _ints(g, -2), keepdims_i=1)
    y = g.op("Div", system, upper)
    rank = _rank(system)
    side = g.op("Shape", system, start_i=rank - 1, end_i=rank)
    square = g.op("ConstantOfShape", g.op("Concat", side, side, axis_i=0), value_t=torch.zeros(1, dtype=torch.float64))
    identity = g.op("EyeLike", square, dtype_i=DOUBLE)
    z, low = identity, LOWEST
    for _ in range(STEPS):
        c = 3 / (1 + math.sqrt(low) + low)
        rest = g.op("Sub", g.op("Mul", identity, _double(g, 3.0)), g.op("Mul", g.op("MatMul", z, y), _double(g, c)))
        t = g.op("Mul", rest, _double(g, math.sqrt(c) / 2))
        y, z = g.op("MatMul", y, t), g.op("MatMul", t, z)
        low = c * low * (3 - c * low) ** 2 / 4
    return g.op("Div", z, g.op("Sqrt", upper))


def _like(g: Any, x: Any, other: Any) -> Any:
    """Cast a double back to float if another value is float."""
    return g.op("Cast", x, to_i=FLOAT) if other.type().scalarType() == "Float" else x


def _cholesky(g: Any, system: Any, upper: Any, check: Any) -> Any:
    failed = g.op(
        "ReduceMax", g.op("Cast", g.op("IsNaN", system), to_i=onnx.TensorProto.INT32), _ints(g, -2, -1), keepdims_i=0
    )
    return system, failed


def _cholesky_inverse(g: Any, system: Any, upper: Any) -> Any:
    root = _inverse_root(g, system)
    return _like(g, g.op("MatMul", root, root), system)


def _cholesky_solve(g: Any, right: Any, system: Any, upper: Any) -> Any:
    root = _inverse_root(g, system)
    return _like(g, g.op("MatMul", root, g.op("MatMul", root, g.op("Cast", right, to_i=DOUBLE))), right)


def _solve_triangular(g: Any, system: Any, right: Any, upper: Any, left: Any, unit: Any) -> Any:
    return _like(g, g.op("MatMul", _inverse_root(g, system), g.op("Cast", right, to_i=DOUBLE)), right)


def _solve(g: Any, system: Any, right: Any, left: Any) -> Any:
    """Solve a well-conditioned, non-symmetric system through its normal equations."""
    system, across = g.op("Cast", system, to_i=DOUBLE), _transposed(g, system)
    across = g.op("Cast", across, to_i=DOUBLE)
    root = _inverse_root(g, g.op("MatMul", across, system))
    projected = g.op("MatMul", across, g.op("Cast", right, to_i=DOUBLE))
    return _like(g, g.op("MatMul", root, g.op("MatMul", root, projected)), right)


SYMBOLICS: dict[str, Callable[..., Any]] = {
    "mT": _transposed,
    "linalg_cholesky_ex": _cholesky,
    "linalg_cholesky": lambda g, system, upper: system,
    "cholesky_inverse": _cholesky_inverse,
    "cholesky_solve": _cholesky_solve,
    "linalg_solve_triangular": _solve_triangular,
    "linalg_solve": _solve,
}
"""Nodes for operators that torch's exporter lacks."""
