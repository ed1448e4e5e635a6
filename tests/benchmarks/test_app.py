"""`app.py` measures every target in its table."""

import json
import sys

import pytest

from tests.benchmarks.scripts import output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_every_target_is_measured() -> None:
    measures = {row["what"]: row for row in json.loads(output("app", "--quick", "--json"))}
    assert {"first paint", "key, while photos are added, p95", "cancel", "2,000 photos listed"} < measures.keys()
    assert measures["processes left behind"]["measured"] == 0  # also on a busy machine
