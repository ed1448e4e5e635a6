"""`frn bench tui` measures every target that it names."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from frn.cli.main import app

ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FRN_CACHE"), "1")
"""What the command sets; the runner puts it back."""


def test_without_a_checkout_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "frn_tui_bench", None)
    result = CliRunner(env=ENVIRONMENT).invoke(app, ["bench", "tui", "--quick"])
    assert result.exit_code == 1
    assert "needs a checkout" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_package_is_without_it() -> None:
    """What is measured with is of no use to who installs the app."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [
        "frn",
        "export/frn_export",
        "tui/frn_tui",
    ]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_every_target_is_measured() -> None:
    result = CliRunner(env=ENVIRONMENT).invoke(app, ["bench", "tui", "--quick", "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["load"] >= 0
    measures = found["measures"]
    assert {measure["target"] for measure in measures} == {"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10"}
    for measure in measures:
        assert set(measure) == {"target", "what", "measured", "limit", "unit", "hello_world", "how", "ok"}
        assert measure["ok"] == (measure["measured"] <= measure["limit"])
        assert measure["unit"] in ("", "ms", "MiB")
    by_name = {measure["what"]: measure for measure in measures}
    assert by_name["first paint"]["hello_world"] > 0
    # These hold on any machine, however busy.
    assert by_name["of torch, numpy, onnxruntime, PIL, typer at first paint"]["measured"] == 0
    assert by_name["processes left behind"]["measured"] == 0
