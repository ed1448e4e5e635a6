"""JSON output of each command. `frn help json COMMAND` shows its JSON Schema."""

from collections.abc import Collection, Mapping
from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from frn.data.check import SplitReport
from frn.evaluation.accuracy import Result
from frn.reproduce.table_report import Report
from frn.training.presets.preset import Preset

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Maybe = float | None
Numbers = dict[str, float]
"""Numbers, keyed by the name of a class or parameter."""


def record(name: str, optional: Mapping[str, Any] | None = None, /, **required: Any) -> Any:
    """Return the type of an object with exactly these keys."""
    return open_record(name, {**required, **(optional or {})}, set(required), forbid_unknown_fields=True)


def open_record(name: str, keys: Mapping[str, Any], required: Collection[str], **config: Any) -> Any:
    """Return the type of an object with these keys and possibly more."""
    fields = [(key, kind) if key in required else (key, kind | UnsetType, UNSET) for key, kind in keys.items()]
    return msgspec.defstruct(name, fields, kw_only=True, **config)


def each(kind: Any) -> Any:
    """Return the type of an array."""
    return GenericAlias(list, (kind,))


def named(kind: Any) -> Any:
    """Return the type of an object whose keys are names of classes, models or presets."""
    return GenericAlias(dict, (str, kind))


EXPECTED = {"expected": record("Expected", false_rejections=float, caught=Maybe, auroc=Maybe), "head": Numbers}
MODEL = {"path": str, "backbone": str, "method": str, "size": Count, "bytes": Count}
MODELS = named(open_record("Model", MODEL, MODEL))
"""Models, each with the remaining fields of its file: data, licence, validation, milliseconds."""
TRAINED = {"model": str, "validation": float, "seconds": float}
EXPORTED = open_record(
    "Exported",
    {
        **dict.fromkeys(("features", "preprocess", "head", "classifier", "weights", "card", "precision"), str),
        **dict.fromkeys(("difference", "preprocess_difference", "head_difference"), float),
        **dict.fromkeys(("classifier_difference", "batch_difference"), float),
        **dict.fromkeys(("accuracy_fp32", "accuracy", "drop"), float),
    },
    ("features", "preprocess", "card", "precision", "difference", "preprocess_difference"),
)
"""Paths, relative differences from torch, and the accuracy in percent before and after int8 quantisation.

Files in other formats are listed under their own names.
"""

RESULTS: dict[str, tuple[Any, ...]] = {
    "classify": (
        record(
            "Answer",
            {"example_of": str, "near_copy_of": str, "transductive": bool, "run": str},
            **{"image": str, "label": str, "probability": Share, "probabilities": dict[str, Share], "errors": Numbers},
            **{"explained": float, "threshold": Share, "unknown": bool},
        ),
        record("Unreadable", {"run": str}, image=str, error=str),
    ),
    "enroll": (
        record(
            "Enrolled",
            project=str,
            threshold=Share,
            skipped=Count,
            classes=named(record("EnrolledClass", images=Count, explained=list[float])),
            **EXPECTED,
        ),
    ),
    "explain": (
        record(
            "Explanation",
            {"example_of": str, "near_copy_of": str},
            image=str,
            label=str,
            unknown=bool,
            threshold=Share,
            out=str,
            classes=named(
                record("ExplainedBy", probability=Share, explained=float, error=float, error_map=list[list[float]])
            ),
        ),
    ),
    "score": (
        record(
            "Score",
            classes=str,
            labelled=str,
            **dict.fromkeys(("photos", "unknown", "examples_skipped"), Count),
            **dict.fromkeys(
                ("accuracy", "calibration_error", "false_rejections", "true_positive_rate", "auroc"), Maybe
            ),
            interval=list[Maybe],
            per_class=named(record("ClassScore", photos=Count, right=Count, recall=Maybe, precision=Maybe)),
            confusion=list[list[Count]],
            reliability=each(record("Bin", photos=Count, said=Maybe, right=Maybe)),
            errors=each(record("Error", image=str, truth=str, label=str, probability=Maybe, unknown=bool)),
            broken=list[str],
            near_copies=each(record("NearCopy", image=str, example=str, label=str)),
            transductive=bool,
            **EXPECTED,
        ),
    ),
    "group": (record("Groups", out=str, groups=dict[str, list[str]], near_copies=dict[str, str], skipped=list[str]),),
    "models": (MODELS,),
    "models add": (MODELS,),
    "models compare": (
        record(
            "Comparison",
            models=named(
                record(
                    "ModelComparison",
                    accuracy=float,
                    interval=list[float],
                    **dict.fromkeys(("photos", "bytes"), Count),
                    auroc=Maybe,
                    milliseconds=float,
                )
            ),
            disagreements=named(dict[str, str]),
        ),
    ),
    "models known": (named(record("Network", backbone=str, about=str, licence=str)),),
    "eval": (record("Evaluation", {"method": str}, model=str, data=str, split=str, seed=Count, results=list[Result]),),
    "presets": (Preset, dict[str, Preset]),
    "train": (record("Trained", {"test": list[Result]}, **TRAINED),),
    "finetune": (record("Finetuned", start=float, **TRAINED),),
    "reproduce": (Report, list[Report]),
    "export": (EXPORTED, record("Page", web=str, runtime=str, page_difference=float)),
    "data check": (list[SplitReport],),
    "cache": (
        record(
            "Cache",
            folder=str,
            limit=Count,
            images=each(record("CachedImages", of=str, images=Count, bytes=Count, used=Count)),
            features=record("CachedFeatures", bytes=Count),
        ),
    ),
}
"""Result types, by command. If a command has several, its output is one of them.

`classify` prints one object per line. `reproduce --list`, and `presets` without a name, print the second type.
"""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's output."""
    found, parts = msgspec.json.schema_components(RESULTS[command])
    whole = found[0] if len(found) == 1 else {"oneOf": list(found)}
    return {**whole, "$defs": parts} if parts else whole
