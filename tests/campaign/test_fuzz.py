"""Coverage-guided part of the campaign: the stored corpus must pass, and atheris continues from there.

`FRN_FUZZ_SECONDS=600` sets the time for each reader. Small files that reach new lines may be added to corpus/.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.campaign.campaign import ROOT
from tests.campaign.fuzz import CORPUS, DOORS, tried

pytestmark = pytest.mark.campaign

SECONDS = int(os.environ.get("FRN_FUZZ_SECONDS", "60"))


@pytest.mark.parametrize("door", DOORS)
def test_stored_corpus_is_accepted_or_refused(door: str) -> None:
    kept = sorted((CORPUS / door).iterdir())
    answered = [path for path in kept if tried(door, path.read_bytes())]
    assert set(answered) >= {path for path in kept if path.name.startswith("good")}
    assert sum(path.stat().st_size for path in kept) < 100_000


@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris: pip install atheris")
@pytest.mark.parametrize("door", DOORS)
def test_files_that_reach_new_lines_are_accepted_or_refused(door: str, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    command = [sys.executable, "-m", "tests.campaign.fuzz", door, str(SECONDS), str(keep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", env=environment)
    assert ended.returncode == 0, ended.stderr[-3000:]
    print(door, ended.stderr.strip().splitlines()[-1])
