"""The closed-form head in standard operators: any way, shot, channels and number of queries in one session.

ONNX has no inverse, solve or Cholesky. Lambda is a known lower bound of the spectrum of A = K + lam I, and its largest
row sum an upper one, so scaled Newton-Schulz inverts A by products alone, with a scaling that is optimal at each step
and a stop that is exact: with the spectrum of A X in [lo, 1] and c = 2 / (1 + lo), the step Y = c X, X = Y (2 I - A Y)
brings it to [c^2 lo, 1].

Shape letters: way classes, p = shot * r pool rows (zero-padded where a class has fewer shots), d channels, q queries.
"""

import json
import math

import numpy as np
import onnx

from frn import __version__
from frn.inference.enrolment import LAMBDA_FLOOR, HeadParameters
from frn_export.builder import BOOL, DOUBLE, FLOAT, INT64, GraphBuilder, value

FORMAT = "frn-head"
VERSION = "1"
MAX_STEPS = 60
TOLERANCE = 1e-15
"""Newton-Schulz ends when the spectrum of A X lies within this of 1."""


def head_graph(head: HeadParameters) -> onnx.ModelProto:
    """Build `head.onnx`.

    `support` (way, shot, r, d) zero-padded, `shots` int64 (way), `query` (q, r, d) to `logits` (q, way) and
    `class_error` (q, way). The class side is computed in double; Eq. 8 or Eq. 10 is chosen by size.
    """
    graph = GraphBuilder()
    way, shot, r, d = (_dimension(graph, "support", axis) for axis in range(4))
    p = graph.node("Mul", shot, r)
    pool = graph.node("Reshape", "support", graph.node("Concat", way, p, d, axis=0))
    graph.node("Cast", pool, to=DOUBLE, output="pool")
    rows = graph.node("Cast", graph.node("Mul", "shots", r), to=DOUBLE)
    share = graph.node("Div", rows, graph.node("Cast", d, to=DOUBLE))
    lam = graph.node("Mul", share, graph.doubles(math.exp(head.alpha)))
    lam = graph.node("Add", lam, graph.doubles(LAMBDA_FLOOR))
    graph.node("Unsqueeze", lam, graph.ints(1, 2), output="lam")  # way, 1, 1
    small = graph.node("Squeeze", graph.node("LessOrEqual", p, d), graph.ints(0))
    graph.node("If", small, then_branch=_dual(head.rho), else_branch=_by_moments(head.rho), output="class_error")
    graph.node("Mul", "class_error", graph.constant(-head.gamma), output="logits")
    return graph.model(
        inputs={
            "support": (FLOAT, ("way", "shot", "r", "d")),
            "shots": (INT64, ("way",)),
            "query": (FLOAT, ("q", "r", "d")),
        },
        outputs={"logits": (FLOAT, ("q", "way")), "class_error": (FLOAT, ("q", "way"))},
        metadata={
            "frn.format": FORMAT,
            "frn.version": VERSION,
            "frn.library": __version__,
            "frn.head": json.dumps({"alpha": head.alpha, "beta": head.beta, "gamma": head.gamma}, sort_keys=True),
        },
        name="head",
    )


def _dual(rho: float) -> onnx.GraphProto:
    """Eq. 8, p <= d: |q|^2 - t M t with t = S q, M = rho (2 - rho) A^-1 + rho^2 lam A^-2 and A = S S^T + lam I."""
    graph = GraphBuilder("dual_")
    gram = graph.node("MatMul", "pool", graph.node("Transpose", "pool", perm=[0, 2, 1]))
    identity = _identity(graph, "pool", 1)
    inverse = _inverse(graph, graph.node("Add", gram, graph.node("Mul", "lam", identity)), identity)
    first = graph.node("Mul", inverse, graph.doubles(rho * (2 - rho)))
    second = graph.node("Mul", graph.node("MatMul", inverse, inverse), graph.doubles(rho * rho))
    metric = graph.node("Add", first, graph.node("Mul", second, "lam"))
    supports = graph.node("Cast", graph.node("Transpose", "pool", perm=[0, 2, 1]), to=FLOAT)
    queries = graph.node("Unsqueeze", "query", graph.ints(1))  # q, 1, r, d
    seen = graph.node("Cast", graph.node("MatMul", queries, supports), to=DOUBLE)  # q, way, r, p
    # M is as large as 1 / lam where supports repeat themselves: rounded to float it would drown t M t.
    taken = graph.node("Mul", seen, graph.node("MatMul", seen, metric))
    taken = graph.node("Cast", graph.node("ReduceSum", taken, graph.ints(-1), keepdims=0), to=FLOAT)  # q, way, r
    length = graph.node("ReduceSum", graph.node("Mul", queries, queries), graph.ints(-1), keepdims=0)
    error = graph.node("ReduceMean", graph.node("Sub", length, taken), graph.ints(-1), keepdims=0, output="dual_error")
    return graph.body("dual", [], [value(error, FLOAT)])


def _by_moments(rho: float) -> onnx.GraphProto:
    """Eq. 10, p > d: <Q^T Q / r, B^2> with B = (1 - rho) I + rho lam (S^T S + lam I)^-1."""
    graph = GraphBuilder("moments_")
    gram = graph.node("MatMul", graph.node("Transpose", "pool", perm=[0, 2, 1]), "pool")
    identity = _identity(graph, "pool", 2)
    inverse = _inverse(graph, graph.node("Add", gram, graph.node("Mul", "lam", identity)), identity)
    kept = graph.node("Mul", graph.node("Mul", inverse, "lam"), graph.doubles(rho))
    residual = graph.node("Add", kept, graph.node("Mul", identity, graph.doubles(1 - rho)))
    squared = graph.node("Cast", graph.node("MatMul", residual, residual), to=FLOAT)  # way, d, d
    moment = graph.node("MatMul", graph.node("Transpose", "query", perm=[0, 2, 1]), "query")  # q, d, d
    r = graph.node("Cast", _dimension(graph, "query", 1), to=FLOAT)
    moment = graph.node("Div", moment, r)
    flat_moment = graph.node("Flatten", moment, axis=1)
    flat_squared = graph.node("Transpose", graph.node("Flatten", squared, axis=1), perm=[1, 0])
    error = graph.node("MatMul", flat_moment, flat_squared, output="moments_error")
    return graph.body("moments", [], [value(error, FLOAT)])


def _inverse(graph: GraphBuilder, system: str, identity: str) -> str:
    """Invert symmetric systems (way, m, m) in double whose spectrum is bounded below by `lam` (way, 1, 1)."""
    sums = graph.node("ReduceSum", graph.node("Abs", system), graph.ints(-1), keepdims=1)
    upper = graph.node("ReduceMax", sums, graph.ints(-2), keepdims=1)  # way, 1, 1
    start = graph.node("Div", identity, upper)
    low = graph.node("ReduceMin", graph.node("Div", "lam", upper), keepdims=0)
    goes_on = _unfinished(graph, low)
    prefix = graph.prefix
    body = GraphBuilder(f"{prefix}loop_")
    x, lo = f"{prefix}x", f"{prefix}lo"
    scale = body.node("Div", body.doubles(2.0), body.node("Add", body.doubles(1.0), lo))
    y = body.node("Mul", x, scale)
    twice = body.node("Mul", identity, body.doubles(2.0))
    nearer = body.node("MatMul", y, body.node("Sub", twice, body.node("MatMul", system, y)))
    lower = body.node("Mul", body.node("Mul", scale, scale), lo)
    again = _unfinished(body, lower)
    loop = body.body(
        "newton_schulz",
        [value(f"{prefix}i", INT64, []), value(f"{prefix}go", BOOL, []), value(x, DOUBLE), value(lo, DOUBLE, [])],
        [value(again, BOOL, []), value(nearer, DOUBLE), value(lower, DOUBLE, [])],
    )
    steps = graph.constant(np.array(MAX_STEPS, dtype=np.int64))
    inverse = f"{prefix}inverse"
    graph.nodes.append(
        onnx.helper.make_node(
            "Loop", [steps, goes_on, start, low], [inverse, f"{prefix}reached"], name=f"{prefix}Loop", body=loop
        )
    )
    return inverse


def _unfinished(graph: GraphBuilder, low: str) -> str:
    return graph.node("Greater", graph.node("Sub", graph.doubles(1.0), low), graph.doubles(TOLERANCE))


def _identity(graph: GraphBuilder, like: str, axis: int) -> str:
    """A float64 identity as large as an axis of a value."""
    size = graph.node("Squeeze", _dimension(graph, like, axis), graph.ints(0))
    zero, one = (graph.constant(np.array(n, dtype=np.int64)) for n in (0, 1))
    index = graph.node("Range", zero, size, one)
    rows, columns = (graph.node("Unsqueeze", index, graph.ints(axis)) for axis in (0, 1))
    return graph.node("Cast", graph.node("Equal", rows, columns), to=DOUBLE)


def _dimension(graph: GraphBuilder, name: str, axis: int) -> str:
    """One dimension of a value, as an int64 vector of one."""
    return graph.node("Shape", name, start=axis, end=axis + 1)
