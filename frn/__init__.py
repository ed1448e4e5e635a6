"""Few-shot image classification with Feature Map Reconstruction Networks (FRN, CVPR 2021)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn.few_shot import FewShotClassifier

__all__ = ["FewShotClassifier", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import what is large only when it is asked for: `import frn` costs nothing."""
    if name == "FewShotClassifier":
        from frn.few_shot import FewShotClassifier

        return FewShotClassifier
    raise AttributeError(f"module 'frn' has no attribute {name!r}")
