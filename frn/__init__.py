"""Few-shot image classification with Feature Map Reconstruction Networks (FRN, CVPR 2021)."""

import importlib
import os
from typing import TYPE_CHECKING

from frn._version import __version__

if TYPE_CHECKING:
    from frn.episodes.loader import EpisodeSampler
    from frn.errors import FrnError
    from frn.estimator.few_shot import FewShotClassifier
    from frn.evaluation.arrays import evaluate
    from frn.models.wrapper import FRN

__all__ = ["FRN", "EpisodeSampler", "FewShotClassifier", "FrnError", "__version__", "evaluate"]

_HOMES = {
    "EpisodeSampler": "frn.episodes.loader",
    "FRN": "frn.models.wrapper",
    "FewShotClassifier": "frn.estimator.few_shot",
    "FrnError": "frn.errors",
    "evaluate": "frn.evaluation.arrays",
}
"""Module that defines each public name."""

# From 1.29 on, onnxruntime writes a device id and events to the user's cache and contacts its server, unless this is
# set before the import. Set it to 0 to allow that.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> object:
    """Import public names lazily, so that `import frn` stays fast."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'frn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
