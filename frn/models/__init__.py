"""Models: their configuration, files and names.

`from frn.models import load_model` imports torch; `frn.models.zoo` and `frn.models.header` do not.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn.models.model import Model, load_model, save_model

__all__ = ["Model", "load_model", "save_model"]


def __getattr__(name: str) -> object:
    """Import torch only when a model is accessed."""
    if name in __all__:
        return getattr(importlib.import_module("frn.models.model"), name)
    raise AttributeError(f"module 'frn.models' has no attribute {name!r}")
