"""Which files the campaign damages, and which doors they go through."""

from collections.abc import Callable

from tests.campaign import archives, files, images
from tests.campaign.campaign import Part

PARTS: dict[str, Callable[[], Part]] = {
    "images": images.photos,
    "stored images": images.stored,
    "onnx": files.onnx_models,
    "safetensors": files.safetensors,
    "pth": files.checkpoints,
    "projects": files.projects,
    "settings": files.settings,
    "journals": files.journals,
    "pickles": files.pickles,
    "npz": files.arrays,
    "zip": archives.zips,
    "tar": archives.tars,
    "bundles": archives.bundles,
    "results": files.results,
    "metrics": files.metrics,
}
"""Made only when it is run: good files are drawn, written and exported first."""
