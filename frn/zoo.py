"""The model zoo: one resolver from what people call a model to its files. Free of torch.

A model is called by a shipped name, a model file (also an authors' `.pth`), a run folder, or an exported `.onnx`.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError

DEFAULT_MODEL = "resnet12-small"

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model."""

    weights: Path
    """What torch loads; of an exported model, the `.onnx` file itself."""
    extractor: Path | None = None
    """The exported feature extractor, if there is one."""
    shipped: bool = False


def resolve(model: str | Path) -> ModelFiles:
    """The files of a model.

    Raises:
        FrnError: naming what there is.
    """
    shipped, name, path = shipped_models(), str(model), Path(model)
    if name in shipped:
        return ModelFiles(shipped[name], shipped_extractors().get(name), shipped=True)
    if path.is_file():
        return ModelFiles(path, path if is_exported(path) else None)
    if is_exported(path):
        raise FrnError(f"{path}: there is no such file")
    if (path / "best.safetensors").is_file():
        return ModelFiles(path / "best.safetensors")
    near = difflib.get_close_matches(name, shipped, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Shipped models: {', '.join(shipped) or 'none'}."
    raise FrnError(f"{model}: there is no such model file, run folder or shipped name. {hint}")


def is_exported(path: Path) -> bool:
    """Whether a path is named like an exported model."""
    return path.suffix.lower() == ".onnx"


def assets_folder() -> Path:
    """The folder with `models/` and `samples/`: inside the installed package, or in the checkout."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_models() -> dict[str, Path]:
    """Shipped models by name."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.safetensors"))}


def shipped_extractors() -> dict[str, Path]:
    """Exported feature extractors of the shipped models, by the same names."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.onnx"))}
