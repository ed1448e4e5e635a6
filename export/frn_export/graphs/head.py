"""Closed-form head in standard operators: any way, shot, channels and number of queries in one session.

ONNX has no inverse, solve or Cholesky, but matrix products suffice for the inverse square root of A = K + lam I.
Newton-Schulz starts from Y = A / u and Z = I, and repeats T = (3 I - Z Y) / 2, Y = Y T, Z = T Z until Z Y = I; then Z
is (A / u)^-1/2. Lambda is a known lower bound of the spectrum of A, and its largest row sum u an upper one. Both bounds
give the best scaling of each step and the last step. With the spectrum of Z Y in [lo, 1] and c = 3 / (1 + sqrt(lo) +
lo), the step T = sqrt(c) (3 I - c Z Y) / 2 brings it to [c lo (3 - c lo)^2 / 4, 1].

Shape letters: way classes, p = shot * r pool rows (zero-padded for classes with fewer shots), d channels, q queries, n
= q r query locations.
"""

import math

import numpy as np
import onnx

from frn.ridge.parameters import LAMBDA_FLOOR, HeadParameters
from frn_export.graphs.builder import BOOL, DOUBLE, FLOAT, INT64, GraphBuilder, value

MAX_STEPS = 60
TOLERANCE = 1e-9  # Newton-Schulz stops when the spectrum of Z Y is within this of 1, below the resolution of a float


def head_graph(head: HeadParameters) -> onnx.ModelProto:
    """Build `head.onnx`.

    The graph maps `support` (way, shot, r, d) zero-padded, `shots` int64 (way), `query` (q, r, d) to `logits` (q, way)
    and `class_error` (q, way). The class side is computed in double precision; the sizes decide between Eq. 8 and Eq.
    10.
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
    graph.node("If", small, then_branch=_dual(head.rho()), else_branch=_by_moments(head.rho()), output="class_error")
    graph.node("Mul", "class_error", graph.constant(-head.gamma), output="logits")
    return graph.model(
        inputs={
            "support": (FLOAT, ("way", "shot", "r", "d")),
            "shots": (INT64, ("way",)),
            "query": (FLOAT, ("q", "r", "d")),
        },
        outputs={"logits": (FLOAT, ("q", "way")), "class_error": (FLOAT, ("q", "way"))},
        metadata={"frn.head": head.as_metadata()},
        name="head",
        kind="frn-head",
    )


def _dual(rho: float) -> onnx.GraphProto:
    """Build Eq. 8, p <= d: |q|^2 - rho (2 - rho) |y|^2 - rho^2 |z|^2 with y = A^-1/2 S q and z = lam^1/2 A^-1/2 y.

    The factors of q and y have norms of at most one, so they may be rounded to float32, unlike A^-1.
    """
    graph = GraphBuilder("dual_")
    gram = graph.node("Einsum", "pool", "pool", equation="wpd,wed->wpe")  # see `_by_moments`
    root = _inverse_root(graph, gram, _identity(graph, "pool", 1))
    onto = graph.node("Cast", graph.node("MatMul", root, "pool"), to=FLOAT)  # way, p, d
    damping = graph.node("Cast", graph.node("Mul", root, graph.node("Sqrt", "lam")), to=FLOAT)  # way, p, p
    way, q, r, d = (_dimension(graph, *at) for at in (("pool", 0), ("query", 0), ("query", 1), ("query", 2)))
    queries = graph.node("Reshape", "query", graph.node("Concat", graph.ints(-1), d, axis=0))  # n, d
    y = graph.node("MatMul", onto, graph.node("Transpose", queries, perm=[1, 0]))  # way, p, n
    z = graph.node("MatMul", damping, y)
    kept, damped = (graph.node("ReduceSumSquare", side, graph.ints(1), keepdims=0) for side in (y, z))  # way, n
    kept = graph.node("Mul", kept, graph.constant(rho * (2 - rho)))
    taken = graph.node("Add", kept, graph.node("Mul", damped, graph.constant(rho * rho)))
    # multiplied from the left because onnxruntime fails otherwise at n = 0
    length = graph.node("ReduceSumSquare", queries, graph.ints(1), keepdims=0)
    errors = graph.node("Reshape", graph.node("Sub", length, taken), graph.node("Concat", way, q, r, axis=0))
    errors = graph.node("ReduceMean", errors, graph.ints(2), keepdims=0)
    error = graph.node("Transpose", errors, perm=[1, 0], output="dual_error")
    return graph.body("dual", [], [value(error, FLOAT)])


def _by_moments(rho: float) -> onnx.GraphProto:
    """Build Eq. 10, p > d: <Q^T Q / r, B^2> with B = (1 - rho) I + rho lam (S^T S + lam I)^-1."""
    graph = GraphBuilder("moments_")
    # No Transpose before MatMul: onnxruntime 1.17 fuses them, but has no fused kernel for doubles.
    gram = graph.node("Einsum", "pool", "pool", equation="wpd,wpe->wde")
    identity = _identity(graph, "pool", 2)
    root = _inverse_root(graph, gram, identity)
    inverse = graph.node("MatMul", root, root)
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


def _inverse_root(graph: GraphBuilder, gram: str, identity: str) -> str:
    """Compute (K + lam I)^-1/2 in double for Gram matrices K (way, m, m), by scaled Newton-Schulz."""
    system = graph.node("Add", gram, graph.node("Mul", "lam", identity))
    sums = graph.node("ReduceSum", graph.node("Abs", system), graph.ints(-1), keepdims=1)
    upper = graph.node("ReduceMax", sums, graph.ints(-2), keepdims=1)  # way, 1, 1
    first_y = graph.node("Div", system, upper)
    first_z = graph.node("Expand", identity, graph.node("Shape", system))
    first_lo = graph.node("ReduceMin", graph.node("Div", "lam", upper), keepdims=0)
    goes_on = _unfinished(graph, first_lo)
    steps = graph.constant(np.array(MAX_STEPS, dtype=np.int64))
    z = f"{graph.prefix}z"
    graph.nodes.append(
        onnx.helper.make_node(
            "Loop",
            [steps, goes_on, first_y, first_z, first_lo],
            [f"{graph.prefix}y", z, f"{graph.prefix}lo"],
            name=f"{graph.prefix}Loop",
            body=_newton_schulz(f"{graph.prefix}loop_", identity),
        )
    )
    return graph.node("Div", z, graph.node("Sqrt", upper))


def _newton_schulz(prefix: str, identity: str) -> onnx.GraphProto:
    """Build one step from Y, Z and lo to the next, and the condition for another step."""
    body = GraphBuilder(prefix)
    step, go, y, z, lo = (f"{prefix}{name}" for name in ("step", "go", "y", "z", "lo"))
    spread = body.node("Add", body.node("Sqrt", lo), lo)
    c = body.node("Div", body.doubles(3.0), body.node("Add", body.doubles(1.0), spread))
    half = body.node("Mul", body.node("Sqrt", c), body.doubles(0.5))
    thrice = body.node("Mul", identity, body.doubles(3.0))
    rest = body.node("Sub", thrice, body.node("Mul", body.node("MatMul", z, y), c))
    t = body.node("Mul", rest, half)
    next_y, next_z = body.node("MatMul", y, t), body.node("MatMul", t, z)
    scaled = body.node("Mul", c, lo)
    three_less = body.node("Sub", body.doubles(3.0), scaled)
    next_lo = body.node("Mul", body.node("Mul", scaled, body.node("Mul", three_less, three_less)), body.doubles(0.25))
    again = _unfinished(body, next_lo)
    return body.body(
        "newton_schulz",
        [value(step, INT64, []), value(go, BOOL, []), value(y, DOUBLE), value(z, DOUBLE), value(lo, DOUBLE, [])],
        [value(again, BOOL, []), value(next_y, DOUBLE), value(next_z, DOUBLE), value(next_lo, DOUBLE, [])],
    )


def _unfinished(graph: GraphBuilder, low: str) -> str:
    return graph.node("Greater", graph.node("Sub", graph.doubles(1.0), low), graph.doubles(TOLERANCE))


def _identity(graph: GraphBuilder, like: str, axis: int) -> str:
    """Add a float64 identity as large as an axis of a value."""
    size = graph.node("Squeeze", _dimension(graph, like, axis), graph.ints(0))
    zero, one = (graph.constant(np.array(n, dtype=np.int64)) for n in (0, 1))
    index = graph.node("Range", zero, size, one)
    rows, columns = (graph.node("Unsqueeze", index, graph.ints(axis)) for axis in (0, 1))
    return graph.node("Cast", graph.node("Equal", rows, columns), to=DOUBLE)


def _dimension(graph: GraphBuilder, name: str, axis: int) -> str:
    """Return one dimension of a value, as an int64 vector of length one."""
    return graph.node("Shape", name, start=axis, end=axis + 1)
