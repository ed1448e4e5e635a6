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
    measures = {row["what"]: row for row in json.loads(output("app", "--quick", "--json"))}
    assert {"first paint", "key, while photos are added, p95", "cancel", "2,000 photos listed"} < measures.keys()
    assert measures["processes left behind"]["measured"] == 0  # also on a busy machine
