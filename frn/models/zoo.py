"""Model zoo: resolves the name or path of a model to its files, without torch.

A model is given as a shipped name, a name added by `frn models add`, a model file (including an authors' `.pth`), a run
folder, or an exported `.onnx`.
"""

import contextlib
import difflib
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, is_file, remove, remove_unfinished
from frn.system.processes.locks import lock

DEFAULT_MODEL = "frn-photo"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # pattern of an added model's name
WEIGHTS, EXTRACTOR, HEAD_FILE, NOTES = "model.safetensors", "features.onnx", "head.onnx", "notes.json"
"""Files of an added model."""

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model."""

    weights: Path  # file that torch loads; for an exported model, the `.onnx` file itself
    extractor: Path | None = None  # exported feature extractor, if any
    shipped: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A pretrained network that `frn models add` knows by name."""

    backbone: str  # `torchvision:NAME` or `timm:NAME`
    about: str
    licence: str = "not in this list; ask its authors"
    size: int | None = None  # side of the images in pixels; None uses that of the weights' own recipe
    package: str | None = None  # installed package with the weights; None looks in the library's cache and on its hub
    sha256: str | None = None  # hash of the weight file; any other file is rejected
    similarity: float | None = None
    """Cosine similarity of the features of two sample photos: it shows that the library still computes the same."""


@cache
def catalogue() -> dict[str, Network]:
    """Return the pretrained networks by name."""
    import tomllib

    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return {name: Network(**entry) for name, entry in tomllib.loads(text).items()}


def resolve(model: str | Path) -> ModelFiles:
    """Return the files of a model.

    Raises FrnError if the model does not exist; the message lists the available ones.
    """
    named, name, path = named_models(), str(model), Path(model)
    if name in named:
        return named[name]
    if path.is_file():
        return ModelFiles(path, path if is_exported(path) else None)
    if is_exported(path):
        raise FrnError(f"{path}: no such file")
    if (path / "best.safetensors").is_file():
        return ModelFiles(path / "best.safetensors")
    if (last := path / "last.safetensors").is_file():
        raise FrnError(
            f"{path}: this run has not been validated yet, so it has no best.safetensors. {last} has the current "
            "weights."
        )
    if name in catalogue():
        raise FrnError(f"{name}: has not been added yet. `frn models add {name}` installs it.")
    near = difflib.get_close_matches(name, named, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Models by name: {', '.join(named) or 'none'}."
    raise FrnError(f"{model}: no model file, run folder or model has this name. {hint}")


def require_exported(model: str) -> Path:
    """Return the exported extractor of a model, for use without torch.

    Raises FrnError if the model does not exist or has not been exported.
    """
    files = resolve(model)
    if files.extractor is None:
        raise FrnError(
            f"{model}: has not been exported yet, and the app only runs exported models. Export it with "
            f"`frn export --model {model} --out DIR`."
        )
    return files.extractor


def is_exported(path: Path) -> bool:
    """Return whether a path is that of an ONNX file."""
    return path.suffix.lower() == ".onnx"


def is_bare(path: Path) -> bool:
    """Return whether a path has a suffix of bare weights, which the authors publish."""
    return path.suffix in (".pth", ".pt")


def named_models() -> dict[str, ModelFiles]:
    """Return the files of every named model: shipped ones first, then added ones."""
    extractors = shipped_extractors()
    shipped = {name: ModelFiles(path, extractors.get(name), shipped=True) for name, path in shipped_models().items()}
    return shipped | {name: files for name, files in added_models().items() if name not in shipped}


def named_extractors() -> dict[str, Path]:
    """Return the exported extractors by the names of their models."""
    return {name: files.extractor for name, files in named_models().items() if files.extractor is not None}


def models_folder() -> Path:
    """Return the folder of added models: $FRN_MODELS, or one in the user's data folder."""
    if override := os.environ.get("FRN_MODELS"):
        return Path(override)
    from platformdirs import user_data_path

    return user_data_path("frn", appauthor=False) / "models"


def added_models() -> dict[str, ModelFiles]:
    """Return the models added by `frn models add`, by name; each has a folder that is created atomically."""
    try:
        folders = sorted(path for path in models_folder().glob("*") if NAME.fullmatch(path.name))
        models = {folder.name: ModelFiles(folder / WEIGHTS, folder / EXTRACTOR) for folder in folders}
        return {name: files for name, files in models.items() if is_file(files.weights)}
    except PermissionError:  # for example, a service that may not read its home folder
        return {}


def place_for(name: str, backbone: str) -> Path:
    """Return the folder for a new model of the backbone `SOURCE:NAME`.

    Raises FrnError if the name is not valid, already exists, or is a short name for another backbone.
    """
    if not NAME.fullmatch(name):
        raise FrnError(f"{name!r}: names may contain only letters, digits, '.', '_' and '-'. Give another with --name.")
    known = catalogue().get(name)
    if known is not None and known.backbone != backbone:
        raise FrnError(f"{name}: is a short name for {known.backbone}. Give {backbone} another name with --name.")
    if name in named_models():
        raise FrnError(
            f"{name}: a model with that name already exists. Give another name with --name, or remove it first."
        )
    return models_folder() / name


def remove_unfinished_models() -> None:
    """Remove incomplete folders of programs that were killed while adding or removing a model."""
    with contextlib.suppress(OSError):
        for path in models_folder().iterdir():
            if match := re.fullmatch(rf"\.({NAME.pattern})\.({PART}|{LOCK})", path.name):
                remove_unfinished(path.with_name(match[1]))


def remove_model(name: str) -> None:
    """Delete an added model. Raises FrnError if the model does not exist or cannot be deleted."""
    if name not in added_models():
        raise FrnError(f"{name}: is not an added model. Added: {', '.join(added_models()) or 'none'}.")
    folder = models_folder() / name
    if folder.is_symlink():
        raise FrnError(
            f"{folder}: is a link to {folder.readlink()}. Remove the link yourself; the model itself is kept."
        )
    try:
        if others := {entry.name for entry in folder.iterdir()} - {WEIGHTS, EXTRACTOR, HEAD_FILE, NOTES}:
            raise FrnError(f"{folder}: also holds {min(others)}, which `frn models` did not write. Move it away first.")
        with lock(beside(folder, LOCK), folder):
            part = beside(folder, PART)
            remove(part)
            os.rename(folder, part)  # noqa: PTH104 - the name is free immediately, whatever happens to the files
            remove(part)
    except OSError as error:
        raise FrnError(f"{folder}: cannot be removed ({error.strerror or error})") from error


def assets_folder() -> Path:
    """Return the folder with `models/` and `samples/`, in the installed package or in the checkout."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_models() -> dict[str, Path]:
    """Return the weights of the shipped models by name."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.safetensors"))}


def shipped_extractors() -> dict[str, Path]:
    """Return the exported extractors of the shipped models by name."""
    return {path.stem: path for path in sorted((assets_folder() / "models").glob("*.onnx"))}
