"""Classes enrolled with a head other than FRN's, as nodes of a classifier."""

from dataclasses import replace

import numpy as np
import pytest
from frn_export.graphs import classifier
from frn_export.graphs.builder import FLOAT, GraphBuilder, Shape
from frn_export.graphs.classifier import batch_graph, classifier_graph
from frn_export.graphs.enrolled_head import HeadClasses, classifier_with, enrolled
from frn_export.graphs.traced_head import traced_head_graph

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.onnx_runtime import open_session, run_session
from frn.inference.classifier import Classifier
from frn.inference.scorers import OtherHead
from frn.ridge.enrolment import JoinedClasses, enroll
from frn.ridge.parameters import HeadParameters
from tests.export.graphs.test_listings import RULE, compare, conv4
from tests.models import small_model


def other_head() -> HeadClasses:
    """Return three classes of one and two photos with a small head, as `traced_head_graph` would write it."""
    graph = GraphBuilder("n_")
    centres = graph.node("ReduceMean", "support", graph.ints(1, 2), keepdims=0)  # way, d
    query = graph.node("Clip", graph.node("ReduceMean", "query", graph.ints(1), keepdims=0), "", graph.constant(1e9))
    logits = graph.node("MatMul", query, graph.node("Transpose", centres, perm=[1, 0]))
    graph.node("Add", logits, graph.constant(0.5), output="logits")
    r, d = conv4().shape
    inputs: dict[str, tuple[int, Shape]] = {"support": (FLOAT, ("way", "shot", r, d)), "query": (FLOAT, ("q", r, d))}
    model = graph.model(inputs, {"logits": (FLOAT, ("q", "way"))}, {}, "head", kind="frn-traced-head")
    maps = {str(i): np.random.default_rng(i).random((1 + i % 2, r, d)).astype(np.float32) for i in range(3)}
    return HeadClasses(model.SerializeToString(), maps)


def test_graphs_with_another_head_equal_their_listings() -> None:
    compare("classifier-other-head", classifier_graph(conv4().data, other_head(), rule=RULE))
    compare("batch-other-head", batch_graph(conv4(), other_head(), rule=RULE, gamma=7.0))


def test_logits_are_products_with_the_mean_of_each_class() -> None:
    extractor, classes = conv4(), other_head()
    images = np.random.default_rng(0).random((4, 3, 32, 32), np.float32)
    graph = batch_graph(extractor, classes, rule=RULE, gamma=7.0).SerializeToString()
    session = open_session(graph, "batch", device="cpu")
    label, errors = run_session(session, ["label", "class_error"], {"images": images})
    maps = extractor.session.run({"images": images})
    logits = maps.mean(1) @ np.stack([pool.mean((0, 1)) for pool in classes.pools.values()]).T + 0.5
    expected = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1) - logits.T
    np.testing.assert_allclose(errors, expected.T, rtol=1e-3, atol=1e-3)
    assert label.tolist() == [str(best) for best in logits.argmax(1)]


@pytest.mark.parametrize("method", ["proto", "simpleshot", "srm", "deepbdc", "ctx"])
def test_empty_batch_gives_an_empty_answer(method: str) -> None:
    head = traced_head_graph(small_model(method)).SerializeToString()
    classes = HeadClasses(head, other_head().pools)
    graph = batch_graph(conv4(), classes, rule=RULE, gamma=7.0).SerializeToString()
    session = open_session(graph, "batch", device="cpu")
    outputs = [output.name for output in session.get_outputs()]
    images = np.random.default_rng(0).random((2, 3, 32, 32), np.float32)
    for count in (0, 1, 2):
        found = run_session(session, outputs, {"images": images[:count]})
        assert [len(each) for each in found] == [count] * len(outputs)
        assert all(np.isfinite(each).all() for each in found if each.dtype.kind == "f")


def test_classes_of_a_head_that_runs_in_torch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor, head = conv4(), other_head()
    plain = Classifier(extractor)
    assert enrolled(plain) is plain.classes
    with pytest.raises(FrnError, match="an exported graph is the same for every photo"):
        enrolled(Classifier(load_extractor("conv4", "cpu", "auto")))
    monkeypatch.setattr(extractor, "head", None)
    exported = classifier_with(extractor, head.head)
    exported.pools = dict(head.pools)
    assert enrolled(exported) == head
    with pytest.raises(FrnError, match="runs its head in torch; export it with `frn export` first"):
        enrolled(Classifier(extractor, other=OtherHead("proto", lambda support, query: query[:, 0])))


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
