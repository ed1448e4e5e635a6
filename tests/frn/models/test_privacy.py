"""Privacy: the libraries' telemetry is off, and the cache holds the only files in the user's home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.drawings import DRAWINGS


def run(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    settings = {**clean, "HOME": str(home), "FRN_CACHE": str(home / "ours"), **environment}
    return processes.run([sys.executable, *words], env=settings)


def test_classification_writes_only_the_cache(tmp_path: Path) -> None:
    samples = DRAWINGS
    query = samples / "queries" / "eyed footman 6.jpg"
    answer = run(tmp_path, "-m", "frn", "classify", str(samples / "moths"), str(query), "--json")
    assert answer.returncode == 0, answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


@pytest.mark.parametrize(("given", "kept"), [({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")])
def test_telemetry_is_off_before_onnxruntime_is_imported(tmp_path: Path, given: dict[str, str], kept: str) -> None:
    code = "import frn.features.onnx_runtime, os, sys; "
    code += "print(os.getenv('ORT_DISABLE_TELEMETRY'), 'onnxruntime' in sys.modules)"
    assert run(tmp_path, "-c", code, **given).stdout.split() == [kept, "False"]
