"""Enrolled classes over many feature maps at once, alone or after the extractor as a batch classifier.

Shape letters: n images, way classes, M rows of all classes together, r = h w locations, d channels, S side of an image.
"""

import json
from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from frn.inference.extractor import Extractor
from frn.inference.unknown import RejectRule
from frn.ridge.enrolment import EnrolledClass
from frn_export.graphs.builder import FLOAT, STRING, GraphBuilder, Shape
from frn_export.graphs.classifier import explain, nearest, require_explained, score_logits
from frn_export.graphs.enrolled_head import HeadClasses, write_logits
from frn_export.graphs.sums import class_sums, join

SCORES_FORMAT, BATCH_FORMAT = "frn-scores", "frn-batch-classifier"


def scores_graph(extractor: Extractor, classes: Mapping[str, EnrolledClass], gamma: float) -> onnx.ModelProto:
    """Build the classes alone: `feature_map` (n, r, d) to the outputs of `batch_graph`.

    Raises FrnError if there are no classes.
    """
    graph = GraphBuilder("s_")
    outputs = _score(graph, classes, extractor.grid, gamma)
    inputs: dict[str, tuple[int, Shape]] = {"feature_map": (FLOAT, ("n", *extractor.shape))}
    return graph.model(inputs, outputs, _names(classes), name="scores", kind=SCORES_FORMAT)


def batch_graph(
    extractor: Extractor, classes: Mapping[str, EnrolledClass] | HeadClasses, *, rule: RejectRule, gamma: float
) -> onnx.ModelProto:
    """Build a classifier of prepared images.

    The graph maps `images` float32 (n, 3, S, S) RGB in [0, 1] to `label` (n) of strings, `probability`, `class_error`,
    `explained` (n, way), `threshold` (n) that the largest `explained` must reach, and `error_map` (n, way, h, w).
    Raises FrnError if there are no classes.
    """
    graph = GraphBuilder("s_")
    backbone = onnx.load_model_from_string(extractor.data).graph
    graph.constants.extend(backbone.initializer)
    graph.nodes.extend(backbone.node)
    side = extractor.transform.size
    inputs: dict[str, tuple[int, Shape]] = {"images": (FLOAT, ("n", 3, side, side))}
    if isinstance(classes, HeadClasses):
        logits, names = write_logits(graph, classes, "feature_map"), list(classes.pools)
        energy = graph.node("Expand", graph.constant(1.0), graph.node("Shape", logits, start=0, end=1))
        score_logits(graph, logits, names, energy, rule, axis=1)
        outputs = _outputs(len(names))
    else:
        names, outputs = list(classes), _score(graph, classes, extractor.grid, gamma)
        energy = graph.node("ReduceMean", graph.node("ReduceSumSquare", "feature_map", graph.ints(2)), graph.ints(1, 2))
        near = nearest(graph, graph.node("ReduceMean", "feature_map", graph.ints(1), keepdims=0), classes, axis=1)
        require_explained(graph, graph.node("Reshape", energy, graph.ints(-1)), len(names), rule, near, axis=1)
    outputs["threshold"] = (FLOAT, ("n",))
    return graph.model(inputs, outputs, _names(names), name="batch_classifier", kind=BATCH_FORMAT)


def _names(classes: Iterable[str]) -> dict[str, str]:
    return {"frn.classes": json.dumps(list(classes), ensure_ascii=False)}


def _outputs(way: int) -> dict[str, tuple[int, Shape]]:
    shares = dict.fromkeys(("probability", "class_error", "explained"), (FLOAT, ("n", way)))
    return {"label": (STRING, ("n",)), **shares}


def _score(
    graph: GraphBuilder, classes: Mapping[str, EnrolledClass], grid: tuple[int, int], gamma: float
) -> dict[str, tuple[int, Shape]]:
    """Map `feature_map` (n, r, d) to the outputs and return them: one product with all rows, then sums by class."""
    names, (h, w) = list(classes), grid
    way, joined = len(names), join(classes)
    # Locations in one row: onnxruntime would fuse the product with the Transpose before it, and then fails at n = 0.
    locations = graph.node("Reshape", "feature_map", graph.ints(-1, joined.rows.shape[1]))
    seen = graph.node("MatMul", locations, graph.constant(np.ascontiguousarray(joined.rows.T)))
    seen = graph.node("Reshape", seen, graph.ints(-1, h * w, len(joined.rows)))  # n, r, M
    taken = class_sums(graph, joined, seen, axis=2)  # n, r, way
    length = graph.node("ReduceSumSquare", "feature_map", graph.ints(2), keepdims=1)  # n, r, 1
    error = graph.node("Transpose", graph.node("Sub", length, taken), perm=[0, 2, 1])  # n, way, r
    graph.node("Reshape", error, graph.ints(0, way, h, w), output="error_map")
    graph.node("ReduceMean", error, graph.ints(2), keepdims=0, output="class_error")
    energy = graph.node("ReduceMean", length, graph.ints(1), keepdims=0)  # n, 1
    explain(graph, energy)
    graph.node("Softmax", graph.node("Mul", "class_error", graph.constant(-gamma)), axis=1, output="probability")
    best = graph.node("ArgMin", "class_error", axis=1, keepdims=0)
    graph.node("Gather", graph.constant(np.array(names, dtype=object)), best, output="label")
    return _outputs(way) | {"error_map": (FLOAT, ("n", way, h, w))}
