"""Preparation of an image of any size in a graph: `EvaluationTransform` on bytes, within a grey level of Pillow.

An enlarged image may differ by two grey levels, one for each pass over its rows and columns.
"""

import onnx

from frn.images.transforms import MAX_ASPECT, EvaluationTransform, centre_offset
from frn_export.graphs.builder import FLOAT, INT64, UINT8, GraphBuilder


def preprocess_graph(transform: EvaluationTransform) -> onnx.ModelProto:
    """Build only the preparation: `image` uint8 (height, width, 3) RGB to `images` (1, 3, S, S) in [0, 1]."""
    graph = GraphBuilder("k_")
    prepare(graph, transform)
    return graph.model(
        inputs={"image": (UINT8, ("height", "width", 3))},
        outputs={"images": (FLOAT, (1, 3, transform.size, transform.size))},
        metadata={},
        name="preprocess",
        kind="frn-prepare",
    )


def resize_graph() -> onnx.ModelProto:
    """Build a resizing: `image` uint8 (height, width, 3) RGB, `size` int64 (2), to `images` (1, 3, *size) in [0, 1]."""
    graph = GraphBuilder("r_")
    scaled = _scaled(graph, "image", "size")
    graph.node("Mul", graph.node("Cast", scaled, to=FLOAT), graph.constant(1 / 255), output="images")
    return graph.model(
        inputs={"image": (UINT8, ("height", "width", 3)), "size": (INT64, (2,))},
        outputs={"images": (FLOAT, (1, 3, "rows", "columns"))},
        metadata={},
        name="resize",
        kind="frn-resize",
    )


def prepare(graph: GraphBuilder, transform: EvaluationTransform) -> None:
    """Prepare bytes (height, width, 3) as `images` (1, 3, S, S) in [0, 1], following `EvaluationTransform`.

    The many small steps can take as long as a small network. Sizes are therefore vectors (down, across).
    """
    length, size = transform.length, transform.size
    size_of_image = graph.node("Shape", "image", start=0, end=2)
    turned = graph.node("Gather", size_of_image, graph.ints(1, 0))
    sides = graph.node(
        "Min", size_of_image, graph.node("Mul", turned, graph.ints(MAX_ASPECT))
    )  # strips are cropped first
    first = graph.node("Div", graph.node("Sub", size_of_image, sides), graph.ints(2))
    part = graph.node("Slice", "image", first, graph.node("Add", first, sides), graph.ints(0, 1))
    if transform.square:
        wanted = graph.ints(length, length)
    else:  # the longer side is rounded down
        shorter = graph.node("ReduceMin", sides, keepdims=1)
        wanted = graph.node("Div", graph.node("Mul", sides, graph.ints(length)), shorter)
    if transform.resize is None:  # an image of S x S stays as it is
        is_size = graph.node("Equal", graph.node("ReduceMin", size_of_image, keepdims=1), graph.ints(size))
        is_size = graph.node(
            "And", is_size, graph.node("Equal", graph.node("ReduceMax", size_of_image, keepdims=1), graph.ints(size))
        )
        wanted = graph.node("Where", is_size, size_of_image, wanted)
    scaled = _scaled(graph, part, wanted)
    offsets = graph.ints(*(centre_offset(each, size) for each in range(MAX_ASPECT * length + 1)))
    start = graph.node("Gather", offsets, wanted)
    pixels = graph.node("Slice", scaled, start, graph.node("Add", start, graph.ints(size)), graph.ints(2, 3))
    # Not DequantizeLinear, which onnx's reference evaluator lacks at this opset.
    graph.node("Mul", graph.node("Cast", pixels, to=FLOAT), graph.constant(1 / 255), output="images")


def _scaled(graph: GraphBuilder, image: str, size: str) -> str:
    """Resize bytes (height, width, 3) to planes (1, 3, *size) as Pillow does."""
    planes = graph.node("Unsqueeze", graph.node("Transpose", image, perm=[2, 0, 1]), graph.ints(0))
    # `exclude_outside` ignores pixels outside the image, as Pillow does. All four sizes are given instead of `axes`:
    # onnxruntime loses these when it moves the Transpose behind the Resize, as it does before int8 convolutions.
    sizes = graph.node("Concat", graph.ints(1, 3), size, axis=0)
    return graph.node("Resize", planes, "", "", sizes, mode="linear", antialias=1, exclude_outside=1)
