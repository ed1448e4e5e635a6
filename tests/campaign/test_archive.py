"""`frn classify --out` on a large archive, killed and resumed: constant memory, no photo lost or repeated.

`FRN_CAMPAIGN=0.1` uses a tenth of the 100,000 photos.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import processes
from tests.drawings import MOTHS

PHOTOS = round(100_000 * float(os.environ.get("FRN_CAMPAIGN", "1")))
KILLS = 3
SETTLED, ALLOWED = 1000, 50 << 20  # number of photos after which memory is compared, and the bytes by which it may grow


def draw_archive(folder: Path) -> None:
    """Draw distinct 96 x 72 pixel photos, a thousand per folder."""
    draws = np.random.default_rng(0)
    for number in range(PHOTOS):
        within = folder / f"{number // 1000:03}"
        within.mkdir(parents=True, exist_ok=True)
        photo, data = Image.fromarray(draws.integers(0, 256, (6, 8, 3), np.uint8)).resize((96, 72)), BytesIO()
        photo.save(data, "JPEG")
        (within / f"{number}.jpg").write_bytes(data.getvalue())


def resident(process: int) -> int:
    """Return the memory of a process in bytes, without mapped files."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) << 10


def lines_of(out: Path) -> int:
    return out.read_bytes().count(b"\n") if out.exists() else 0


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_archive_is_classified_in_constant_memory_despite_kills(tmp_path: Path) -> None:
    archive, out = tmp_path / "archive", tmp_path / "results.jsonl"
    draw_archive(archive)
    photos = str(archive / "**" / "*.jpg")
    command = [sys.executable, "-m", "frn", "classify", MOTHS, photos, "--out", out, "--model", "conv4", "--resume"]
    stops = sorted(random.Random(0).sample(range(PHOTOS // 10, PHOTOS), KILLS))
    grown = []
    for stop in [*stops, PHOTOS]:
        begun, settled, most = lines_of(out), 0, 0
        with processes.started(command) as process:
            while (done := lines_of(out)) < stop and process.poll() is None:
                if done - begun >= SETTLED:
                    now = resident(process.pid)
                    settled = settled or now
                    most = max(most, now)
                time.sleep(1)
            if stop == PHOTOS:
                assert process.wait(processes.SECONDS) == 0
        grown.append(most - settled)
    found = Counter(json.loads(line)["image"] for line in out.read_text().splitlines())
    assert len(found) == PHOTOS
    assert set(found.values()) == {1}
    print(f"{PHOTOS} photos, {KILLS} kills; grown by {[round(more / 1e6, 1) for more in grown]} MB")
    assert max(grown) <= ALLOWED
