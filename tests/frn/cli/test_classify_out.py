"""`frn classify --out` writes exactly one line per photo, even after interruptions."""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.models.zoo import assets_folder
from tests import processes
from tests.frn.conftest import is_described

SAMPLES = assets_folder() / "samples"


def classify(*words: object) -> Result:
    return CliRunner().invoke(app, ["classify", *map(str, words), "--model", "conv4"], catch_exceptions=False)


def test_a_stopped_run_continues_after_its_last_line(tmp_path: Path) -> None:
    classes, out = SAMPLES / "moths", tmp_path / "results.jsonl"
    photos = sorted((SAMPLES / "queries").iterdir())
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    asked = (classes, *photos, broken, photos[0])
    result = classify(*asked, "--out", out, "--top", 2)
    assert result.exit_code == 1
    assert f"1 images could not be read; their lines in {out} give the reasons" in result.stderr
    whole = out.read_bytes()
    found = [json.loads(line) for line in whole.splitlines()]
    assert [line["image"] for line in found] == [*map(str, photos), str(broken)]
    assert all(len(line.get("errors", "ab")) == 2 for line in found)
    assert "error" in found[-1]
    assert all(is_described(line, "classify") for line in found)
    out.write_bytes(whole[: len(whole) // 2])  # truncated, as if the program had been killed
    assert "--resume" in classify(*asked, "--out", out).stderr
    assert classify(*asked, "--out", out, "--top", 2, "--resume").exit_code == 1
    assert out.read_bytes() == whole
    # nothing is left to do, but one photo is still broken
    again = classify(*asked, "--out", out, "--top", 2, "--resume")
    assert again.exit_code == 1
    assert "1 images could not be read" in again.stderr
    assert classify(classes, photos[0], "--out", out, "--resume").exit_code == 0
    other = classify(*asked, "--out", out, "--resume", "--threshold", 0.5)
    assert "line 1 was written with different classes, another model or another threshold" in other.stderr


def test_conflicting_options_are_refused(tmp_path: Path) -> None:
    words = (SAMPLES / "moths", SAMPLES / "queries")
    assert "--out only writes JSON lines" in classify(*words, "--out", tmp_path / "x", "--json").stderr
    for name, instead in (("x.csv", "--csv > x.csv"), ("x.html", "--report FILE.html")):
        assert f"Name the file x.jsonl, or use {instead}" in classify(*words, "--out", name).stderr
    assert "--transductive needs all photos at once" in classify(*words, "--transductive", "--out", "x").stderr
    assert "--resume continues an --out file" in classify(*words, "--resume").stderr


def test_transductive_answers_state_that_they_depend_on_the_other_photos() -> None:
    words = (SAMPLES / "moths", SAMPLES / "queries", "--json")
    alone, together = classify(*words), classify(*words, "--transductive")
    assert "each answer depends on all photos of the call" in together.stderr
    first, second = ([json.loads(line) for line in found.stdout.splitlines()] for found in (alone, together))
    assert all(line.pop("transductive") for line in second)
    assert [line["unknown"] for line in first] == [line["unknown"] for line in second]
    assert [line["errors"] for line in first] != [line["errors"] for line in second]


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX sets the limit")
def test_a_full_disk_is_reported_with_the_file_name(tmp_path: Path) -> None:
    out = tmp_path / "new" / "results.jsonl"
    words = ["classify", SAMPLES / "moths", SAMPLES / "queries", "--out", out, "--model", "conv4"]
    result = processes.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "frn", *words])
    assert result.returncode == 1
    assert result.stderr == f"error: {out}: cannot be written (File too large). Fix that and continue with --resume.\n"
