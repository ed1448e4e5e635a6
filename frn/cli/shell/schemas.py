"""JSON output of each command. `frn help json COMMAND` shows its JSON Schema."""

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from frn.data.check import SplitReport
from frn.evaluation.accuracy import Result
from frn.inference.records import Answer, Count, Enrolled, Explanation, Groups, Maybe, Score, Unreadable
from frn.reproduce.table_report import Report
from frn.training.presets.preset import Preset

Path: TypeAlias = str | UnsetType
Difference: TypeAlias = float | UnsetType


class Model(Struct):
    """A model, with the remaining fields of its file: data, licence, validation, milliseconds."""

    path: str
    backbone: str
    method: str
    size: Count
    bytes: Count


class ModelComparison(Struct, forbid_unknown_fields=True):
    """Leave-one-out results of a model on the user's classes."""

    accuracy: float
    interval: list[float]
    photos: Count
    bytes: Count
    auroc: Maybe
    milliseconds: float


class Comparison(Struct, forbid_unknown_fields=True):
    """Results of several models, and their answers for the photos on which they disagree."""

    models: dict[str, ModelComparison]
    disagreements: dict[str, dict[str, str]]


class Network(Struct, forbid_unknown_fields=True):
    """A network with a short name."""

    backbone: str
    about: str
    licence: str


class Evaluation(Struct, kw_only=True, forbid_unknown_fields=True):
    """Accuracy over episodes."""

    model: str
    method: Path = UNSET
    data: str
    split: str
    seed: Count
    results: list[Result]


class Trained(Struct, forbid_unknown_fields=True):
    """A finished training run."""

    model: str
    validation: float
    seconds: float
    test: list[Result] | UnsetType = UNSET
    start: Difference = UNSET


class Exported(Struct, kw_only=True):
    """Paths, relative differences from torch, and the accuracy in percent before and after int8 quantisation.

    Files in other formats are listed under their own names.
    """

    features: str
    preprocess: str
    head: Path = UNSET
    classifier: Path = UNSET
    weights: Path = UNSET
    card: str
    precision: str
    difference: float
    preprocess_difference: float
    head_difference: Difference = UNSET
    classifier_difference: Difference = UNSET
    batch_difference: Difference = UNSET
    accuracy_fp32: Difference = UNSET
    accuracy: Difference = UNSET
    drop: Difference = UNSET


class Page(Struct, forbid_unknown_fields=True):
    """An exported web page."""

    web: str
    runtime: str
    page_difference: float


class CachedImages(Struct, forbid_unknown_fields=True):
    """Decoded images of a folder; `used` is a Unix time."""

    of: str
    images: Count
    bytes: Count
    used: Count


class Cache(Struct, forbid_unknown_fields=True):
    """Caches, with sizes in bytes."""

    folder: str
    limit: Count
    images: list[CachedImages]
    features: dict[str, Count]


RESULTS: dict[str, tuple[Any, ...]] = {
    "classify": (Answer, Unreadable),
    "enroll": (Enrolled,),
    "explain": (Explanation,),
    "score": (Score,),
    "group": (Groups,),
    "models": (dict[str, Model],),
    "models add": (dict[str, Model],),
    "models compare": (Comparison,),
    "models known": (dict[str, Network],),
    "eval": (Evaluation,),
    "presets": (Preset, dict[str, Preset]),
    "train": (Trained,),
    "finetune": (Trained,),
    "reproduce": (Report, list[Report]),
    "export": (Exported, Page),
    "data check": (list[SplitReport],),
    "cache": (Cache,),
}
"""Result types, by command. If a command has several, its output is one of them.

`classify` prints one object per line. `reproduce --list`, and `presets` without a name, print the second type.
"""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's output."""
    schemas, parts = msgspec.json.schema_components(RESULTS[command])
    one = schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}
    return {**one, "$defs": parts} if parts else one
