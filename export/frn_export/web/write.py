"""`frn export --web`: a folder that any file server can host as a classifier running in the browser."""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn._version import __version__
from frn.errors import FrnError
from frn.features.any_size import any_size
from frn.features.extractor import require_fixed
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import open_session, run_session
from frn.images.ramp import RAMP
from frn.inference.classifier import Classifier
from frn.inference.find.finder import LEARNED, LONGEST, MOST, SCALE, STRIP
from frn.inference.find.windows import SHARED
from frn.inference.unknown.rule import NEVER
from frn.report.explanation_picture import Crops
from frn.report.heat_maps import MAX_COVER, MIN_COVER
from frn.report.page import own_file
from frn.report.parts import SIDE, thumbnail
from frn.ridge.parameters import LAMBDA_FLOOR
from frn.ridge.unequal import slope
from frn.system.file_sets import require_writable_set, write_set
from frn_export.difference import Difference, compare_answers
from frn_export.graphs.classifier import require_text, scores_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.prepare import preprocess_graph, resize_graph
from frn_export.web.runtime import BINARY, SERVED, Runtime

SOURCES = ("index.html", "page.css", "page.js", "photo.js", "model.js", "store.js", "explanation.js")
"""Files of the page that are the same for every model."""
OF_REPORTS = ("parts.css", "parts.js")  # those that the page shares with reports
WORKER = "sw.js"
"""Service worker that caches the other files for offline use.

The worker contains a checksum of these files, so that browsers notice a new export.
"""
PAGE = "page.json"


def write_page(
    classifier: Classifier, out: Path, runtime: Runtime | None, *, thumbnails: bool = False, replace: bool
) -> Difference:
    """Write the page of a classifier to a folder, replacing an earlier page; it may have no classes yet.

    The page contains the feature maps of the examples and the names of their files, and with `thumbnails` small copies
    of them. It opens only with a runtime. With `replace`, files that frn did not write are also overwritten. Returns
    the difference between the page's graphs and the classifier, over some examples. Raises FrnError if the folder
    contains another page, the graphs differ, or a thumbnail cannot be made; then nothing is written.
    """
    if classifier.extractor.head is None:
        raise FrnError(
            f"a web page needs an FRN head, but this model has {classifier.extractor.method}. Use a model trained with "
            "--method frn, or export ONNX files instead."
        )
    if classifier.second is not None:
        require_fixed("auto", "an exported graph is the same for every photo")
    if classifier.extractor.tta == "views":
        raise FrnError("a page cannot classify with --tta views. Use --tta hflip, or --out for ONNX files.")
    require_writable_page(out, replace=replace)
    require_text(classifier.names)
    content = _graphs(classifier)
    difference = _compare(classifier, content).require()
    maps = classifier.example_maps()
    feature_maps = {e.name: np.stack([maps[s.key] for s in e.supports]) for e in classifier.state.classes}
    if feature_maps:
        pooled = np.concatenate([maps.reshape(-1) for maps in feature_maps.values()])
        content["supports.bin"] = pooled.astype("<f4").tobytes()
    if thumbnails:
        content |= _thumbnails(classifier)
    page = _description(classifier, feature_maps) | {"thumbnails": thumbnails}
    page["id"] = _digest({**content, PAGE: json.dumps(page).encode()})
    content[PAGE] = json.dumps(page).encode()
    content |= {name: (files("frn_export.web") / name).read_bytes() for name in SOURCES}
    content |= {name: own_file(name).encode() for name in OF_REPORTS}
    if runtime is not None:
        content |= {f"runtime/{SERVED}": runtime.script, f"runtime/{BINARY}": runtime.binary}
        content["runtime/LICENSE"] = runtime.licence.encode()
    worker = (files("frn_export.web") / WORKER).read_text(encoding="utf-8")
    listed = json.dumps(["./", *sorted(content)])
    content[WORKER] = worker.replace('"DIGEST"', json.dumps(_digest(content))).replace('["FILES"]', listed).encode()
    write_set(out, content, replace=replace)
    return difference


def require_writable_page(out: Path, *, replace: bool) -> None:
    """Raise FrnError if files that frn did not write would be overwritten."""
    require_writable_set(out, (*SOURCES, *OF_REPORTS, WORKER, PAGE), replace=replace)


def _digest(content: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"".join(name.encode() + data for name, data in sorted(content.items()))).hexdigest()[:16]


def _graphs(classifier: Classifier) -> dict[str, bytes]:
    extractor = classifier.extractor
    built = {"preprocess.onnx": preprocess_graph(extractor.transform), "head.onnx": head_graph(classifier.head)}
    if classifier.classes:
        built["scores.onnx"] = scores_graph(extractor, classifier.classes, classifier.head.gamma)
    graphs = {"features.onnx": extractor.data}
    if classifier.state.search != "none":
        built["resize.onnx"] = resize_graph()
        graphs[f"{_searching(classifier)}.onnx"] = any_size(extractor.data, extractor.where)
    return graphs | {name: graph.SerializeToString(deterministic=True) for name, graph in built.items()}


def _searching(classifier: Classifier) -> str:
    """Return the graph that maps larger images: without augmentation, it serves images of the model's size as well."""
    return "features" if classifier.extractor.tta == "none" else "search"


def _compare(classifier: Classifier, graphs: Mapping[str, bytes]) -> Difference:
    """Compare the chain of graphs with the classifier."""
    sessions = {name: open_session(data, name, device="cpu", threads=1) for name, data in graphs.items()}

    def class_error(photo: Image.Image) -> NDArray[np.floating]:
        (images,) = run_session(sessions["preprocess.onnx"], ["images"], {"image": np.asarray(photo)})
        (maps,) = run_session(sessions["features.onnx"], ["feature_map"], {"images": images})
        maps = maps.reshape(1, *classifier.extractor.shape)  # rows and columns, if images may have any size
        (errors,) = run_session(sessions["scores.onnx"], ["class_error"], {"feature_map": maps})
        return errors[0]

    return compare_answers(classifier, "page", class_error)


def _thumbnails(classifier: Classifier) -> dict[str, bytes]:
    """Return small copies of the network's crops of all examples, in the order of the feature maps."""
    crops, shown = Crops(classifier.extractor, SIDE), dict[str, bytes]()
    for number, photo in enumerate(photo for entry in classifier.state.classes for photo in entry.supports):
        file = io.BytesIO()
        thumbnail(crops(photo.path)).save(file, "JPEG", quality=82)
        shown[f"examples/{number}.jpg"] = file.getvalue()
    return shown


def _description(classifier: Classifier, feature_maps: Mapping[str, Maps]) -> dict[str, object]:
    extractor, head = classifier.extractor, classifier.head
    transform = extractor.transform
    counts = [len(maps) for maps in feature_maps.values()]
    allowances = [one.allowance for one in classifier.classes.values()]
    rule = classifier.rule if classifier.classes else NEVER
    search: dict[str, object] | None = None
    if classifier.state.search != "none":
        finder = classifier.finder
        search = {"scale": SCALE, "strip": STRIP, "longest": LONGEST, "side": finder.side, "sizes": finder.sizes}
        least = classifier.least_known if classifier.state.search == "all" else None
        search |= {"least": least, "most": MOST, "shared": SHARED}
        search |= {"weights": (LEARNED * classifier.sought.weights).tolist(), "graph": _searching(classifier)}
    return {
        "frn": __version__,
        "grid": extractor.grid,
        "channels": extractor.shape[1],
        "crop": {"size": transform.size, "length": transform.length, "square": transform.square}
        | {"own": transform.resize is None},
        "search": search,
        "gamma": head.gamma,
        "ridge": {"lambda": math.exp(head.alpha), "floor": LAMBDA_FLOOR, "rho": head.rho()},
        "slope": slope(allowances, counts),
        "usual": allowances[0].usual if allowances else 0.0,
        "rule": asdict(rule),
        "offset": max(rule.offsets) / float(np.log(max(counts) / min(counts))) if rule.offsets else 0.0,
        "classes": [
            {
                "name": entry.name,
                "shots": len(entry.supports),
                "centre": classifier.classes[entry.name].centre.tolist(),
                "photos": [photo.path.name.encode(errors="replace").decode() for photo in entry.supports],
            }
            for entry in classifier.state.classes
        ],
        "ramp": {"colours": RAMP, "cover": [MIN_COVER, MAX_COVER]},
    }
