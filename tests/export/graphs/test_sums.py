"""Graphs sum class scores correctly for few and many classes of equal and different sizes."""

import numpy as np
import pytest
from frn_export.graphs import sums
from frn_export.graphs.builder import FLOAT, GraphBuilder

from frn.errors import FrnError
from frn.inference.onnx_runtime import open_session, run_session
from frn.ridge.enrolment import JoinedClasses, enroll
from frn.ridge.parameters import HeadParameters


@pytest.mark.parametrize("matrix", [0, 64])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("shots", [(2, 2, 2), (1, 3, 2), (3, 1, 1)])
@pytest.mark.parametrize("beta", [0.2, 1.2])  # rho above 2 leads to negative signs
def test_sums_equal_the_energy_that_classes_explain(
    monkeypatch: pytest.MonkeyPatch, matrix: int, axis: int, shots: tuple[int, ...], beta: float
) -> None:
    monkeypatch.setattr(sums, "MATRIX", matrix)
    draws = np.random.default_rng(0)
    head = HeadParameters(alpha=-1.0, beta=beta)
    joined = JoinedClasses.of([enroll(draws.standard_normal((shot, 4, 16)), head) for shot in shots])
    assert bool((joined.signs < 0).any()) == (beta > 1)
    assert joined.sizes.tolist() == [4 * shot for shot in shots]
    queries = draws.standard_normal((5, 16)).astype(np.float32)
    products = joined.rows @ queries.T  # M, n
    given = products if axis == 0 else products.T[None]
    graph = GraphBuilder()
    result = sums.class_sums(graph, joined, "products", axis)
    shape = (3, 5) if axis == 0 else (1, 5, 3)
    model = graph.model({"products": (FLOAT, given.shape)}, {result: (FLOAT, shape)}, {}, name="sums", kind="sums")
    session = open_session(model.SerializeToString(), "sums", device="cpu", threads=1)
    (found,) = run_session(session, [result], {"products": np.ascontiguousarray(given)})
    expected = joined.energy(queries)
    np.testing.assert_allclose(found, expected.T if axis == 0 else expected[None], rtol=1e-5)


def test_more_classes_than_a_file_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {str(i): enroll(np.ones((1, 4, 16)), HeadParameters()) for i in range(3)}
    assert len(sums.join(classes).sizes) == 3
    monkeypatch.setattr(sums, "MAX_CLASS_BYTES", 2 * 4 * 16 * 4)
    with pytest.raises(FrnError, match="the 3 classes take"):
        sums.join(classes)


@pytest.mark.parametrize(("way", "kind"), [(64, "MatMul"), (65, "ReduceSum")])
def test_up_to_64_classes_are_summed_by_one_product(way: int, kind: str) -> None:
    joined = JoinedClasses.of([enroll(np.ones((1, 1, 4)), HeadParameters())] * way)
    graph = GraphBuilder()
    sums.class_sums(graph, joined, "products", 0)
    assert graph.nodes[-1].op_type == kind
