"""Notes on a named model, stored with its weights by `frn models add`, and the accuracy in a model's record."""

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
    """Seconds per image, on the machine that added the model."""
    added: str = ""


class Validation(Struct):
    """Return the accuracy that a shipped model's record states, in percent."""

    accuracy: float
    ci95: float
    shape: str


def read_notes(folder: Path) -> dict[str, Any]:
    """Return the notes of an added model, empty if they are missing or damaged; the model works without them."""
    try:
        notes: dict[str, Any] = to_builtins(convert(read_json(folder / NOTES), Notes))
    except ValueError:
        return {}
    return notes


def accuracy_of(facts: Mapping[str, Any]) -> str:
    """Return the accuracy in a model's record as text, empty if there is none."""
    try:
        found = convert(facts.get("validation"), Validation)
    except ValueError:  # a model of unknown origin may contain any value
        return ""
    return f"{found.accuracy:.2f} ± {found.ci95:.2f} % ({found.shape})"
