"""Configuration of a model and the model file header that stores it, without torch."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import safetensors

from frn._version import __version__
from frn.errors import FrnError, shorten
from frn.images.transforms import EvaluationTransform
from frn.models.zoo import NOTES
from frn.system.files import read_json, read_regular, require_regular

MODEL_FILE_FORMAT = "frn-model"
MODEL_FILE_VERSION = 1
MAX_WEIGHTS = 16 << 30  # largest weight file in bytes

OPTIMIZER = "optimizer/"  # prefix of the optimiser's tensors in a run's checkpoint; models are loaded without them
STAGE = "stage/"  # prefix of tensors that belong only to a training stage; models are loaded without them

CHECKSUM = "crc32"  # metadata key of `checksum` in a model file
_METADATA = "__metadata__"  # key of the metadata in a .safetensors header

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)  # ImageNet's statistics; the authors normalise every data set with them


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Description of a model, apart from its weights."""

    backbone: str
    method: str
    last_pool: bool = True  # whether the backbone has its last max-pooling; without it, r is four times as large
    transform: EvaluationTransform = field(default_factory=lambda: EvaluationTransform(size=84, resize=92))
    """Resizing and cropping of an image before the network."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        for numbers in (self.mean, self.std):
            if not all(map(math.isfinite, numbers)):
                raise FrnError(f"mean and std must be three numbers each, not {numbers}")

    @property
    def untrained_head(self) -> bool:
        """Return whether the head is untrained, on a pretrained backbone `torchvision:NAME` or `timm:NAME`."""
        return ":" in self.backbone


def header(config: ModelConfig, record: Mapping[str, object]) -> dict[str, str]:
    """Return the header of a model file: format, library version, `config` and `record` (origin of the model)."""
    return {
        "format": MODEL_FILE_FORMAT,
        "version": str(MODEL_FILE_VERSION),
        "frn": __version__,
        "config": json.dumps(asdict(config)),
        "record": json.dumps(record),
    }


def checksum(fields: Mapping[str, Any], tensors: bytes | memoryview) -> str:
    """Return the checksum of a file's header, without the checksum stored in it, and the bytes of its tensors."""
    metadata = {name: value for name, value in fields[_METADATA].items() if name != CHECKSUM}
    text = json.dumps({**fields, _METADATA: metadata}, sort_keys=True)
    return f"{zlib.crc32(tensors, zlib.crc32(text.encode())):08x}"


def require_whole(path: Path) -> None:
    """Verify the checksum of a model file. Raises FrnError if the file is damaged.

    Files of version 0.1.0 have no checksum.
    """
    data = memoryview(read_regular(path, MAX_WEIGHTS))
    length = 8 + int.from_bytes(data[:8], "little")
    fields = json.loads(bytes(data[8:length]))
    metadata = fields[_METADATA]
    # otherwise the checksum's key is damaged
    is_old = metadata.keys() <= {"format", "version", "frn", "config", "record"}
    if not is_old and metadata.get(CHECKSUM) != checksum(fields, data[length:]):
        raise FrnError(f"{path}: is damaged: its checksum does not match its content. Restore it, or create it again.")


def read_header(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """Return the configuration and record of a model file without reading its weights.

    Raises FrnError if the file is not a model file of a known version.
    """
    require_regular(path, MAX_WEIGHTS)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise FrnError(f"{path}: is not a readable .safetensors file ({shorten(error)})") from error
    if metadata.get("format") != MODEL_FILE_FORMAT:
        form = metadata.get("format")
        raise FrnError(
            f"{path}: is a .safetensors file, but not an frn model (its format is {form!r}, not {MODEL_FILE_FORMAT!r})"
        )
    if (version := metadata.get("version")) != str(MODEL_FILE_VERSION):
        shown = shorten(version, 40)
        raise FrnError(f"{path}: has format version {shown}; this frn {__version__} reads {MODEL_FILE_VERSION}")
    try:
        config = msgspec.json.decode(metadata.get("config", ""), type=ModelConfig)
        if unknown := json.loads(metadata["config"]).keys() - asdict(config).keys():
            raise FrnError(f"unknown field {shorten(min(unknown), 40)}")
        return config, msgspec.json.decode(metadata.get("record", ""), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise FrnError(f"{path}: its header is damaged ({shorten(error)})") from error


NOTE_KINDS = {"about": str, "licence": str, "weights": str, "milliseconds": float, "added": str}
"""Types of the entries in the notes; the milliseconds are per image, on the machine that added the model."""


def read_notes(folder: Path) -> dict[str, Any]:
    """Return the notes of an added model, empty if they are missing or damaged; the model works without them."""
    try:
        notes = dict(read_json(folder / NOTES))
    except (ValueError, TypeError):
        return {}
    return {name: notes[name] for name, kind in NOTE_KINDS.items() if isinstance(notes.get(name), kind)}


def accuracy_of(facts: Mapping[str, Any]) -> str:
    """Return the accuracy in a model's record as text, empty if there is none."""
    match facts.get("validation"):
        case {"accuracy": int() | float() as accuracy, "ci95": int() | float() as ci95, "shape": str() as shape}:
            return f"{accuracy:.2f} ± {ci95:.2f}% ({shape})"
    return ""
