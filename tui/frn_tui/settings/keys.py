"""The table of all keys (`keys.toml`), and the user's own keys from a file in the same format."""

import inspect
import os
import re
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import actions
from textual.binding import Binding, BindingType, InvalidBinding
from textual.keys import Keys, format_key, key_to_character
from textual.markup import escape
from textual.screen import Screen, ScreenResultType

from frn.errors import FrnError, shorten
from frn.system.files import read_regular, write_atomically
from frn_tui.terminal.text import display_name

MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
KNOWN = frozenset(str(key.value) for key in Keys) | frozenset(
    binding.key for sign in set(string.punctuation) - {","} for binding in Binding.make_bindings([(sign, "", "")])
)


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the table."""

    group: str
    keys: str
    label: str
    """Word for the footer; empty if it is never shown there."""
    meaning: str
    action: str


def _table() -> dict[str, Key]:
    groups = tomllib.loads(Path(__file__).with_name("keys.toml").read_text(encoding="utf-8"))
    return {
        name: Key(group, keys, label, meaning, action[0] if action else name.replace("-", "_"))
        for group, rows in groups.items()
        for name, (keys, label, meaning, *action) in rows.items()
    }


TABLE = _table()
BOUND = {name: key for name, key in TABLE.items() if key.group != "Fixed"}
"""Keys that the screens bind and a user may change."""
FIXED = {key for each in TABLE.values() if each.group == "Fixed" for key in each.keys.split(",")}


class KeyedScreen(Screen[ScreenResultType]):
    """A screen with the keys of the table; the first handler that has an action runs it."""

    BINDINGS: ClassVar[list[BindingType]] = [  # priority: asking the focused widget takes time
        Binding(key.keys, f"do({name!r})", key.label, show=False, id=name, priority=True) for name, key in BOUND.items()
    ]
    own_keys: Mapping[str, str] = {}
    """The user's own keys by name."""

    def handlers(self) -> Iterable[object]:
        """Return objects with actions, the one in focus first."""
        return [self]

    async def action_do(self, name: str) -> None:
        if name not in BOUND:  # a footer word for a key of a list
            return
        namespace, action, parameters = actions.parse(BOUND[name].action)
        if namespace:
            await self.run_action(BOUND[name].action)
            return
        for handler in self.handlers():
            if (run := getattr(handler, f"action_{action}", None)) is not None:
                if inspect.isawaitable(done := run(*parameters)):
                    await done
                return
        self.elsewhere(name)

    def elsewhere(self, name: str) -> None:
        """Show that a key works on another screen."""

    def shown_key(self, name: str) -> str:
        """Return the first key of a row, as on a keyboard."""
        key = self.own_keys.get(name, TABLE[name].keys).split(",")[0]
        return key if "+" in key else format_key(key)

    def show_keys(self) -> None:
        """Show the keys that work now."""

    def works(self, name: str) -> bool:
        """Return whether a key of the footer would do something now."""
        return True

    def footer(self, names: Sequence[str]) -> str:
        """Return the keys that work now, as markup to click."""
        return "  ".join(
            f"[@click=screen.do({name!r})][b]{escape(self.shown_key(name))}[/b] {TABLE[name].label}[/]"
            for name in names
            if self.works(name)
        )


def keys_path() -> Path:
    """Return the path of the user's own keys: beside the settings with $FRN_STATE, otherwise in ~/.config/frn."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override) / "keys.toml"
    from platformdirs import user_config_path

    return user_config_path("frn", appauthor=False) / "keys.toml"


def read_own_keys() -> tuple[dict[str, str], list[str]]:
    """Return the user's keys by name, and a message about each entry that cannot be used."""
    if not keys_path().exists():
        return {}, []
    try:
        wanted = tomllib.loads(_text())
    except (FrnError, ValueError, RecursionError) as error:
        return {}, [f"{keys_path()}: is ignored ({shorten(error)})"]
    return usable(wanted)


def usable(wanted: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Return the usable entries, and a message about each other one."""
    good: dict[str, list[str]] = {}
    bad: list[str] = []
    for name, value in wanted.items():
        keys = _split(value) if isinstance(value, str) else []
        if name not in BOUND:
            bad.append(f"keys: unknown name {display_name(repr(name), 40)}; F2 lists all names")
        elif not keys or not all(map(_is_key, keys)):
            bad.append(f"keys: {name}: {display_name(repr(value), 40)} is not a key like q, ctrl+t, f5 or left,comma")
        else:
            good[name] = keys
    while clash := _clash(good):
        name, key, other = clash
        bad.append(f"keys: {name}: {key} is already used for {other}")
        del good[name]
    return {name: ",".join(keys) for name, keys in good.items()}, bad


def change_key(name: str, key: str) -> str:
    """Write a key to the user's file, or restore the default if it is empty; return the reason if that fails."""
    own = {other: keys for other, keys in read_own_keys()[0].items() if other != name}
    if bad := usable({**own, name: key} if key else own)[1]:
        return bad[0]
    line = f'{name} = "{key}"\n' if key else ""
    try:
        kept = re.sub(rf"(?m)^\s*{re.escape(name)}\s*=.*\n?", "", _text() if keys_path().exists() else "")
        keys_path().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(keys_path(), f"{kept.rstrip()}\n{line}".lstrip(), replace=True)
    except (OSError, ValueError, FrnError) as error:
        return shorten(error)
    return ""


def _text() -> str:
    return read_regular(keys_path(), 1 << 20).decode()


def shown(keys: str) -> str:
    """Return keys as written in the file, separated by two spaces: ? for question_mark."""
    signs = [(key, key_to_character(key) or "") for key in keys.split(",")]
    return "  ".join(sign if sign.isprintable() and sign.strip(" ,") else key for key, sign in signs)


def _clash(good: Mapping[str, list[str]]) -> tuple[str, str, str] | None:
    """Return an entry whose key is already in use, the key, and its other use."""
    taken = dict.fromkeys(FIXED, "the app itself")
    taken |= {key: name for name, row in BOUND.items() if name not in good for key in row.keys.split(",")}
    for name, keys in good.items():
        for key in keys:
            if key in taken and taken[key] != name:
                return name, key, taken[key]
            taken[key] = name
    return None


def _split(keys: str) -> list[str]:
    """Return Textual's names of the keys: question_mark for ?."""
    try:
        return [binding.key for binding in Binding.make_bindings([(keys, "", "")])]
    except InvalidBinding:
        return []


def _is_key(key: str) -> bool:
    *modifiers, base = key.split("+")
    known = base in KNOWN or key_to_character(base) is not None
    return known and all(modifier in MODIFIERS for modifier in modifiers)
