"""What is said of a named model beside its weights: notes of `frn models add`, and the accuracy in a model's record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from frn.models.zoo import NOTES
from frn.system.files import read_json


class Notes(Struct, omit_defaults=True):
    """The content of `notes.json`."""

    about: str = ""
    licence: str = ""
    weights: str = ""
    milliseconds: float | None = None
    """Time of one image, on the machine that added the model."""
    added: str = ""


class Validation(Struct):
    """The accuracy in a shipped model's record, in percent."""

    accuracy: float
    ci95: float
    shape: str


def read_notes(folder: Path) -> dict[str, Any]:
    """The notes of an added model; none if they are missing or damaged, as it works without."""
    try:
        notes: dict[str, Any] = to_builtins(convert(read_json(folder / NOTES), Notes))
    except ValueError:
        return {}
    return notes


def accuracy_of(facts: Mapping[str, Any]) -> str:
    """The accuracy that a model's record says, in words; empty if it says none."""
    try:
        found = convert(facts.get("validation"), Validation)
    except ValueError:  # a model of someone else may say anything
        return ""
    return f"{found.accuracy:.2f} ± {found.ci95:.2f} % ({found.shape})"
