"""Graphs sum class scores correctly for few and many classes of equal and different sizes."""

from dataclasses import replace

import numpy as np
import pytest
from frn_export.graphs import classifier
from frn_export.graphs.builder import FLOAT, GraphBuilder

from frn.errors import FrnError
from frn.features.onnx_runtime import open_session, run_session
from frn.ridge.enrolment import JoinedClasses, enroll
from frn.ridge.parameters import HeadParameters


@pytest.mark.parametrize("shots", [(2, 2, 2), (1, 3, 2), (3, 1, 1)])
@pytest.mark.parametrize("beta", [0.2, 1.2])  # rho above 2 leads to negative signs
def test_sums_equal_the_energy_that_classes_explain(shots: tuple[int, ...], beta: float) -> None:
    draws = np.random.default_rng(0)
    head = HeadParameters(alpha=-1.0, beta=beta)
    joined = JoinedClasses.of([enroll(draws.standard_normal((shot, 4, 16)), head) for shot in shots])
    assert bool((joined.signs < 0).any()) == (beta > 1)
    assert joined.sizes.tolist() == [4 * shot for shot in shots]
    queries = draws.standard_normal((5, 16)).astype(np.float32)
    given = (queries @ joined.rows.T)[None]  # 1, n, M
    graph = GraphBuilder()
    result = classifier.class_sums(graph, joined, "products")
    shape = (1, 5, 3)
    model = graph.model({"products": (FLOAT, given.shape)}, {result: (FLOAT, shape)}, {}, name="sums", kind="sums")
    session = open_session(model.SerializeToString(), "sums", device="cpu", threads=1)
    (found,) = run_session(session, [result], {"products": np.ascontiguousarray(given)})
    np.testing.assert_allclose(found[0], joined.energy(queries), rtol=1e-5)


def test_more_classes_than_a_file_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    enrolled = enroll(np.ones((1, 4, 16)), HeadParameters())
    classes = dict.fromkeys("abc", enrolled)
    assert len(classifier.join(classes).sizes) == 3
    large = replace(enrolled, rows=np.broadcast_to(np.float32(0), (10**9, 1)))
    with pytest.raises(FrnError, match=r"the 3 classes take 12\.0 GB"):
        classifier.join(dict.fromkeys("abc", large))
    monkeypatch.setattr(classifier, "MAX_CLASS_BYTES", 2 * 4 * 16 * 4)
    with pytest.raises(FrnError, match="the 3 classes take"):
        classifier.join(classes)
