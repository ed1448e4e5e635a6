"""Heads as graphs: for episodes, and for enrolled classes."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs import classifier
from frn_export.graphs.builder import FLOAT, GraphBuilder, Shape
from frn_export.graphs.classifier import batch_graph, classifier_graph
from frn_export.graphs.enrolled_head import HeadClasses, classifier_with, enrolled
from frn_export.graphs.head import head_graph
from frn_export.graphs.traced_head import traced_head_graph

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.onnx_runtime import open_session, run_session
from frn.inference.classifier import Classifier
from frn.inference.scorers import OtherHead
from frn.ridge.enrolment import JoinedClasses, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.reconstruction import class_error
from tests.export.graphs.test_listings import RULE, compare, conv4
from tests.frn.ridge.families import FAMILIES, family
from tests.models import small_model

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


def test_one_session_accepts_every_shape_and_unequal_shots() -> None:
    head = HeadParameters(0.4, 0.3, 2.0)
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
        inputs = {"support": support, "shots": np.array(shots), "query": query}
        error, logits = run.run(["class_error", "logits"], inputs)
        assert error.shape == (3, way)
        np.testing.assert_allclose(logits, -2 * error, rtol=1e-6)
        assert np.abs(error - truth(support, shots, query, head)).max() <= 1e-6 * unit(query, head), (way, shot, r, d)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("shot", "d"), [(1, 64), (5, 64), (1, 640), (5, 640)])
def test_degenerate_supports_stay_within_5e_6(name: str, shot: int, d: int) -> None:
    queries, pools = family(name, 2, shot, 25, d)
    query, support = queries.numpy().reshape(2, 25, d), pools.numpy().reshape(2, shot, 25, d)
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
