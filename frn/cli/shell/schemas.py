"""JSON output of each command. `frn help json COMMAND` shows its JSON Schema."""

from types import GenericAlias
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from frn.data.check import SplitReport
from frn.evaluation.accuracy import Result
from frn.inference.records import Answer, Count, Enrolled, Explanation, Groups, Maybe, Score, Unreadable
from frn.reproduce.table_report import Report
from frn.training.presets.preset import Preset

MODEL = {"path": str, "backbone": str, "method": str, "size": Count, "bytes": Count}
EXPORTED: dict[str, Any] = dict.fromkeys(("features", "preprocess", "card", "precision"), str)
EXPORTED |= dict.fromkeys(("difference", "preprocess_difference"), float)
ALSO_EXPORTED: dict[str, Any] = dict.fromkeys(("head", "classifier", "weights"), str)
ALSO_EXPORTED |= dict.fromkeys(("head_difference", "classifier_difference", "batch_difference"), float)
ALSO_EXPORTED |= dict.fromkeys(("accuracy_fp32", "accuracy", "drop"), float)
"""Paths, relative differences from torch, and the accuracy in percent before and after int8 quantisation."""
TRAINED = {"model": str, "validation": float, "seconds": float}
COMPARED = {"accuracy": float, "interval": list[float], "photos": Count, "bytes": Count, "auroc": Maybe}


def record(name: str, keys: dict[str, Any], optional: dict[str, Any] | None = None, *, more: bool = False) -> Any:
    """Return the type of an object with these keys, and with `more`, unknown ones."""
    unset = [(key, kind | UnsetType, UNSET) for key, kind in (optional or {}).items()]
    return msgspec.defstruct(name, [*keys.items(), *unset], kw_only=True, forbid_unknown_fields=not more)


def named(kind: Any) -> Any:
    """Return the type of an object whose keys are names of models."""
    return GenericAlias(dict, (str, kind))


EVALUATED = {"model": str, "data": str, "split": str, "seed": Count, "results": list[Result]}
MODELS = named(record("Model", MODEL, more=True))
COMPARISONS = named(record("ModelComparison", {**COMPARED, "milliseconds": float}, {"gain": float}))
FINETUNED = {"written": bool, "why": str | None, "start": float, "gain": float, "expected_gain": float}

RESULTS: dict[str, tuple[Any, ...]] = {
    "classify": (Answer, Unreadable),
    "enroll": (Enrolled,),
    "explain": (Explanation,),
    "score": (Score,),
    "group": (Groups,),
    "models": (MODELS,),
    "models add": (MODELS,),
    "models compare": (record("Comparison", {"models": COMPARISONS, "disagreements": dict[str, dict[str, str]]}),),
    "eval": (record("Evaluation", EVALUATED, {"method": str}),),
    "presets": (Preset, dict[str, Preset]),
    "train": (record("Trained", TRAINED, {"test": list[Result]}),),
    "finetune": (record("Finetuned", {**TRAINED, **FINETUNED}),),
    "reproduce": (Report, list[Report]),
    "export": (
        record("Exported", EXPORTED, ALSO_EXPORTED, more=True),
        record("Page", {"web": str, "runtime": str, "page_difference": float}),
    ),
    "data check": (list[SplitReport],),
}
"""Result types, by command. If a command has several, its output is one of them.

`classify` prints one object per line. `reproduce` without a table, and `presets` without a name, print the second type.
"""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with `--json`."""
    schemas, parts = msgspec.json.schema_components(RESULTS[command])
    one = schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}
    return {**one, "$defs": parts} if parts else one
