"""The session's state as JSON, as it crosses to the engine and stands in the journal, and back. Opens no file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from frn.errors import FrnError
from frn.inference.session import ClassEntry, State, Support


class SupportJson(TypedDict):
    """An example photo (`session.Support`)."""

    path: str
    key: str
    size: int
    mtime_ns: int


class ClassJson(TypedDict):
    """A class (`session.ClassEntry`)."""

    id: int
    name: str
    supports: list[SupportJson]


class StateJson(TypedDict):
    """All classes (`session.State`)."""

    classes: list[ClassJson]
    threshold: float | None
    next_id: int


def state_to_json(state: State) -> StateJson:
    """A state as JSON."""
    return {
        "classes": [
            {"id": entry.id, "name": entry.name, "supports": [*map(support_to_json, entry.supports)]}
            for entry in state.classes
        ],
        "threshold": state.threshold,
        "next_id": state.next_id,
    }


def state_from_json(data: object) -> State:
    """The state that `state_to_json` made; raises FrnError if the data is not a state."""
    try:
        entries = cast(Mapping[str, Any], data)
        threshold = entries["threshold"]
        classes = tuple(
            ClassEntry(int(entry["id"]), str(entry["name"]), tuple(map(support_from_json, entry["supports"])))
            for entry in entries["classes"]
        )
        return State(classes, None if threshold is None else float(threshold), int(entries["next_id"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise FrnError(f"these are no classes: {reason}") from error


def support_from_json(data: Mapping[str, Any]) -> Support:
    """An example photo, as a class or the engine's events describe it."""
    return Support(Path(data["path"]), str(data["key"]), int(data["size"]), int(data["mtime_ns"]))


def support_to_json(support: Support) -> SupportJson:
    """An example photo as JSON."""
    return {"path": str(support.path), "key": support.key, "size": support.size, "mtime_ns": support.mtime_ns}
