"""Defaults of an export, and the arithmetic of its checks."""

from pathlib import Path
from typing import Any

import pytest
from frn_export import export
from frn_export.export import ExportOptions

from frn.errors import FrnError


@pytest.mark.parametrize(
    ("name", "options", "classes"),
    [
        ("features.onnx", ExportOptions(), None),
        ("README.md", ExportOptions(), None),
        ("classifier-batch.onnx", ExportOptions(), {"jay": [Path("x")]}),
        ("model.safetensors", ExportOptions(weights=True), None),
    ],
)
def test_file_that_would_be_overwritten_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, options: ExportOptions, classes: Any
) -> None:
    (tmp_path / name).write_text("mine")
    monkeypatch.setattr(export, "features_graph", pytest.fail)
    with pytest.raises(FrnError, match=f"{name}: already exists"):
        export.export_model(None, tmp_path, options, classes)  # type: ignore[arg-type]
