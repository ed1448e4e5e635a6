"""`app.py` measures every target in its table."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from tests.benchmarks.scripts import output


def test_measuring_tools_are_not_in_the_package() -> None:
    """The light install does not need the measuring tools."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [
        "frn",
        "export/frn_export",
        "tui/frn_tui",
    ]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_every_target_is_measured() -> None:
    found = json.loads(output("app", "--quick", "--json"))
    assert found["load"] >= 0
    measures = found["measures"]
    assert {measure["target"] for measure in measures} == {"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10"}
    for measure in measures:
        assert set(measure) == {"target", "what", "measured", "limit", "unit", "hello_world", "how", "ok"}
        assert measure["ok"] == (measure["measured"] <= measure["limit"])
        assert measure["unit"] in ("", "ms", "MiB")
    by_name = {measure["what"]: measure for measure in measures}
    assert by_name["first paint"]["hello_world"] > 0
    # These conditions hold on any machine, even a busy one.
    assert by_name["of torch, numpy, onnxruntime, PIL, typer at first paint"]["measured"] == 0
    assert by_name["processes left behind"]["measured"] == 0
