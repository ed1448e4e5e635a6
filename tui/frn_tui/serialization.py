"""The session's state as the document that crosses to the engine, and back. Pure: a document has no path opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from frn.errors import FrnError
from frn.inference.session import ClassEntry, State, Support
from frn_tui.protocol import ClassJson, StateJson, SupportJson


def state_to_json(state: State) -> StateJson:
    """A state as a document."""
    return {
        "classes": [_class_to_json(entry) for entry in state.classes],
        "threshold": state.threshold,
        "next_id": state.next_id,
    }


def state_from_json(document: object) -> State:
    """The state that `state_to_json` wrote.

    Raises:
        FrnError: if the document is no state.
    """
    try:
        entries = cast(Mapping[str, Any], document)
        threshold = entries["threshold"]
        return State(
            tuple(_class_from_json(entry) for entry in entries["classes"]),
            None if threshold is None else float(threshold),
            int(entries["next_id"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise FrnError(f"these are no classes: {reason}") from error


def support_from_json(document: Mapping[str, Any]) -> Support:
    """An example photo, as a class or the engine's events describe it."""
    return Support(Path(document["path"]), str(document["key"]), int(document["size"]), int(document["mtime_ns"]))


def _class_to_json(entry: ClassEntry) -> ClassJson:
    return {"id": entry.id, "name": entry.name, "supports": [_support_to_json(support) for support in entry.supports]}


def _support_to_json(support: Support) -> SupportJson:
    return {"path": str(support.path), "key": support.key, "size": support.size, "mtime_ns": support.mtime_ns}


def _class_from_json(document: Mapping[str, Any]) -> ClassEntry:
    supports = tuple(support_from_json(entry) for entry in document["supports"])
    return ClassEntry(int(document["id"]), str(document["name"]), supports)
