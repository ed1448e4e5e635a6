"""ONNX export. Opset 18, the standard domain alone, one self-contained file, the same bytes each time."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn_export.export import Exported, ExportOptions, export_model

__all__ = ["ExportOptions", "Exported", "export_model"]


def __getattr__(name: str) -> object:
    # When asked for: the terminal app's engine assembles classifiers without torch.
    if name in __all__:
        from frn_export import export

        return getattr(export, name)
    raise AttributeError(f"module 'frn_export' has no attribute {name!r}")
