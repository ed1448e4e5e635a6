"""Forks: what a child process must not share with its parent.

A fork copies open files with their positions, connections, and locks whose threads it does not have. Everything that
holds one of these names here how to let go of it, and opens its own at the next use.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Holder = TypeVar("Holder")

_HOLDERS: "WeakKeyDictionary[Any, Callable[[Any], object]]" = WeakKeyDictionary()


def after_fork(holder: Holder, forget: Callable[[Holder], object]) -> None:
    """Call `forget(holder)` in every fork of this process, as long as the holder exists."""
    _HOLDERS[holder] = forget


def _forget_all() -> None:
    for holder, forget in list(_HOLDERS.items()):
        forget(holder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
