"""Preparation of an image of any size in a graph: `EvaluationTransform` on bytes, as in Pillow."""

from typing import Any

import numpy as np
import onnx

from frn.images.transforms import MAX_ASPECT, EvaluationTransform, centre_offset
from frn_export.graphs.builder import BOOL, DOUBLE, FLOAT, INT64, UINT8, GraphBuilder, value

EXACT = 128
"""Largest shorter side up to which images are resized with results bit-identical to Pillow's, at a higher cost.

In larger images, a few pixels are off by one grey level.
"""
STEPS = float(1 << 22)
"""Pillow's weights are multiples of the reciprocal of this number."""


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


def prepare(graph: GraphBuilder, transform: EvaluationTransform) -> None:
    """Prepare bytes (height, width, 3) as `images` (1, 3, S, S) in [0, 1], following `EvaluationTransform`.

    The many small steps can take as long as a small network. Sizes are therefore vectors (down, across), and almost
    every photo takes a branch without the steps that only strips and small images need.
    """
    length = transform.length
    offsets = graph.ints(*(centre_offset(each, transform.size) for each in range(MAX_ASPECT * length + 1)))
    sides = graph.node("Shape", "image", start=0, end=2)
    shorter, longer = graph.node("ReduceMin", sides, keepdims=1), graph.node("ReduceMax", sides, keepdims=1)
    # Larger images are not extreme strips and shrink so much that an occasional grey level does not matter.
    limit = graph.node("Max", graph.node("Div", longer, graph.ints(MAX_ASPECT)), graph.ints(max(EXACT, length - 1)))
    is_photo = graph.node("Greater", shorter, limit)
    any_image = _any_image(transform, length, offsets, sides)
    if transform.resize is None:
        any_image = _own_size_or(any_image, transform, sides)
    pixels = graph.node(
        "If", is_photo, then_branch=_shrunk(transform, length, offsets, sides, shorter), else_branch=any_image
    )
    # Not DequantizeLinear, which onnx's reference evaluator lacks at this opset.
    graph.node("Mul", graph.node("Cast", pixels, to=FLOAT), graph.constant(1 / 255), output="images")


def _shrunk(transform: EvaluationTransform, length: int, offsets: str, sides: str, shorter: str) -> onnx.GraphProto:
    """Build the centre crop of an image that is large and not a strip."""
    graph = GraphBuilder("shrink_")
    wanted = _wanted(graph, transform, length, sides, shorter)
    start = graph.node("Gather", offsets, wanted)
    end = graph.node("Add", start, graph.ints(transform.size))
    planes = _planes(graph, "image")
    how: dict[str, Any] = {"mode": "linear", "antialias": 1, "exclude_outside": 1}  # ignores outside pixels
    pixels = graph.node("Resize", planes, "", "", wanted, axes=[2, 3], **how)
    pixels = graph.node("Slice", pixels, start, end, graph.ints(2, 3))
    return _branch(graph, pixels, transform)


def _own_size_or(other: onnx.GraphProto, transform: EvaluationTransform, sides: str) -> onnx.GraphProto:
    """Leave an image of S x S unchanged, or use the other branch."""
    graph, same = GraphBuilder("own_"), GraphBuilder("same_")
    equal = graph.node("Cast", graph.node("Equal", sides, graph.ints(transform.size)), to=INT64)
    is_that_size = graph.node("Cast", graph.node("ReduceMin", equal, keepdims=0), to=BOOL)
    untouched = _branch(same, _planes(same, "image"), transform)
    return _branch(graph, graph.node("If", is_that_size, then_branch=untouched, else_branch=other), transform)


def _any_image(transform: EvaluationTransform, length: int, offsets: str, whole: str) -> onnx.GraphProto:
    """Build the centre crop of any image, exact to the last bit; strips are first cropped to a bounded ratio.

    Resize sometimes rounds halves unlike Pillow, and halves are frequent if an image changes little in size.
    """
    graph = GraphBuilder("any_")
    other = graph.node("Gather", whole, graph.ints(1, 0))
    sides = graph.node("Min", whole, graph.node("Mul", other, graph.ints(MAX_ASPECT)))
    first = graph.node("Div", graph.node("Sub", whole, sides), graph.ints(2))
    wanted = _wanted(graph, transform, length, sides, graph.node("ReduceMin", sides, keepdims=1))
    start = graph.node("Gather", offsets, wanted)
    scale, centres = _centres(graph, sides, wanted, start, transform.size)
    reach = graph.node("Max", scale, graph.doubles(1.0))  # 2, 1, 1: when enlarging, a pixel has two neighbours
    begin, end = _window(graph, sides, centres, reach)
    window = graph.node("Slice", "image", *(graph.node("Add", first, each) for each in (begin, end)), graph.ints(0, 1))
    ends = zip(*(graph.split(each, 2) for each in (begin, end, centres, reach)), strict=True)
    down, across = (_weights(graph, *each, axis=axis) for each, axis in zip(ends, (1, 0), strict=True))
    # No Transpose: onnxruntime 1.17 would fuse it with the next product, and lacks that fused product for doubles.
    rows = graph.node("Squeeze", graph.node("Concat", *graph.split(window, 3, axis=2), axis=0), graph.ints(2))
    narrow = _rounded(graph, graph.node("MatMul", _shares(graph, rows), across))  # rows first, as in `resize_bytes`
    planes = graph.node("Reshape", graph.node("Floor", narrow), graph.ints(3, -1, transform.size))
    pixels = _rounded(graph, graph.node("MatMul", down, _shares(graph, planes)))
    pixels = graph.node("Cast", pixels, to=UINT8)  # truncates the fraction
    return _branch(graph, graph.node("Unsqueeze", pixels, graph.ints(0)), transform)


def _branch(graph: GraphBuilder, pixels: str, transform: EvaluationTransform) -> onnx.GraphProto:
    return graph.body(graph.prefix, [], [value(pixels, UINT8, (1, 3, transform.size, transform.size))])


def _wanted(graph: GraphBuilder, transform: EvaluationTransform, length: int, sides: str, shorter: str) -> str:
    """Compute the resized sizes: the shorter side, or both, become `length`; the longer side is rounded down."""
    if transform.square:
        return graph.ints(length, length)
    return graph.node("Div", graph.node("Mul", sides, graph.ints(length)), shorter)


def _planes(graph: GraphBuilder, image: str) -> str:
    """Rearrange bytes (height, width, 3) as (1, 3, height, width)."""
    return graph.node("Unsqueeze", graph.node("Transpose", image, perm=[2, 0, 1]), graph.ints(0))


def _centres(graph: GraphBuilder, sides: str, wanted: str, start: str, size: int) -> tuple[str, str]:
    """Return the scale (2, 1, 1) in source pixels per output pixel, and the S centres (2, S, 1); by (down, across)."""
    sides, wanted, start = (
        graph.node("Unsqueeze", graph.node("Cast", each, to=DOUBLE), graph.ints(1, 2))
        for each in (sides, wanted, start)
    )
    scale = graph.node("Div", sides, wanted)
    middles = graph.node("Add", start, graph.constant(np.arange(size)[:, None] + 0.5))
    return scale, graph.node("Sub", graph.node("Mul", middles, scale), graph.doubles(0.5))


def _window(graph: GraphBuilder, sides: str, centres: str, reach: str) -> tuple[str, str]:
    """Return start and end (2) of the pixels that the crop needs; for a strip they are few."""
    axes = graph.ints(1, 2)
    lowest = graph.node("Sub", graph.node("ReduceMin", centres, axes, keepdims=0), graph.node("Squeeze", reach, axes))
    highest = graph.node("Add", graph.node("ReduceMax", centres, axes, keepdims=0), graph.node("Squeeze", reach, axes))
    begin = graph.node("Max", graph.node("Cast", lowest, to=INT64), graph.ints(0))
    end = graph.node("Add", graph.node("Cast", highest, to=INT64), graph.ints(1))
    return begin, graph.node("Min", end, sides)


def _weights(graph: GraphBuilder, begin: str, end: str, centres: str, reach: str, *, axis: int) -> str:
    """Return the weight of each pixel of the window in each pixel of the crop: Pillow's numbers with 22 bits.

    The filter is a triangle: 1 at the centre, 0 from `reach` on, and 0 outside the image. The image's pixels lie along
    `axis`, the crop's along the other axis.
    """
    scalars = (graph.node("Squeeze", each) for each in (begin, end))
    places = graph.node("Cast", graph.node("Range", *scalars, graph.constant(np.array(1))), to=DOUBLE)
    places = graph.node("Unsqueeze", places, graph.ints(1 - axis))
    centres = graph.node("Squeeze", centres, graph.ints(0 if axis else 2))
    reach = graph.node("Squeeze", reach, graph.ints(0))
    share = graph.node("Sub", reach, graph.node("Abs", graph.node("Sub", places, centres)))
    share = graph.node("Max", share, graph.doubles(0.0))
    share = graph.node("Div", share, graph.node("ReduceSum", share, graph.ints(axis), keepdims=1))
    return graph.node("Floor", _rounded(graph, graph.node("Mul", share, graph.doubles(STEPS))))


def _shares(graph: GraphBuilder, pixels: str) -> str:
    """Convert bytes to the unit of `_weights`."""
    return graph.node("Div", graph.node("Cast", pixels, to=DOUBLE), graph.doubles(STEPS))


def _rounded(graph: GraphBuilder, values: str) -> str:
    """Add a half, so that the integer part is the rounded value."""
    return graph.node("Add", values, graph.doubles(0.5))
