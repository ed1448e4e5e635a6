"""The table of all keys (`keys.json`), and the screens that bind them."""

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import actions
from textual.binding import Binding, BindingType
from textual.keys import format_key, key_to_character
from textual.markup import escape
from textual.screen import Screen, ScreenResultType


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the table."""

    group: str
    keys: str
    label: str  # word for the footer; empty if it is never shown there
    meaning: str
    action: str


def _table() -> dict[str, Key]:
    """Read the table; each row has keys, a word for the footer, what the key does, and an action of another name."""
    groups = json.loads(Path(__file__).with_name("keys.json").read_text(encoding="utf-8"))  # TOML takes 3 ms longer
    return {
        name: Key(group, keys, label, meaning, action[0] if action else name.replace("-", "_"))
        for group, rows in groups.items()
        for name, (keys, label, meaning, *action) in rows.items()
    }


TABLE = _table()
BOUND = {name: key for name, key in TABLE.items() if key.group != "Fixed"}  # keys that the screens bind


class KeyedScreen(Screen[ScreenResultType]):
    """A screen with the keys of the table; the first handler that has an action runs it."""

    BINDINGS: ClassVar[list[BindingType]] = [  # priority: asking the focused widget takes time
        Binding(key.keys, f"do({name!r})", key.label, show=False, id=name, priority=True) for name, key in BOUND.items()
    ]

    def handlers(self) -> Iterable[object]:
        """Return objects with actions, the one in focus first."""
        return [self]

    async def action_do(self, name: str) -> None:
        if name not in BOUND:  # a footer word for a key of a list
            return
        _, action, parameters = actions.parse(BOUND[name].action)
        for handler in self.handlers():
            if (run := getattr(handler, f"action_{action}", None)) is not None:
                if inspect.isawaitable(done := run(*parameters)):
                    await done
                return
        self.elsewhere(name)

    def elsewhere(self, name: str) -> None:
        """Show that a key works on another screen."""

    def show_keys(self) -> None:
        """Show the keys that work now."""

    def needed(self) -> Mapping[str, object]:
        """Return what keys need to work, by name: nothing, or something empty, if they do nothing now."""
        return {}

    def footer(self, names: Sequence[str]) -> str:
        """Return the keys that work now, as markup to click."""
        needed = self.needed()
        return "  ".join(
            f"[@click=screen.do({name!r})][b]{escape(shown_key(name))}[/b] {TABLE[name].label}[/]"
            for name in names
            if needed.get(name, True)
        )


def shown_key(name: str) -> str:
    """Return the first key of a row, as on a keyboard."""
    key = TABLE[name].keys.split(",")[0]
    return key if "+" in key else format_key(key)


def shown(keys: str) -> str:
    """Return keys as characters, separated by two spaces: ? for question_mark."""
    signs = [(key, key_to_character(key) or "") for key in keys.split(",")]
    return "  ".join(sign if sign.isprintable() and sign.strip(" ,") else key for key, sign in signs)
