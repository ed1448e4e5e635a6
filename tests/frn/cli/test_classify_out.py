"""`frn classify --out` writes exactly one line per photo, even after interruptions."""

import csv
import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from frn.features.feature_cache import content_key
from tests import processes
from tests.commands import frn, is_described
from tests.drawings import DRAWINGS

SAMPLES = DRAWINGS


def classify(*words: object) -> Result:
    return frn("classify", *words, "--model", "conv4")


def test_a_stopped_run_continues_after_its_last_line(tmp_path: Path) -> None:
    classes, out = SAMPLES / "moths", tmp_path / "results.jsonl"
    photos = sorted((SAMPLES / "queries").iterdir())
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    asked = (classes, *photos, broken, photos[0])
    result = classify(*asked, "--out", out, "--top", 2)
    assert result.exit_code == 1
    assert f"1 of {len(photos) + 1} images could not be read; their lines in {out} give the reasons" in result.stderr
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
    assert classify(classes, photos[0], "--out", out, "--resume").exit_code == 0
    other = classify(*asked, "--out", out, "--resume", "--threshold", 0.5)
    assert "line 1 was written with different classes, another model or another threshold" in other.stderr


def test_resuming_repeats_failed_and_changed_photos(tmp_path: Path) -> None:
    out, photos = tmp_path / "r.jsonl", sorted((SAMPLES / "queries").iterdir())[:3]
    names = [tmp_path / f"{number}.jpg" for number in range(3)]
    for name, photo in zip(names[:2], photos[:2], strict=True):
        name.write_bytes(photo.read_bytes())
    words = (SAMPLES / "moths", *names, "--out", out)
    assert classify(*words).exit_code == 1
    same = out.read_bytes().splitlines()[1]
    names[0].write_bytes(photos[2].read_bytes())
    names[2].write_bytes(photos[0].read_bytes())
    result = classify(*words, "--resume")
    assert "3 photos, 2 of them classified now: 1 changed, 1 could not be read before" in result.stdout
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert (result.exit_code, out.read_bytes().splitlines()[0]) == (0, same)
    assert [line["image"] for line in lines] == [str(names[number]) for number in (1, 0, 2)]
    assert [line["key"] for line in lines] == [content_key(Path(line["image"]).read_bytes()) for line in lines]


def test_conflicting_options_are_refused(tmp_path: Path) -> None:
    words = (SAMPLES / "moths", SAMPLES / "queries")
    assert "Use one of them" in classify(*words, "--out", tmp_path / "x.jsonl", "--json").stderr
    assert "the name must end in .jsonl (JSON lines) or .csv" in classify(*words, "--out", "x.html").stderr
    assert "--transductive needs all photos at once" in classify(*words, "--transductive", "--report", "x.html").stderr
    for more in ((), ("--out", "x.csv")):
        assert "--resume continues a file of JSON lines" in classify(*words, "--resume", *more).stderr


def test_json_csv_and_out_have_the_same_numbers(tmp_path: Path) -> None:
    words = (SAMPLES / "moths", SAMPLES / "queries")
    printed = [json.loads(line) for line in classify(*words, "--json").stdout.splitlines()]
    for name in ("x.jsonl", "x.csv"):
        assert classify(*words, "--out", tmp_path / name).exit_code == 0
    written = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{name: line[name] for name in line if name not in ("key", "run")} for line in written] == printed
    rows = csv.DictReader((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines())
    for row, line in zip(rows, printed, strict=True):
        names = ("image", "label", "probability", "known", "unknown", "explained")
        assert [row[name] for name in names] == [str(line[name]) for name in names]
        assert {name: row[f"probability of {name}"] for name in line["errors"]} == {
            name: str(share) for name, share in line["probabilities"].items()
        }


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
    command = [sys.executable, "-B", "-m", "frn", *words]  # bytecode would be cut as well, and stay so
    result = processes.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *command])
    assert result.returncode == 1
    assert result.stderr == f"error: {out}: cannot be written (File too large). Fix that and continue with --resume.\n"
