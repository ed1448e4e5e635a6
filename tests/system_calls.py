"""Record the order in which code syncs and renames files and folders."""

import os
from pathlib import Path
from typing import Any

import pytest


def record(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list that grows with each ("sync" or "rename", name); a rename gives the new name."""
    calls: list[tuple[str, str]] = []
    sync, names = os.fsync, ("rename", "replace")

    def recorded_sync(descriptor: int) -> None:
        sync(descriptor)
        calls.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))

    def recorded(name: str) -> Any:
        real = getattr(os, name)

        def call(source: Any, target: Any) -> None:
            real(source, target)
            calls.append(("rename", Path(target).name))

        return call

    monkeypatch.setattr(os, "fsync", recorded_sync)
    for name in names:
        monkeypatch.setattr(os, name, recorded(name))
    return calls
