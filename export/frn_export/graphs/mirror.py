"""Test-time augmentation in a `features.onnx`: mirror images (`hflip`), or crops of the whole photo (`views`).

The result is again an extractor, so that classes, error maps and files made from it have the same form. With `hflip`,
the mirror image's map is flipped back and averaged with the photo's, so r and d are unchanged. With `views`, the whole
photo is squeezed into a square, and the map has the locations of four overlapping crops: top left, top right, bottom
left, bottom right.

Shape letters: n photos, S side of the plain extractor's images, h x w its grid, d channels.
"""

import hashlib
import json
from dataclasses import asdict

import numpy as np
import onnx
from onnx import helper

from frn.errors import FrnError
from frn.features.extractor import PLAIN, TTA, Tta, require_fixed
from frn.images.transforms import EvaluationTransform
from frn_export.graphs.builder import FLOAT, GraphBuilder, value


def augmented(features: bytes, tta: Tta) -> bytes:
    """Build test-time augmentation into a `features.onnx`; the metadata records the hash of the plain one.

    An extractor that already has it is returned unchanged. Raises FrnError if it has a different one, or `views` is
    built into a model of another head than FRN's, whose score of a map may depend on its size.
    """
    if tta == "none":
        return features
    require_fixed(tta, "an exported graph is the same for every photo")
    model = onnx.load_model_from_string(features)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    plain, config = model.graph, json.loads(metadata["frn.config"])
    grid = h, w = json.loads(metadata["frn.grid"])
    images, maps = (list(values) for values in (plain.input, plain.output))
    r, d = (axis.dim_value for axis in maps[0].type.tensor_type.shape.dim[1:])
    if PLAIN in metadata:
        if (built_in := metadata.get(TTA, "hflip")) != tta:
            raise FrnError(f"the model already contains --tta {built_in}. Remove --tta {tta}, or use the plain model.")
        return features
    for node in plain.node:
        node.input[:] = ["m_images" if name == "images" else name for name in node.input]
        node.output[:] = ["m_maps" if name == "feature_map" else name for name in node.output]
    before, after = GraphBuilder("m_b"), GraphBuilder("m_a")
    if tta == "hflip":
        _mirror(before, after, grid, d)
    elif config["method"] != "frn":
        raise FrnError(f"--tta views joins feature maps, but this is a {config['method']} model. Use --tta hflip.")
    else:
        transform = EvaluationTransform(**config["transform"])
        _cut(before, after, transform, r, d)
        metadata["frn.config"] = json.dumps({**config, "transform": asdict(transform.whole())}, sort_keys=True)
        metadata |= {"frn.grid": json.dumps([3 * h, 3 * w]), TTA: tta}
        images = [value("images", FLOAT, ("n", 3, transform.whole().size, transform.whole().size))]
        maps = [value("feature_map", FLOAT, ("n", 4 * r, d))]
    nodes = [*before.nodes, *plain.node, *after.nodes]
    constants = [*before.constants, *plain.initializer, *after.constants]
    graph = helper.make_graph(nodes, plain.name, images, maps, constants)
    result = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, producer_name=model.producer_name
    )
    helper.set_model_props(result, dict(sorted({**metadata, PLAIN: hashlib.sha256(features).hexdigest()}.items())))
    return result.SerializeToString(deterministic=True)


def _mirror(before: GraphBuilder, after: GraphBuilder, grid: tuple[int, int], d: int) -> None:
    """Add the mirror images after the photos, `m_images` (2 n, 3, S, S), and average the maps `m_maps`."""
    h, w = grid
    last, end, back = before.ints(-1), before.ints(-(2**31)), before.ints(-1)
    turned = before.node("Slice", "images", last, end, before.ints(3), back)
    before.node("Concat", "images", turned, axis=0, output="m_images")
    pairs = after.node("Reshape", "m_maps", after.ints(2, -1, h * w, d))
    seen, other = (after.node("Gather", pairs, after.constant(np.array(look)), axis=0) for look in (0, 1))
    order = after.constant(np.arange(h * w).reshape(h, w)[:, ::-1].ravel())
    both = after.node("Add", seen, after.node("Gather", other, order, axis=1))
    after.node("Mul", both, after.constant(0.5), output="feature_map")


def _cut(before: GraphBuilder, after: GraphBuilder, transform: EvaluationTransform, r: int, d: int) -> None:
    """Cut photos (n, 3, 1.5 S, 1.5 S) into `m_images` (4 n, 3, S, S), and join the maps `m_maps` (4 n, r, d)."""
    side = transform.size
    ends = (0, transform.whole().size - side)
    axes = before.ints(2, 3)
    views = [
        before.node("Slice", "images", before.ints(y, x), before.ints(y + side, x + side), axes)
        for y in ends
        for x in ends
    ]
    before.node("Concat", *views, axis=0, output="m_images")
    maps = after.node("Reshape", "m_maps", after.ints(4, -1, r, d))
    maps = after.node("Transpose", maps, perm=[1, 0, 2, 3])
    after.node("Reshape", maps, after.ints(-1, 4 * r, d), output="feature_map")
