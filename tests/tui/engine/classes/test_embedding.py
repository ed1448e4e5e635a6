"""Feature maps in memory, and where they come from."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.engine.models import Models, describe

from frn.errors import FrnError
from frn.features.extractor import Embedded


def test_maps_from_the_store_are_kept_in_memory_as_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    maps = np.ones((2, 3), np.float32)

    def stored(sha256: str, key: str, shape: tuple[int, int]) -> Any:
        reads.append(key)
        assert (sha256, shape) == ("m", (2, 3))
        return (maps, b"look") if key == "a" else None

    embedding = Models()
    embedding.opened = SimpleNamespace(sha256="m", shape=(2, 3))  # type: ignore[assignment]
    monkeypatch.setattr(Models, "store", SimpleNamespace(get=stored))
    assert embedding.find("a") is maps
    assert embedding.find("b") is None
    maps[:] = 7
    found = embedding.find("a")
    assert found is not None
    assert (found == 1).all()
    assert reads == ["a", "b"]
    assert embedding.looks["a"] == b"look"


def test_file_is_described_by_its_content_or_the_reason_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("12345")
    found = Embedded(key="k", maps=np.ones((1, 1), np.float32), look=b"")
    expected = {"path": str(path), "key": "k", "size": 5, "mtime_ns": path.stat().st_mtime_ns}
    assert describe(str(path), found) == expected
    assert describe("x", FrnError("two\nlines")) == {"path": "x", "reason": "two lines"}
