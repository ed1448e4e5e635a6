"""An extractor for images of any size: the same network, whose map grows with the image."""

from frn.errors import FrnError


def any_size(features: bytes, where: str) -> bytes:
    """Return a `features.onnx` for images (n, 3, height, width) of any size, with maps (n, H, W, d).

    Test-time augmentation is left out. Raises FrnError, with `where`, if the network depends on the size of its images,
    as a transformer with learned positions does.
    """
    import onnx  # here, because a tenth of the time to start would go into it

    model = onnx.load_model_from_string(features)
    nodes, graph = model.graph.node, model.graph
    if any("m_maps" in node.output for node in nodes):  # augmented: keep only the plain extractor inside
        kept = [node for node in nodes if not node.name.startswith(("m_a", "m_b"))]
        del nodes[:]
        nodes.extend(kept)
    reshapes = [node for node in nodes if node.op_type == "Reshape"]
    after = [node for node in nodes if reshapes and reshapes[0].output[0] in node.input]
    if len(reshapes) != 1 or [node.op_type for node in after] != ["Transpose"]:
        raise FrnError(f"{where}: is not purely convolutional, so it cannot search photos. Use another model.")
    after[0].input[0] = reshapes[0].input[0]  # locations stay in rows and columns
    after[0].attribute[0].ints[:] = [0, 2, 3, 1]
    nodes.remove(reshapes[0])
    made = {name for node in nodes for name in node.output}
    used = {name for node in nodes for name in node.input}
    for constant in [constant for constant in graph.initializer if constant.name not in used]:
        graph.initializer.remove(constant)  # onnxruntime would warn about it
    graph.input[0].name = next(name for name in ("m_images", "images") if name in used)
    graph.output[0].name = next(name for name in ("m_maps", "feature_map") if name in made)
    images, maps = (values[0].type.tensor_type.shape.dim for values in (graph.input, graph.output))
    images[2].dim_param, images[3].dim_param = "height", "width"
    maps.add().dim_value = maps[2].dim_value
    maps[1].dim_param, maps[2].dim_param = "H", "W"
    return model.SerializeToString(deterministic=True)
