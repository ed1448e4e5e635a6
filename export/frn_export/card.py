"""Model card: a README beside the exported files, for users of onnxruntime without this library.

It is generated from the files, so it always describes them, and the same files give the same card.
"""

import json
from collections.abc import Mapping
from string import Template
from typing import Any

import onnx
from onnx import TensorProto

from frn._version import __version__
from frn.images.transforms import EvaluationTransform

PRECISIONS = {
    "fp32": "fp32",
    "fp16": "fp16: weights are stored in half precision, computation is in float32",
    "int8": "int8: convolutions are computed with 8-bit integers",
}
OLDEST_RUNTIME = "1.17"
"""Oldest tested version of onnxruntime (tests/runtimes)."""
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
    "class_error": "mean squared error of the class's reconstruction; the smallest is the answer",
    "image": "RGB of any size, upright; resizing and cropping are included",
    "label": "the class that reconstructs the image best",
    "probability": "softmax over the classes; sums to 1, even for an image of no class",
    "explained": "share of the image's feature energy that the class reconstructs, 1 - class_error / mean \\|q\\|^2",
    "threshold": "share that a class must explain; below it the image is unknown",
    "error_map": "squared error of each location for each class; its mean is `class_error`",
}

TITLE = "# An exported few-shot classifier"
OPEN_PHOTO = """\
import io
from PIL import Image, ImageCms, ImageOps


def open_photo(path):  # upright by its EXIF tag, sRGB by its ICC profile
    image = ImageOps.exif_transpose(Image.open(path))
    if profile := image.info.get("icc_profile"):
        image = ImageCms.profileToProfile(image, io.BytesIO(profile), ImageCms.createProfile("sRGB"), outputMode="RGB")
    return image.convert("RGB")
"""
"""Code that opens a photo in every example; docs/guides/export.md and docs/tutorials/deployment.md repeat it."""

CARD = Template("""\
$title

| | |
|---|---|
| backbone | $backbone |
| method | $method |
| image | $size x $size pixels, RGB: $geometry |
| feature map | r = $r locations ($grid) of d = $d channels |
| trained on | $data |
| precision | $precision |
| format | ONNX, opset $opset, IR version $ir, standard operators, each file self-contained |
| runs in | onnxruntime $oldest and newer, onnxruntime-node, onnxruntime-web |
| program | frn $version |

Training record from the model file:

```json
$record
```

The examples need numpy, pillow and onnxruntime. They open photos with this function (put a transparent photo on white
first):

```python
$open_photo```

$sections""")

CLASSIFIER = Template("""\
## classifier.onnx

Classifies a photo of any size into one of $way classes.

$signature

The photo is "unknown", of none of the classes, if `explained.max() < threshold`. Metadata: `frn.classes`, the names in
the order of `way` (a JSON list).

```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("classifier.onnx", providers=["CPUExecutionProvider"])
image = np.asarray(open_photo("photo.jpg"))
label, explained, threshold = session.run(["label", "explained", "threshold"], {"image": image})
print("unknown" if explained.max() < threshold else label)
```
""")

PREPARE = Template("""\
## preprocess.onnx

Turns a photo of any size into the `images` of `features.onnx`: $geometry.

$signature
""")

FEATURES = Template("""\
## features.onnx

Turns an image into its feature map.

$signature

Preprocess each image as in training ($geometry), with `preprocess.onnx` or with this code:

```python
import numpy as np
import onnxruntime

features = onnxruntime.InferenceSession("features.onnx", providers=["CPUExecutionProvider"])
def embed(path):
    image = open_photo(path)
    image = $resized
    left, top = (round((side - $size) / 2) for side in image.size)
    pixels = np.asarray(image.crop((left, top, left + $size, top + $size)), np.float32) / 255
    return features.run(["feature_map"], {"images": pixels.transpose(2, 0, 1)[None]})[0]
```
""")

HEAD = Template("""\
## head.onnx

Compares query photos with classes of a few examples, for any number of classes, examples and photos. It uses the
model's trained lambda; `classifier.onnx` uses the lambda chosen from its examples.

$signature

With `embed` from above:

```python
head = onnxruntime.InferenceSession("head.onnx", providers=["CPUExecutionProvider"])
classes = {"jay": ["jay-1.jpg", "jay-2.jpg"], "wren": ["wren-1.jpg"]}
maps = [np.concatenate([embed(path) for path in paths]) for paths in classes.values()]
support = np.zeros((len(maps), max(map(len, maps)), $r, $d), np.float32)
for row, found in zip(support, maps):
    row[: len(found)] = found
inputs = {"support": support, "shots": np.array([len(found) for found in maps]), "query": embed("photo.jpg")}
(logits,) = head.run(["logits"], inputs)
print(list(classes)[logits[0].argmax()])
```
""")

BATCH = Template("""\
## classifier-batch.onnx

The same classes for any number of preprocessed images at once.

$signature

The metadata is that of `classifier.onnx`. `images` are the stacked inputs that `embed` below gives to `features.onnx`.
""")
SECTIONS = {
    "classifier": CLASSIFIER,
    "classifier-batch": BATCH,
    "preprocess": PREPARE,
    "features": FEATURES,
    "head": HEAD,
}
"""Sections by file name, in the order of the card."""


def model_card(
    files: Mapping[str, bytes], record: Mapping[str, object], *, precision: str = "fp32", cost: str = ""
) -> str:
    """Write the card of exported files, given by name without `.onnx`; `cost` describes the loss of precision."""
    models = {name: onnx.load_model_from_string(data) for name, data in files.items()}
    metadata = {entry.key: entry.value for entry in models["features"].metadata_props}
    config = json.loads(metadata["frn.config"])
    transform, grid = EvaluationTransform(**config["transform"]), json.loads(metadata["frn.grid"])
    r, d = _shape(models["features"].graph.output[0])[1:]
    facts = {
        "title": TITLE,
        "open_photo": OPEN_PHOTO,
        "backbone": config["backbone"],
        "method": config["method"],
        "size": transform.size,
        "geometry": _geometry(transform),
        "resized": _resized(transform),
        "r": r,
        "d": d,
        "grid": f"{grid[0]} x {grid[1]}",
        "data": _cell(record.get("data", "not recorded")),
        "precision": PRECISIONS[precision] + (f" ({cost})" if cost else ""),
        "opset": models["features"].opset_import[0].version,
        "ir": models["features"].ir_version,
        "oldest": OLDEST_RUNTIME,
        "version": __version__,
        "record": json.dumps(record, indent=2, sort_keys=True),
    }
    sections = []
    for name, section in SECTIONS.items():
        if name in models:
            graph = models[name].graph
            own = {"signature": _signature(graph), "way": _way(graph)}
            sections.append(section.substitute(facts, **own))
    return CARD.substitute(facts, sections="\n".join(sections))


def _signature(graph: onnx.GraphProto) -> str:
    """Return a Markdown table of inputs and outputs."""
    rows = ["| | name | type | shape | |", "|---|---|---|---|---|"]
    for kind, values in (("in", graph.input), ("out", graph.output)):
        for value in values:
            dimensions = ", ".join(map(str, _shape(value)))
            elements = TYPES[value.type.tensor_type.elem_type]
            rows.append(f"| {kind} | `{value.name}` | {elements} | ({dimensions}) | {MEANINGS[value.name]} |")
    return "\n".join(rows)


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim]


def _way(graph: onnx.GraphProto) -> int | str:
    return next((_shape(value)[-1] for value in graph.output if value.name == "probability"), "way")


def _geometry(transform: EvaluationTransform) -> str:
    size = transform.size
    how = f"{'both sides' if transform.square else 'the shorter side'} to {transform.length}"
    exempt = "" if transform.resize else f" (unless the image is already {size} x {size})"
    return f"{how}{exempt}, then the centre {size} x {size}"


def _resized(transform: EvaluationTransform) -> str:
    """Return the example's resize expression; without `resize`, images of the model's size are left unchanged."""
    size, length = transform.size, transform.length
    target = f"({length}, {length})" if transform.square else f"[{length} * n // min(image.size) for n in image.size]"
    resized = f"image.resize({target}, Image.BILINEAR)"
    return resized if transform.resize else f"image if image.size == ({size}, {size}) else {resized}"


def _cell(value: Any) -> str:
    """Return text that stays within a table cell."""
    return " ".join(str(value).split()).replace("|", "\\|")
