"""The parts of the campaign: kinds of files and the functions that read them."""

from collections.abc import Callable

from tests.campaign import archives, files, images, own_files
from tests.campaign.campaign import Part

PARTS: dict[str, Callable[[], Part]] = {
    "images": images.photos,
    "stored images": images.stored,
    "onnx": files.onnx_models,
    "safetensors": files.safetensors,
    "pth": files.checkpoints,
    "projects": files.projects,
    "labels": files.labels,
    "settings": files.settings,
    "journals": files.journals,
    "packages": files.packages,
    "zip": archives.zips,
    "tar": archives.tars,
    "bundles": archives.bundles,
    "results": files.results,
    "metrics": files.metrics,
    "feature cache": own_files.feature_cache,
    "pixel cache": own_files.pixel_cache,
    "SHA256SUMS": own_files.exported_sets,
    "moves": own_files.move_journals,
    "locks": own_files.project_locks,
    "runs": own_files.checkpoints_of_runs,
    "config.toml": own_files.run_settings,
    "reproduced": own_files.reproduced,
    "notes": own_files.model_notes,
    "metadata": own_files.exported_metadata,
}
"""Makes its valid files only when it runs, because making them takes time."""
