"""Where the shipped models and samples are: inside the installed package, or in the checkout. Free of torch."""

import difflib
from pathlib import Path

from frn.errors import FrnError

DEFAULT_MODEL = "resnet12-small"

_PACKAGE = Path(__file__).parent


def assets_folder() -> Path:
    """The folder with `models/` and `samples/`."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_models() -> dict[str, Path]:
    """Shipped models by name."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.safetensors"))}


def shipped_extractors() -> dict[str, Path]:
    """Exported feature extractors of the shipped models, by the same names."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.onnx"))}


def find_model(model: str | Path) -> Path:
    """The file of a model, given as a path or a shipped name.

    Raises:
        FrnError: naming what there is.
    """
    shipped = shipped_models()
    if str(model) in shipped:
        return shipped[str(model)]
    path = Path(model)
    if path.is_file():
        return path
    if path.is_dir() and (path / "best.safetensors").is_file():
        return path / "best.safetensors"
    near = difflib.get_close_matches(str(model), shipped, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Shipped models: {', '.join(shipped) or 'none'}."
    raise FrnError(f"{model}: there is no such model file, run folder or shipped name. {hint}")
