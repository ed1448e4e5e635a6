"""Few-shot image classification with Feature Map Reconstruction Networks (FRN, CVPR 2021)."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn.few_shot import FewShotClassifier

__all__ = ["FewShotClassifier", "__version__"]
__version__ = "0.1.0"

# onnxruntime 1.29 and newer write a device id and events into the user's cache and look their server up, unless this is
# set before their import. Who wants that sets it to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> object:
    """Import what is large only when it is asked for: `import frn` costs nothing."""
    if name == "FewShotClassifier":
        from frn.few_shot import FewShotClassifier

        return FewShotClassifier
    raise AttributeError(f"module 'frn' has no attribute {name!r}")
