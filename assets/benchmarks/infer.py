"""Compare an exported extractor with torch, a whole classifier with its extractor, and `frn classify` with a loop."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from bench import AnyRounds, AsJson, run, show
from bench.timing import take_turns
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import classifier_graph
from PIL import Image

from frn.cli.shell.console import user_errors
from frn.data.synthetic import draw_classes
from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import open_session
from frn.models.model import Model, load_model
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.enrolment import ClassScorer, EnrolledClass, enroll


def contestants(
    model: Model, extractor: Extractor, classifier: bytes, enrolled: Mapping[str, EnrolledClass], batches: Iterable[int]
) -> dict[str, dict[str, Callable[[], object]]]:
    """Return what is compared, on one thread: maps of a batch of images in [0, 1], and answers for photos of any size.

    `classifier` is the content of a `classifier.onnx` of this extractor, of this model, and of these classes. "library"
    uses Pillow, the extractor and numpy; "extractor" computes a map from prepared pixels.
    """
    size, generator = extractor.transform.size, np.random.default_rng(0)
    bare = open_session(extractor.data, "features.onnx", device="cpu", threads=1)
    session = open_session(classifier, "classifier.onnx", device="cpu", threads=1)
    bank, cases = ClassScorer(list(enrolled.values())), dict[str, dict[str, Callable[[], object]]]()
    for n in batches:
        images = generator.random((n, 3, size, size), dtype=np.float32)
        cases[f"maps, {n} at once"] = {
            "onnxruntime": partial(bare.run, None, {"images": images}),
            "torch": partial(model.feature_maps, torch.from_numpy(images)),
        }
    prepared = {"images": generator.random((1, 3, size, size), dtype=np.float32)}
    for height, width in ((size, size), (64, 64), (480, 640)):
        pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)

        def library(image: Image.Image) -> object:
            return bank.class_error(extractor.feature_maps(extractor.transform(image)[None]))

        cases[f"answer, {width} x {height}"] = {
            "extractor": partial(bare.run, None, prepared),
            "library": partial(library, Image.fromarray(pixels)),
            "classifier": partial(session.run, None, {"image": pixels}),
        }
    return cases


def enroll_moths(extractor: Extractor, way: int = 5) -> dict[str, EnrolledClass]:
    """Enroll classes of five rendered moths. Raises FrnError if the model has no FRN head."""
    if extractor.head is None:
        raise FrnError(f"this model was trained as {extractor.method}; a classifier needs an FRN head")
    side = extractor.transform.size
    moths = draw_classes(way, 5, size=side, seed=0)
    maps = (extractor.feature_maps(each) for each in moths.images().reshape(way, 5, side, side, 3))
    return {name: enroll(supports, extractor.head) for name, supports in zip(moths.names, maps, strict=True)}


BARE = """import pathlib, sys
import numpy, onnxruntime
from PIL import Image
session, size, length = onnxruntime.InferenceSession(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for path in sorted(pathlib.Path(sys.argv[4]).iterdir()):
    image = Image.open(path).convert("RGB")
    image = image.resize([round(side * length / min(image.size)) for side in image.size], Image.Resampling.BILINEAR)
    left, top = (image.width - size) // 2, (image.height - size) // 2
    pixels = numpy.asarray(image.crop((left, top, left + size, top + size)), dtype=numpy.float32) / 255
    session.run(None, {"images": pixels.transpose(2, 0, 1)[None]})
"""
"""A loop of Pillow and onnxruntime without anything else, as a program of its own."""


def time_command(extractor: Extractor, *, photos: int, way: int, rounds: int, side: int = 320) -> dict[str, float]:
    """Return the milliseconds of the processes "bare loop" and "frn classify --json" over JPEG photos of this side.

    The classes have been enrolled before. The processes alternate; each time is the median of the rounds.
    """
    each = 5 + -(-photos // way)
    moths = draw_classes(way, each, size=64, seed=0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number, pixels in enumerate(moths.images().reshape(-1, 64, 64, 3)):
            label, place = divmod(number, each)
            home = folder / "classes" / moths.names[label] if place < 5 else folder / "photos"
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).resize((side, side)).save(home / f"{number:05}.jpg")
        for path in sorted((folder / "photos").iterdir())[photos:]:
            path.unlink()
        (folder / "features.onnx").write_bytes(extractor.data)
        transform, places = extractor.transform, (folder / "classes", folder / "photos")
        bare = ["-c", BARE, folder / "features.onnx", transform.size, transform.length, folder / "photos"]
        ours = ["-m", "frn", "classify", *places, "--json", "--model", extractor.where]
        words: dict[str, list[object]] = {"bare loop": bare, "frn classify": ours}
        milliseconds: dict[str, list[float]] = {name: [] for name in words}
        for turn in range(rounds + 1):  # the first turn fills the caches
            for name, arguments in words.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
                if turn:
                    milliseconds[name].append(1000 * (time.perf_counter() - start))
    return {name: median(times) for name, times in milliseconds.items()}


def main(
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Images at once.", show_default="1 and 16")] = None,
    way: Annotated[int, typer.Option(min=1, help="Classes of the classifier.")] = 5,
    photos: Annotated[int, typer.Option(help="Photos for whole processes of `frn classify` (0: none).")] = 0,
    rounds: AnyRounds = None,
    as_json: AsJson = False,
) -> None:
    """Compare an exported model with torch, and a whole classifier with its parts: 5 shots, one thread.

    --photos compares the whole process of `frn classify` with a bare loop of Pillow and onnxruntime, on all cores.
    """
    with user_errors():
        loaded = load_model(model)
        features = features_graph(loaded).SerializeToString()
        extractor = Extractor(features, model, trusted=True, device="cpu", threads=1)
        enrolled = enroll_moths(extractor, way)
        classifier = classifier_graph(features, enrolled).SerializeToString()
        compared = contestants(loaded, extractor, classifier, enrolled, batch or (1, 16))
        cases = {what: take_turns(each, rounds=rounds) for what, each in compared.items()}
        if photos:
            cases[f"process, {photos:,} photos"] = time_command(extractor, photos=photos, way=way, rounds=rounds or 5)
    rows = [
        {"what": what, "program": name, "ms": ms, "times as long as the first": ms / next(iter(times.values()))}
        for what, times in cases.items()
        for name, ms in times.items()
    ]
    show(rows, as_json, f"classifier.onnx of {way:,} classes: {len(classifier) / 1e6:,.1f} MB")


if __name__ == "__main__":
    run(main)
