"""Classes enrolled with a head other than FRN's, as nodes: values that depend only on the examples are constants."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from frn.errors import FrnError
from frn.features.extractor import Extractor, require_fixed
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import OwnModel
from frn.inference.classifier import Classifier
from frn.inference.scorers import OtherHead, as_shots
from frn.models.zoo import HEAD_FILE
from frn.ridge.enrolment import EnrolledClass
from frn_export.graphs.builder import GraphBuilder, graph_values

PREFIX = "h_"


@dataclass(frozen=True, slots=True)
class HeadClasses:
    """A traced head with its classes."""

    head: bytes  # bytes of `head.onnx`
    pools: Mapping[str, Maps]  # feature maps (k, r, d) of the examples of each class
    unequal: str = ""  # the head's, as `as_shots` describes it


def classifier_with(extractor: Extractor, head: bytes) -> Classifier:
    """Return a classifier without classes over an extractor and a `head.onnx` made by `frn`."""
    session = OwnModel(head, HEAD_FILE, "cpu", extractor.threads)
    return Classifier(extractor, other=OtherHead.of_graph(session, head, extractor))


def enrolled(classifier: Classifier) -> Mapping[str, EnrolledClass] | HeadClasses:
    """Return the classes of a classifier in the form that the graphs need."""
    if classifier.second is not None:
        require_fixed("auto", "an exported graph is the same for every photo")
    if classifier.other is None:
        return classifier.classes
    if classifier.other.graph is None:
        raise FrnError(
            f"a {classifier.extractor.method} model runs its head in torch; export it with `frn export` first"
        )
    return HeadClasses(classifier.other.graph, classifier.pools, classifier.other.unequal)


def write_logits(graph: GraphBuilder, classes: HeadClasses, query: str) -> str:
    """Add the logits (n, way) of maps (n, r, d); take the name of the maps and return that of the logits."""
    traced = onnx.load_model_from_string(classes.head).graph
    of_query = {"query"}
    kept: list[onnx.NodeProto] = []
    alone: list[onnx.NodeProto] = []
    for node in traced.node:
        if of_query.isdisjoint(node.input):
            alone.append(node)
        else:
            of_query.update(node.output)
            kept.append(node)
    known: dict[str, NDArray[Any]] = {tensor.name: numpy_helper.to_array(tensor) for tensor in traced.initializer}
    known["support"] = as_shots(list(classes.pools.values()), classes.unequal)
    fixed = {name for node in kept for name in node.input} - of_query - {""}
    known |= graph_values(alone, traced.initializer, {"support": known["support"]}, sorted(fixed - known.keys()))
    graph.constants.extend(numpy_helper.from_array(known[name], PREFIX + name) for name in sorted(fixed))

    def renamed(names: Iterable[str]) -> list[str]:
        return [query if name == "query" else name and PREFIX + name for name in names]

    for node in kept:
        copied = helper.make_node(node.op_type, renamed(node.input), renamed(node.output), name=PREFIX + node.name)
        copied.attribute.extend(node.attribute)
        graph.nodes.append(copied)
    return PREFIX + "logits"
