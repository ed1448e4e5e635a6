"""The search for the subject of a photo in ONNX (`frn.inference.find`): the best window of each size in a photo."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from frn.features.any_size import any_size
from frn.inference.find.finder import LEARNED, Finder
from frn.ridge.enrolment import Array, EnrolledClass
from frn_export.graphs.builder import FLOAT, INT64, GraphBuilder
from frn_export.graphs.classifier import class_sums, join, with_allowances


def finder_graph(finder: Finder, classes: Mapping[str, EnrolledClass], weights: Array) -> onnx.ModelProto:
    """Build a search: `images` float32 (1, 3, height, width) RGB in [0, 1], of any size, to its best windows.

    The weights (d,) are `Sought.weights`. The output `windows` int64 (sizes, 4) has the left and top edge, the width
    and the height, in cells of the map, of the window with the largest margin of each size, as in `Finder.windows`.
    Raises FrnError if the network depends on the size of its images.
    """
    graph, joined = GraphBuilder("f_"), join(classes)
    plain = onnx.load_model_from_string(any_size(finder.extractor.data, finder.where)).graph
    graph.include(plain)
    way, d = len(classes), joined.rows.shape[1]
    maps = plain.output[0].name  # 1, H, W, d
    length = graph.node("ReduceSumSquare", maps, graph.ints(3), keepdims=1)
    size = graph.node("Concat", graph.node("Shape", length, start=0, end=3), graph.ints(way), axis=0)
    seen = graph.node("MatMul", graph.node("Reshape", maps, graph.ints(1, -1, d)), graph.constant(joined.rows.T.copy()))
    taken = graph.node("Reshape", class_sums(graph, joined, seen), size)
    errors = graph.node("Sub", length, taken)
    # Errors are squared, and maps are not scaled to a mean energy of 1 here, so what was learned is.
    taught = graph.constant((LEARNED * weights[:, None]).astype(np.float32))
    scale = graph.node("Sqrt", graph.node("ReduceMean", length, keepdims=1))
    learned = graph.node("Mul", graph.node("MatMul", maps, taught), scale)
    planes = [graph.node("Transpose", values, perm=[0, 3, 1, 2]) for values in (errors, length, learned)]
    windows = [_best_window(graph, planes, classes, each) for each in finder.sizes]
    graph.node("Concat", *windows, axis=0, output="windows")
    return graph.model(
        inputs={plain.input[0].name: (FLOAT, (1, 3, "height", "width"))},
        outputs={"windows": (INT64, (len(windows), 4))},
        metadata={"frn.grid": json.dumps(finder.grid), "frn.side": str(finder.side)},
        name="finder",
        kind="frn-finder",
    )


def _best_window(
    graph: GraphBuilder, planes: Sequence[str], classes: Mapping[str, EnrolledClass], size: tuple[int, int]
) -> str:
    """Return the window of h x w cells with the largest margin, (1, 4).

    The planes are errors (1, way, H, W), squared lengths and what was learned from boxes (1, 1, H, W).
    """
    (h, w), way = size, len(classes)
    errors, others, learned = (
        graph.node("AveragePool", values, kernel_shape=[h, w], strides=[1, 1]) for values in planes
    )
    errors = with_allowances(graph, classes, errors, others, axes=(1, 1))
    least = graph.node("ReduceMin", errors, graph.ints(1), keepdims=1)
    if way > 1:
        total = graph.node("ReduceSum", errors, graph.ints(1), keepdims=1)
        others = graph.node("Mul", graph.node("Sub", total, least), graph.constant(1 / (way - 1)))
    margin = graph.node("Add", graph.node("Sub", others, least), learned)
    place = graph.node("ArgMax", graph.node("Reshape", margin, graph.ints(-1)), axis=0, keepdims=1)
    columns = graph.node("Shape", margin, start=3, end=4)
    top = graph.node("Div", place, columns)
    left = graph.node("Sub", place, graph.node("Mul", top, columns))
    return graph.node("Unsqueeze", graph.node("Concat", left, top, graph.ints(w, h), axis=0), graph.ints(0))
