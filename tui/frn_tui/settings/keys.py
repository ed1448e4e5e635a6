"""Custom keys from the settings file: `"keys": {"ask": "q", "next-answer": "n,right"}`."""

import string
from collections.abc import Iterable, Mapping
from dataclasses import replace

from textual.binding import Binding, BindingType, InvalidBinding
from textual.keys import Keys, format_key, key_to_character

from frn_tui.terminal.text import display_name

FIXED = {"enter", "space", "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "v"}
FIXED |= {"j", "k", "ctrl+a", "ctrl+c", "ctrl+p", "ctrl+q"}
"""Fixed keys of lists, photos and the app itself."""
MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
KNOWN = frozenset(str(key.value) for key in Keys) | frozenset(
    binding.key for sign in set(string.punctuation) - {","} for binding in Binding.make_bindings([(sign, "", "")])
)


def with_ids(bindings: Iterable[Binding]) -> list[BindingType]:
    """Return the bindings with ids for the settings file: command palette names in lower case with hyphens."""
    return [
        # Priority: asking the focused widget takes time, and the next key may be for a dialogue. h and l move among
        # photos.
        replace(binding, id=binding.description.lower().replace(" ", "-"), priority=binding.key[:2] not in ("h,", "l,"))
        for binding in bindings
    ]


def read_keymap(wanted: Mapping[str, object], bindings: Iterable[Binding]) -> tuple[dict[str, str], list[str]]:
    """Return the usable entries of the settings file (keys by binding id), and a message about each other entry."""
    usual = {str(binding.id): _split(binding.key) for binding in bindings}
    good: dict[str, list[str]] = {}
    bad: list[str] = []
    for name, value in wanted.items():
        keys = _split(value) if isinstance(value, str) else []
        if name not in usual:
            bad.append(f"keys: there is no {display_name(repr(name), 40)}; F2 lists what there is")
        elif not keys or not all(map(_is_key, keys)):
            bad.append(f"keys: {name}: {display_name(repr(value), 40)} is no key, like q, ctrl+t, f5 or left,comma")
        else:
            good[name] = keys
    while clash := _clash(good, usual):
        name, key, other = clash
        bad.append(f"keys: {name}: {key} is the key of {other} already")
        del good[name]
    return {name: ",".join(keys) for name, keys in good.items()}, bad


def shown(keys: str) -> str:
    """Return keys as written in the settings file, separated by two blanks: ? for question_mark."""
    signs = [(key, key_to_character(key) or "") for key in keys.split(",")]
    return "  ".join(sign if sign.isprintable() and sign.strip(" ,") else key for key, sign in signs)


def key_in_use(binding: Binding, own: Mapping[str, str]) -> str:
    """Return the first current key of a binding, as on a keyboard; `own` has the user's keys by id."""
    key = own.get(str(binding.id), binding.key).split(",")[0]
    return key if "+" in key else format_key(key)


def _clash(good: Mapping[str, list[str]], usual: Mapping[str, list[str]]) -> tuple[str, str, str] | None:
    """Return an entry whose key is already in use, the key, and its other use."""
    taken = dict.fromkeys(FIXED, "the app itself")
    taken |= {key: name for name, keys in usual.items() if name not in good for key in keys}
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
