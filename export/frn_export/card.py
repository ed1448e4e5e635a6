"""Model card: a README next to the exported files, for users of onnxruntime without this library.

The card is generated from the files, so it always describes them, and the same files always give the same card.
"""

import json
from collections.abc import Mapping
from importlib.resources import files as resource_files

import onnx
from jinja2 import StrictUndefined, Template
from onnx import TensorProto

from frn._version import __version__
from frn.images.transforms import EvaluationTransform

PRECISIONS = {
    "fp32": "fp32",
    "fp16": "fp16: weights are stored in half precision, computation is in float32",
    "int8": "int8: convolutions are computed with 8-bit integers",
}
OLDEST_RUNTIME = "1.17"  # oldest tested version of onnxruntime (tests/runtimes)
TYPES = {
    TensorProto.FLOAT: "float32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.STRING: "string",
}
MEANINGS = {
    "images": "prepared images: RGB in [0, 1], resized and cropped as below; normalisation is included",
    "feature_map": "r locations of d channels",
    "support": "feature maps of each class's examples, padded with zeros if a class has fewer than the others",
    "shots": "number of examples of each class",
    "query": "feature maps of the images to classify",
    "logits": "the largest value is the answer; softmax gives probabilities",
    "windows": "left and top edge, width and height of the best window of each size, in cells of the map",
    "class_error": "mean squared error of the class's reconstruction; the smallest is the answer",
    "image": "RGB of any size, upright; resizing and cropping are included",
    "label": "the class that reconstructs the image best",
    "probability": "softmax over the classes; sums to 1, even for an image that belongs to no class",
    "explained": "share of the image's feature energy that the class reconstructs, 1 - class_error / mean \\|q\\|^2",
    "known": "probability that the image belongs to one of the classes; below `frn.threshold` it is unknown",
    "error_map": "squared error of each location for each class; its mean is `class_error`",
}

OTHER_MEANINGS = MEANINGS | {
    "support": "feature maps of each class's examples, repeated if a class has fewer than the others",
    "class_error": "negative logarithm of the probability; the smallest is the answer",
    "label": "the most likely class",
    "explained": "1 - class_error, at least 0",
}
"""Meanings that differ for heads other than FRN's."""

OPEN_PHOTO = """\
import io
from PIL import Image, ImageCms, ImageOps


def open_photo(path):  # upright by its EXIF tag, sRGB by its ICC profile
    image = ImageOps.exif_transpose(Image.open(path))
    if profile := image.info.get("icc_profile"):
        image = ImageCms.profileToProfile(image, io.BytesIO(profile), ImageCms.createProfile("sRGB"), outputMode="RGB")
    return image.convert("RGB")  # frn also puts transparent photos on white, and scales 16-bit ones
"""
"""Code that opens a photo in every example; docs/guides/export.md and docs/tutorials/deployment.md repeat it."""


def model_card(
    files: Mapping[str, bytes], record: Mapping[str, object], *, precision: str = "fp32", cost: str = ""
) -> str:
    """Write the card of exported files, given by name without `.onnx`; `cost` describes the loss of precision."""
    models = {name: onnx.load_model_from_string(data) for name, data in files.items()}
    metadata = {entry.key: entry.value for entry in models["features"].metadata_props}
    config = json.loads(metadata["frn.config"])
    transform, grid = EvaluationTransform(**config["transform"]), json.loads(metadata["frn.grid"])
    r, d = _shape(models["features"].graph.output[0])[1:]
    source = (resource_files("frn_export") / "card.md.jinja").read_text(encoding="utf-8")
    template = Template(source, trim_blocks=True, undefined=StrictUndefined)
    text = template.render(
        graphs={name: model.graph for name, model in models.items()},
        shape=_shape,
        types=TYPES,
        meanings=MEANINGS if config["method"] == "frn" else OTHER_MEANINGS,
        open_photo=OPEN_PHOTO,
        backbone=config["backbone"],
        method=config["method"],
        transform=transform,
        size=transform.size,
        r=r,
        d=d,
        grid=" x ".join(map(str, grid)),
        data=" ".join(str(record.get("data", "not recorded")).split()).replace("|", "\\|"),
        precision=PRECISIONS[precision] + (f" ({cost})" if cost else ""),
        opset=models["features"].opset_import[0].version,
        ir=models["features"].ir_version,
        oldest=OLDEST_RUNTIME,
        version=__version__,
        record=json.dumps(record, indent=2, sort_keys=True),
    )
    return text.rstrip("\n") + "\n"


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
