"""The closed-form head in ONNX, compared with recorded arrays and float64."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs.head import head_graph

from frn.ridge.parameters import HeadParameters
from frn.ridge.reconstruction import class_error

Array = np.typing.NDArray[np.float32]


def session(head: HeadParameters) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        head_graph(head).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def truth(support: Array, shots: list[int], query: Array, head: HeadParameters) -> np.ndarray:
    """Compute float64 errors (q, way); each class has its own number of shots."""
    columns = []
    for maps, shot in zip(support, shots, strict=True):
        pool = torch.from_numpy(maps[:shot].reshape(1, -1, maps.shape[-1]).astype(np.float64))
        lam = head.lam(pool.shape[1], pool.shape[2])
        columns.append(class_error(torch.from_numpy(query.astype(np.float64)), pool, lam, head.rho())[:, 0].numpy())
    return np.stack(columns, axis=1)


def features(seed: int, *shape: int) -> Array:
    return np.maximum(np.random.default_rng(seed).standard_normal(shape), 0).astype(np.float32)


def unit(query: Array, head: HeadParameters) -> float:
    return float(np.square(query.astype(np.float64)).sum(-1).mean() * max(1.0, (head.rho() - 1) ** 2))


@pytest.mark.parametrize("case", range(6))
def test_errors_equal_the_recorded_ones(golden: Path, case: int) -> None:
    arrays = np.load(golden / "head.npz")
    support, query, expected = (arrays[f"{case}/{name}"] for name in ("support", "query", "class_error"))
    alpha, beta = arrays[f"{case}/alpha_beta"]
    head = HeadParameters(float(alpha), float(beta), 2.0)
    r = query.shape[1]
    pools = support.reshape(len(support), -1, r, support.shape[-1]).astype(np.float32)
    inputs = {"support": pools, "shots": np.full(len(pools), pools.shape[1]), "query": query.astype(np.float32)}
    error, logits = session(head).run(["class_error", "logits"], inputs)
    assert np.abs(error - expected).max() <= 1e-6 * unit(query, head)
    np.testing.assert_allclose(logits, -2 * error, rtol=1e-6)


def test_one_session_accepts_every_shape_and_unequal_shots() -> None:
    head = HeadParameters(0.4, 0.3, 1.0)
    run = session(head)
    generator = np.random.default_rng(0)
    for way, shot, r, d in [
        (1, 1, 25, 64),
        (5, 5, 25, 64),
        (20, 3, 4, 64),
        (200, 1, 4, 16),
        (3, 50, 9, 64),
        (5, 1, 25, 640),
        (2, 5, 25, 640),
        (4, 2, 1, 4),
    ]:
        shots = [int(n) for n in generator.integers(1, shot + 1, way)]
        support, query = features(way, way, shot, r, d), features(1, 3, r, d)
        for row, count in zip(support, shots, strict=True):
            row[count:] = 0
        error = run.run(["class_error"], {"support": support, "shots": np.array(shots), "query": query})[0]
        assert error.shape == (3, way)
        assert np.abs(error - truth(support, shots, query, head)).max() <= 1e-6 * unit(query, head), (way, shot, r, d)


@pytest.mark.parametrize("kind", ["zero", "duplicated", "nearly duplicated", "low rank", "times 30"])
@pytest.mark.parametrize(("shot", "d"), [(1, 64), (5, 64), (1, 640), (5, 640)])
def test_degenerate_supports_stay_within_5e_6(kind: str, shot: int, d: int) -> None:
    support, query = features(0, 2, shot, 25, d), features(1, 2, 25, d)
    if kind == "zero":
        support[:] = 0
    elif kind == "duplicated":
        support[:] = support[:, :1, :1]
    elif kind == "nearly duplicated":
        noise = np.random.default_rng(2).standard_normal(support.shape).astype(np.float32)
        support, query = 30 * support[:, :1, :1] * (1 + 1e-3 * noise), 30 * query
    elif kind == "low rank":
        support = np.random.default_rng(2).standard_normal((2, shot, 25, 3)).astype(np.float32) @ features(3, 3, d)
    else:
        support, query = 30 * support, 30 * query
    for alpha, beta in ((-3.0, 0.0), (-3.0, 3.0), (3.0, 0.7)):
        head = HeadParameters(alpha, beta, 1.0)
        inputs = {"support": support, "shots": np.full(2, shot), "query": query}
        error = session(head).run(["class_error"], inputs)[0]
        assert np.abs(error - truth(support, [shot] * 2, query, head)).max() <= 5e-6 * unit(query, head)


def test_nan_is_reported_as_none() -> None:
    support = features(0, 2, 1, 9, 16)
    support[0, 0, 0, 0] = np.nan
    error = session(HeadParameters(0.0, 0.0, 1.0)).run(
        ["class_error"], {"support": support, "shots": np.ones(2, np.int64), "query": features(1, 1, 9, 16)}
    )[0]
    assert np.isnan(error[0, 0])


def test_head_file_is_small_standard_and_reproducible() -> None:
    head = HeadParameters(0.1, 0.2, 3.0)
    data, again = (head_graph(head).SerializeToString(deterministic=True) for _ in range(2))
    assert data == again
    assert len(data) < 16_000
    graph = onnx.load_from_string(data)
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 18)]
