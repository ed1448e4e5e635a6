"""The programs in docs/guides/clusters with two local workers, one of which is killed: `pytest -m runtimes`.

Each library is installed into a separate environment, which needs a package index and takes a few minutes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tests.commands import frn
from tests.drawings import DRAWINGS, MOTHS
from tests.runtimes.environments import place_of, python_with

pytestmark = pytest.mark.runtimes

ROOT = Path(__file__).parents[2]
QUERIES = sorted((DRAWINGS / "queries").glob("*.jpg"))
COPIES = 12  # seconds per photo, so that a worker is still busy when it is killed
PACKAGES = {"ray": "ray[data]", "dask": "dask[distributed]"}
SECONDS = 300  # seconds that the workers may take to start
WORKER = {"ray": "MapWorker", "dask": "multiprocessing.spawn"}  # text that identifies the command line of a worker


def workers(kind: str, parent: int) -> list[int]:
    """Return descendants of `parent` that are workers and have started to classify."""
    found, family = [], {parent}
    for place in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        try:
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            above = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if above not in family:
                continue
            family.add(int(place.name))
            if WORKER[kind] in words and "onnxruntime" in (place / "maps").read_text():
                found.append(int(place.name))
        except OSError:  # the process has ended
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
@pytest.mark.parametrize("kind", PACKAGES)
def test_killing_a_worker_loses_no_photo(kind: str, tmp_path: Path) -> None:
    python = python_with(place_of(kind, tmp_path), PACKAGES[kind])
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in QUERIES:
        for copy in range(COPIES):
            shutil.copy(path, photos / f"{copy} {path.name}")
    (photos / "broken.jpg").write_bytes(QUERIES[0].read_bytes()[:1000])
    out = tmp_path / ("results" if kind == "ray" else "results.jsonl")
    here = [str(ROOT), str(ROOT / "export"), sysconfig.get_paths()["purelib"]]
    settings = {"PYTHONPATH": os.pathsep.join(here), "HOME": str(tmp_path), "RAY_raylet_start_wait_time_s": "300"}
    program = ROOT / "docs" / "guides" / "clusters" / f"classify_{kind}.py"
    words = [python, *map(str, (program, MOTHS, photos, out)), "2"]
    process = subprocess.Popen(words, env=os.environ | settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until, found = time.monotonic() + SECONDS, []
    while process.poll() is None and not (found := workers(kind, process.pid)) and time.monotonic() < until:
        time.sleep(0.2)
    if not found and process.poll() is None:
        process.terminate()
        process.wait(60)
        pytest.skip(f"{kind} starts no worker in {SECONDS} s here")
    if process.poll() is None:
        os.kill(found[0], signal.SIGKILL)
    _, told = process.communicate(timeout=500)
    assert found, "no worker was killed"
    assert process.returncode == 0, told.decode()[-2000:]
    files = sorted(out.iterdir()) if out.is_dir() else [out]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    everything = sorted(photos.iterdir())
    assert sorted(row["image"] for row in rows) == [str(path) for path in everything]
    lines = tmp_path / "expected.jsonl"
    frn("classify", MOTHS, photos, "--out", lines)
    expected = {line["image"]: line for line in map(json.loads, lines.read_text().splitlines())}
    for row in rows:
        line = expected[row["image"]]
        assert row.get("error", "") == line.get("error", "")
        if "error" not in line:
            assert row["label"] == line["label"]
            assert row["probability"] == pytest.approx(line["probability"], abs=1e-5)
    assert sum("error" in line for line in expected.values()) == 1
