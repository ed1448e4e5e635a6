"""An exported model beside what it was made from: its extractor and torch, a whole classifier and its extractor."""

from collections.abc import Mapping

import numpy as np
import torch
from PIL import Image

from frn.bench.timing import take_turns
from frn.data.synthetic import draw_classes
from frn.errors import FrnError
from frn.inference.extractor import Extractor
from frn.inference.onnx_runtime import open_session
from frn.models.model import Model
from frn.ridge.enrolment import ClassScorer, EnrolledClass, enroll


def time_extractor(model: Model, extractor: Extractor, *, batch: int, rounds: int | None) -> dict[str, float]:
    """Milliseconds per batch of "torch" (eager) and "onnxruntime", from pixels in [0, 1] to feature maps.

    The extractor is made from the model and has one thread; `rounds` as for `take_turns`.
    """
    side = extractor.transform.size
    images = torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(0))
    inputs = {"images": images.numpy()}
    session = open_session(extractor.data, "features.onnx", device="cpu", threads=1)
    return take_turns(
        {"torch": lambda: model.feature_maps(images), "onnxruntime": lambda: session.run(None, inputs)},
        rounds=rounds,
    )


def time_classifier(
    extractor: Extractor,
    classifier: bytes,
    enrolled: Mapping[str, EnrolledClass],
    *,
    height: int,
    width: int,
    rounds: int | None,
) -> dict[str, float]:
    """Milliseconds per image of the whole "classifier", of the "library" doing the same, and of the bare "extractor".

    The first two go from any image to class errors, the library with Pillow, the extractor and numpy; the extractor
    goes from prepared pixels to a feature map.

    The bytes of `classifier.onnx` are made from the extractor and its enrolled classes; the image is of any size.
    """
    session = open_session(classifier, "classifier.onnx", device="cpu", threads=1)
    bare = open_session(extractor.data, "features.onnx", device="cpu", threads=1)
    generator = np.random.default_rng(0)
    side = extractor.transform.size
    prepared = {"images": generator.random((1, 3, side, side), dtype=np.float32)}
    pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
    image, bank = Image.fromarray(pixels), ClassScorer(list(enrolled.values()))
    return take_turns(
        {
            "extractor": lambda: bare.run(None, prepared),
            "library": lambda: bank.class_error(extractor.feature_maps(extractor.transform(image)[None])),
            "classifier": lambda: session.run(None, {"image": pixels}),
        },
        rounds=rounds,
    )


def enroll_moths(extractor: Extractor, way: int = 5) -> dict[str, EnrolledClass]:
    """Enroll classes of five drawn moths. FrnError if the model has no FRN head."""
    if extractor.head is None:
        raise FrnError(f"this model was trained as {extractor.method}; a classifier needs an FRN head")
    side = extractor.transform.size
    moths = draw_classes(way, 5, size=side, seed=0)
    maps = (extractor.feature_maps(each) for each in moths.images().reshape(way, 5, side, side, 3))
    return {name: enroll(supports, extractor.head) for name, supports in zip(moths.names, maps, strict=True)}
