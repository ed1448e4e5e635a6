"""Ridge-regression reconstruction of feature maps.

`from frn.ridge import reconstruct` imports torch; `parameters`, `enrolment` and `tuning` do not.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn.ridge.reconstruction import class_error, location_error, reconstruct

__all__ = ["class_error", "location_error", "reconstruct"]


def __getattr__(name: str) -> object:
    """Import torch only when the closed form is accessed."""
    if name in __all__:
        return getattr(importlib.import_module("frn.ridge.reconstruction"), name)
    raise AttributeError(f"module 'frn.ridge' has no attribute {name!r}")
