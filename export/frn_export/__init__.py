"""ONNX export: opset 18, standard domain only, one self-contained file, deterministic bytes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn_export.export import Exported, ExportOptions, export_model

__all__ = ["ExportOptions", "Exported", "export_model"]


def __getattr__(name: str) -> object:
    # Imported on demand: the terminal app's engine assembles classifiers without torch.
    if name in __all__:
        from frn_export import export

        return getattr(export, name)
    raise AttributeError(f"module 'frn_export' has no attribute {name!r}")
