"""The campaign (`pytest -m campaign`): damaged files never cause a crash, a hang or memory exhaustion.

`FRN_CAMPAIGN=0.01` runs that share of the cases; `FRN_SEED` selects different ones. Each part adds one line of JSON to
`campaign.jsonl` (or `FRN_CAMPAIGN_REPORT`). Files that fail are kept in a folder that the failure message names.
"""

import os
import tempfile
from pathlib import Path

import pytest

from tests.campaign.campaign import run
from tests.campaign.worker import PARTS

pytestmark = pytest.mark.campaign

SHARE, SEED = float(os.environ.get("FRN_CAMPAIGN", "1")), int(os.environ.get("FRN_SEED", "0"))


@pytest.mark.skipif(os.name == "nt", reason="workers are watched as POSIX has it")
@pytest.mark.parametrize("part", PARTS)
def test_damaged_files_are_accepted_or_refused(part: str) -> None:
    keep = Path(tempfile.gettempdir()) / "frn-campaign"
    made = PARTS[part]()
    outcome = run(part, max(1, round(made.count * SHARE)), SEED, keep)
    assert outcome.is_clean, f"{outcome}: see {keep}"
    assert outcome.answered
    assert outcome.refused or not made.refuses
