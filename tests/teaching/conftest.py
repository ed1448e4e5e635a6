"""Add the scripts' folder to the import path, as Python does when it runs a script, and make lessons small."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "assets" / "teaching"))


@pytest.fixture(autouse=True)
def small_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    from lessons import blocks, whole

    monkeypatch.setattr(blocks, "BATCH", 8)
    monkeypatch.setattr(blocks, "SAMPLE", 16)
    monkeypatch.setattr(whole, "EPISODES", ((1, 1), (2, 1)))
    monkeypatch.setattr(whole, "BATCH", 16)
