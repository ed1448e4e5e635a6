"""Exported graphs, compared node by node with stored listings, so that no attribute or constant changes unnoticed.

`FRN_LISTINGS=write pytest tests/export/graphs/test_listings.py` stores them again after an intended change.
"""

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.graphs.classifier import batch_graph, classifier_graph, scores_graph
from frn_export.graphs.finder import finder_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.mirror import augmented
from frn_export.graphs.prepare import preprocess_graph, resize_graph
from onnx import helper, numpy_helper

from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.images.transforms import EvaluationTransform
from frn.inference.find.finder import Finder
from frn.inference.unknown.rule import KnownRule
from frn.models.model import load_model
from frn.ridge.enrolment import EnrolledClass, enroll
from frn.ridge.parameters import HeadParameters

LISTINGS = Path(__file__).with_name("listings")
VERSIONS = ("frn.library", "frn.config")
RULE = KnownRule((1.0, 0.5, 0.25, 0.7, 0.3, 0.2), -0.5, 7.0, 0.3)


def described(array: np.ndarray) -> str:
    """Return type, shape and values; for many values, the sum of their magnitudes."""
    flat = array.reshape(-1)
    if array.dtype == object or array.size <= 8:
        values = " ".join(f"{x:.4g}" if array.dtype.kind == "f" else str(x) for x in flat[:8])
    else:
        values = f"sum {np.abs(flat.astype(np.float64)).sum():.3g}"
    return f"{array.dtype}{list(array.shape)} {values}"


def lines(graph: onnx.GraphProto, indent: str = "") -> Iterator[str]:
    for tensor in graph.initializer:
        yield f"{indent}{tensor.name} = {described(numpy_helper.to_array(tensor))}"
    for node in graph.node:
        branches = [a for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        others = [a for a in node.attribute if a not in branches]
        attributes = ", ".join(f"{a.name}={helper.get_attribute_value(a)}" for a in others)
        yield f"{indent}{', '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {attributes}".rstrip()
        for branch in branches:
            yield f"{indent}  {branch.name}:"
            yield from lines(branch.g, indent + "    ")
    for kind, values in (("takes", graph.input), ("gives", graph.output)):
        for value in values:
            of = value.type.tensor_type
            shape = [d.dim_param or d.dim_value for d in of.shape.dim] if of.HasField("shape") else "any"
            yield f"{indent}{kind} {value.name}: {onnx.TensorProto.DataType.Name(of.elem_type)} {shape}"


def listing(model: onnx.ModelProto) -> str:
    properties = [f"{p.key}: {p.value}" for p in model.metadata_props if p.key not in VERSIONS]
    opsets = [f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import]
    properties.append(f"{model.producer_name}, IR version {model.ir_version}, {', '.join(opsets)}")
    return "\n".join([*properties, *lines(model.graph), ""])


def compare(name: str, model: onnx.ModelProto) -> None:
    """Compare a graph with its stored listing."""
    path, found = LISTINGS / f"{name}.txt", listing(model)
    if os.environ.get("FRN_LISTINGS") == "write":
        path.write_text(found, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    if found != kept:
        difference = difflib.unified_diff(kept.splitlines(), found.splitlines(), "kept", "found", "", "", 1, "")
        pytest.fail(f"{name} has changed:\n" + "\n".join(difference), pytrace=False)


def conv4() -> Extractor:
    return load_extractor("conv4", "cpu")


def enrolled(count: int, head: HeadParameters) -> dict[str, EnrolledClass]:
    """Return classes with one or two supports."""
    r, d = conv4().shape
    maps = (np.random.default_rng(i).random((1 + i % 2, r, d)) for i in range(count))
    return {f"class {i}": enroll(each, head) for i, each in enumerate(maps)}


TRAINED, NEGATIVE = HeadParameters(0.3, 0.2, 5.0), HeadParameters(-5.0, 1.2, 5.0)
"""rho above 2 gives rows with negative signs."""
GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    "features-conv4": lambda: features_graph(load_model("conv4")),
    "features-patches": lambda: features_graph(load_model("resnet9-photo")),
    "features-mirrored": lambda: onnx.load_model_from_string(augmented(conv4().data, "hflip")),
    "preprocess-shorter": lambda: preprocess_graph(EvaluationTransform(size=84, resize=92)),
    "preprocess-square": lambda: preprocess_graph(EvaluationTransform(size=84, resize=92, square=True)),
    "preprocess-large": lambda: preprocess_graph(EvaluationTransform(size=192, resize=216)),
    "preprocess-as-is": lambda: preprocess_graph(EvaluationTransform(size=32)),
    "resize": resize_graph,
    "finder": lambda: finder_graph(Finder(conv4()), enrolled(3, TRAINED), np.linspace(-1, 1, conv4().shape[1])),
    "head": lambda: head_graph(TRAINED),
    "classifier": lambda: classifier_graph(conv4().data, enrolled(3, TRAINED), rule=RULE, gamma=7.0),
    "classifier-70": lambda: classifier_graph(conv4().data, enrolled(70, NEGATIVE)),
    "batch-two": lambda: batch_graph(conv4(), enrolled(2, TRAINED), rule=RULE, gamma=7.0),
    "batch-one": lambda: batch_graph(conv4(), enrolled(1, TRAINED), rule=RULE, gamma=7.0),
    "batch-seven": lambda: batch_graph(conv4(), enrolled(7, TRAINED), rule=RULE, gamma=7.0),
    "batch": lambda: batch_graph(conv4(), enrolled(3, NEGATIVE), rule=RULE, gamma=7.0),
    "scores-70": lambda: scores_graph(conv4(), enrolled(70, NEGATIVE), gamma=7.0),
}


def test_a_graph_whose_shapes_contradict_each_other_is_not_built() -> None:
    graph = GraphBuilder()
    graph.node("Identity", "x", output="y")
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        graph.model({"x": (FLOAT, (2,))}, {"y": (FLOAT, (3,))}, {}, "contradiction", kind="x")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_equals_its_listing(name: str) -> None:
    compare(name, GRAPHS[name]())
