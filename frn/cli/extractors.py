"""From what people call a model to an extractor in onnxruntime."""

from pathlib import Path
from typing import TYPE_CHECKING

from frn.cli.choices import Device
from frn.errors import FrnError

if TYPE_CHECKING:
    from frn.inference.extractor import Extractor

DEFAULT_MODEL = "conv4"


def find_extractor(model: str, device: Device = "auto") -> "Extractor":
    """Open a shipped name, a `features.onnx`, or (through torch) a model file or run folder.

    Raises:
        FrnError: if there is no such model, or it is refused.
    """
    from frn.inference.extractor import Extractor
    from frn.shipped import find_model, shipped_extractors

    shipped = shipped_extractors()
    if model in shipped:
        return Extractor.open(shipped[model], trusted=True, device=device)
    path = Path(model)
    if path.suffix.lower() == ".onnx":
        if not path.is_file():
            raise FrnError(f"{path}: there is no such file")
        return Extractor.open(path, device=device)
    path = find_model(model)  # before torch: a wrong name is told at once

    from frn_export.graphs import features_graph

    from frn.model import load_model

    graph = features_graph(load_model(path)).SerializeToString(deterministic=True)
    return Extractor(graph, str(path), trusted=True, device=device)
