"""The search for the subject of a photo in ONNX (`frn.inference.find`): margins of all windows of a photo."""

import json
from collections.abc import Mapping

import numpy as np
import onnx

from frn.features.any_size import any_size
from frn.inference.find import Finder
from frn.ridge.enrolment import EnrolledClass
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.graphs.classifier import class_sums, join

FINDER_FORMAT = "frn-finder"


def finder_graph(finder: Finder, classes: Mapping[str, EnrolledClass]) -> onnx.ModelProto:
    """Build a search: `images` float32 (1, 3, height, width) RGB in [0, 1], of any size, to its windows.

    The outputs are `margin` and `energy` (rows, columns) of all windows of the size of the model's map, as
    `Finder.all_windows` has them. Raises FrnError if the network depends on the size of its images.
    """
    graph, joined = GraphBuilder("f_"), join(classes)
    plain = onnx.load_model_from_string(any_size(finder.extractor.data, finder.where)).graph
    graph.include(plain)
    (h, w), way, d = finder.grid, len(classes), joined.rows.shape[1]
    maps = plain.output[0].name  # 1, H, W, d
    length = graph.node("ReduceSumSquare", maps, graph.ints(3), keepdims=1)
    mean_length = graph.node("ReduceMean", length, keepdims=0)
    size = graph.node("Concat", graph.node("Shape", length, start=0, end=3), graph.ints(way), axis=0)
    seen = graph.node("MatMul", graph.node("Reshape", maps, graph.ints(1, -1, d)), graph.constant(joined.rows.T.copy()))
    taken = graph.node("Reshape", class_sums(graph, joined, seen), size)
    errors = graph.node("Sub", length, taken)
    allowances = np.array([enrolled.allowance for enrolled in classes.values()], np.float32)
    if allowances.any():
        errors = graph.node("Add", errors, graph.node("Mul", length, graph.constant(allowances)))
    # The whole photo has a mean energy of one.
    errors, length = (graph.node("Div", values, mean_length) for values in (errors, length))
    errors, length = (
        graph.node(
            "AveragePool", graph.node("Transpose", values, perm=[0, 3, 1, 2]), kernel_shape=[h, w], strides=[1, 1]
        )
        for values in (errors, length)
    )
    least = graph.node("ReduceMin", errors, graph.ints(1), keepdims=1)
    others = length
    if way > 1:
        total = graph.node("ReduceSum", errors, graph.ints(1), keepdims=1)
        others = graph.node("Mul", graph.node("Sub", total, least), graph.constant(1 / (way - 1)))
    graph.node("Squeeze", graph.node("Sub", others, least), graph.ints(0, 1), output="margin")
    graph.node("Squeeze", length, graph.ints(0, 1), output="energy")
    return graph.model(
        inputs={plain.input[0].name: (FLOAT, (1, 3, "height", "width"))},
        outputs=dict.fromkeys(("margin", "energy"), (FLOAT, ("rows", "columns"))),
        metadata={"frn.grid": json.dumps(finder.grid), "frn.side": str(finder.side)},
        name="finder",
        kind=FINDER_FORMAT,
    )
