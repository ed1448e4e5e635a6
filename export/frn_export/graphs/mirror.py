"""Test-time augmentation: an extractor that averages a photo and its mirror image, which takes twice the time.

The mirror image's map is flipped back before averaging. r and d are unchanged, so classes, error maps and files made
from the extractor have the same form as with the plain one.
"""

import hashlib

import numpy as np
import onnx
from onnx import helper

from frn.inference.extractor import PLAIN
from frn_export.graphs.builder import GraphBuilder


def mirrored(features: bytes) -> bytes:
    """Add the mirror image to a `features.onnx`; the metadata records the hash of the plain one.

    An extractor that already has it is returned unchanged.
    """
    model = onnx.load_model_from_string(features)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if PLAIN in metadata:
        return features
    plain = model.graph
    r, d = (axis.dim_value for axis in plain.output[0].type.tensor_type.shape.dim[1:])
    h, w = map(int, metadata["frn.grid"].strip("[]").split(","))
    for node in plain.node:
        node.input[:] = ["m_images" if name == "images" else name for name in node.input]
        node.output[:] = ["m_maps" if name == "feature_map" else name for name in node.output]
    before, after = GraphBuilder("m_b"), GraphBuilder("m_a")
    last, end, back = before.ints(-1), before.ints(-(2**31)), before.ints(-1)
    turned = before.node("Slice", "images", last, end, before.ints(3), back)
    before.node("Concat", "images", turned, axis=0, output="m_images")
    pairs = after.node("Reshape", "m_maps", after.ints(2, -1, r, d))
    seen, other = (after.node("Gather", pairs, after.constant(np.array(look)), axis=0) for look in (0, 1))
    order = after.constant(np.arange(h * w).reshape(h, w)[:, ::-1].ravel())
    both = after.node("Add", seen, after.node("Gather", other, order, axis=1))
    after.node("Mul", both, after.constant(0.5), output="feature_map")
    nodes = [*before.nodes, *plain.node, *after.nodes]
    constants = [*before.constants, *plain.initializer, *after.constants]
    graph = helper.make_graph(nodes, plain.name, list(plain.input), list(plain.output), constants)
    result = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, producer_name=model.producer_name
    )
    helper.set_model_props(result, dict(sorted({**metadata, PLAIN: hashlib.sha256(features).hexdigest()}.items())))
    return result.SerializeToString(deterministic=True)
