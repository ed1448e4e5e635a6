"""Feature maps in memory, and where they come from."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.engine.models import Models, describe

from frn.errors import FrnError
from frn.features.extractor import Embedded
from tests.tui.engine.conftest import Engine


@pytest.mark.parametrize(("more", "found"), [(0, True), (1, False)])
def test_512_mib_of_maps_stay_in_memory(monkeypatch: pytest.MonkeyPatch, more: int, found: bool) -> None:
    class Nominal:
        """An array that states its size without taking it."""

        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes

        def copy(self) -> "Nominal":
            return self

    embedding = Models()
    embedding.opened = SimpleNamespace(sha256="m", shape=(1, 1))  # type: ignore[assignment]
    monkeypatch.setattr(Models, "store", SimpleNamespace(get=lambda *_: None))
    for key, size in (("a", 256 << 20), ("b", (256 << 20) + more)):
        embedding._keep(key, Nominal(size), key.encode())  # type: ignore[arg-type]
    assert (embedding.find("a") is not None) == found
    assert embedding.find("b") is not None
    assert embedding.looks["a"] == b"a"


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


@pytest.mark.parametrize(("count", "steps"), [(3, [3]), (4, [4]), (5, [4, 5]), (8, [4, 8])])
def test_progress_is_reported_after_every_four_photos_and_at_the_end(
    engine: Engine, members: dict[str, list[Path]], count: int, steps: list[int]
) -> None:
    asked = engine.ask("embed", paths=[str(path) for path in members["moth 40"][:count]])
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(step, count) for step in steps]


def test_file_is_described_by_its_content_or_the_reason_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("12345")
    found = Embedded(key="k", maps=np.ones((1, 1), np.float32), look=b"")
    expected = {"path": str(path), "key": "k", "size": 5, "mtime_ns": path.stat().st_mtime_ns}
    assert describe(str(path), found) == expected
    assert describe("x", FrnError("two\nlines")) == {"path": "x", "reason": "two lines"}
