"""Description of a model apart from its weights, and the header of a model file that stores it. Free of torch."""

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
from frn.system.files import read_regular, require_regular

MODEL_FILE_FORMAT = "frn-model"
MODEL_FILE_VERSION = 1
MAX_WEIGHTS = 16 << 30
"""Bytes of a file of weights."""

OPTIMIZER = "optimizer/"
"""Prefix of an optimiser's tensors in the checkpoint of a run; a model is loaded without them."""
STAGE = "stage/"
"""Prefix of tensors that a training stage has beside the model's, likewise."""

CHECKSUM = "crc32"
"""Metadata of a model file: `checksum`."""
_METADATA = "__metadata__"
"""As .safetensors calls it."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""The authors normalise every data set by ImageNet's statistics."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Description of a model, apart from its weights."""

    backbone: str
    method: str
    last_pool: bool = True
    """Whether the backbone's last max-pooling is there; without it r is four times larger."""
    transform: EvaluationTransform = field(default_factory=lambda: EvaluationTransform(size=84, resize=92))
    """How an image is resized and cropped before the network sees it."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        for numbers in (self.mean, self.std):
            if not all(map(math.isfinite, numbers)):
                raise FrnError(f"mean and std are three numbers each, not {numbers}")

    @property
    def untrained_head(self) -> bool:
        """Return whether the head is untrained: `torchvision:NAME` or `timm:NAME`, imported with their own weights."""
        return ":" in self.backbone


def header(config: ModelConfig, record: Mapping[str, object]) -> dict[str, str]:
    """The header of a model file: its format, the library's version, `config`, and `record` (where it comes from)."""
    return {
        "format": MODEL_FILE_FORMAT,
        "version": str(MODEL_FILE_VERSION),
        "frn": __version__,
        "config": json.dumps(asdict(config)),
        "record": json.dumps(record),
    }


def checksum(fields: Mapping[str, Any], tensors: bytes | memoryview) -> str:
    """Checksum over a file's header, but for the checksum that it holds, and the bytes of its tensors."""
    metadata = {name: value for name, value in fields[_METADATA].items() if name != CHECKSUM}
    text = json.dumps({**fields, _METADATA: metadata}, sort_keys=True)
    return f"{zlib.crc32(tensors, zlib.crc32(text.encode())):08x}"


def require_whole(path: Path) -> None:
    """Compare a model file with its checksum; one of version 0.1.0 has none. FrnError if it was damaged."""
    data = memoryview(read_regular(path, MAX_WEIGHTS))
    length = 8 + int.from_bytes(data[:8], "little")
    fields = json.loads(bytes(data[8:length]))
    metadata = fields[_METADATA]
    is_old = metadata.keys() <= {"format", "version", "frn", "config", "record"}  # else the checksum's name is damaged
    if not is_old and metadata.get(CHECKSUM) != checksum(fields, data[length:]):
        raise FrnError(f"{path}: is damaged: its checksum is not that of its content. Restore it, or make it again.")


def read_header(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """What a model file says of itself, without reading its weights: its configuration and its record.

    FrnError if the file is not a model file of a known version.
    """
    require_regular(path, MAX_WEIGHTS)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise FrnError(f"{path}: is not a readable .safetensors file ({shorten(error)})") from error
    if metadata.get("format") != MODEL_FILE_FORMAT:
        found = metadata.get("format")
        raise FrnError(
            f"{path}: is a .safetensors file, but not an frn model (its format is {found!r}, not {MODEL_FILE_FORMAT!r})"
        )
    if (version := metadata.get("version")) != str(MODEL_FILE_VERSION):
        told = shorten(version, 40)
        raise FrnError(f"{path}: has format version {told}; this frn {__version__} reads {MODEL_FILE_VERSION}")
    try:
        config = msgspec.json.decode(metadata.get("config", ""), type=ModelConfig)
        if unknown := json.loads(metadata["config"]).keys() - asdict(config).keys():
            raise FrnError(f"it has a configuration of {shorten(min(unknown), 40)}")
        return config, msgspec.json.decode(metadata.get("record", ""), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise FrnError(f"{path}: its header is damaged ({shorten(error)})") from error
