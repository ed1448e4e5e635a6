"""Files that commands write: resumed, and replaced only on request."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from PIL import Image
from typer.testing import Result

from frn.cli.main import app
from frn.features.feature_cache import content_key
from frn.images.opening import open_image
from frn.system.files import is_ours
from tests import processes
from tests.commands import frn, is_described
from tests.drawings import MOTHS, PHOTO, QUERIES


def classify(*words: object) -> Result:
    return frn("classify", *words, "--model", "conv4")


def test_a_stopped_run_continues_after_its_last_line(tmp_path: Path) -> None:
    classes, out = MOTHS, tmp_path / "results.jsonl"
    photos = sorted(QUERIES.iterdir())
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
    out, photos = tmp_path / "r.jsonl", sorted(QUERIES.iterdir())[:3]
    names = [tmp_path / f"{number}.jpg" for number in range(3)]
    for name, photo in zip(names[:2], photos[:2], strict=True):
        name.write_bytes(photo.read_bytes())
    words = (MOTHS, *names, "--out", out)
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
    words = (MOTHS, QUERIES)
    assert "Use one of them" in classify(*words, "--out", tmp_path / "x.jsonl", "--json").stderr
    assert "the name must end in .jsonl (JSON lines) or .csv" in classify(*words, "--out", "x.html").stderr
    assert "--transductive needs all photos at once" in classify(*words, "--transductive", "--report", "x.html").stderr
    for more in ((), ("--out", "x.csv")):
        assert "--resume continues a file of JSON lines" in classify(*words, "--resume", *more).stderr


def test_json_csv_and_out_have_the_same_numbers(tmp_path: Path) -> None:
    words = (MOTHS, QUERIES)
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
    words = (MOTHS, QUERIES, "--json")
    alone, together = classify(*words), classify(*words, "--transductive")
    assert "each answer depends on all photos of the call" in together.stderr
    first, second = ([json.loads(line) for line in found.stdout.splitlines()] for found in (alone, together))
    assert all(line.pop("transductive") for line in second)
    assert [line["unknown"] for line in first] == [line["unknown"] for line in second]
    assert [line["errors"] for line in first] != [line["errors"] for line in second]


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX sets the limit")
def test_a_full_disk_is_reported_with_the_file_name(tmp_path: Path) -> None:
    out = tmp_path / "new" / "results.jsonl"
    words = ["classify", MOTHS, QUERIES, "--out", out, "--model", "conv4"]
    command = [sys.executable, "-B", "-m", "frn", *words]  # bytecode would be cut as well, and stay so
    result = processes.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *command])
    assert result.returncode == 1
    assert result.stderr == f"error: {out}: cannot be written (File too large). Fix that and continue with --resume.\n"


FILES: dict[tuple[str, str], tuple[str, list[object]]] = {
    ("classify", "--out"): ("x.jsonl", [MOTHS, PHOTO]),
    ("classify", "--report"): ("x.html", [MOTHS, PHOTO]),
    ("enroll", "--out"): ("x.frn.json", [MOTHS]),
    ("explain", "--out"): ("x.png", [MOTHS, PHOTO]),
    ("score", "--out"): ("x.csv", [MOTHS, MOTHS]),
    ("score", "--report"): ("x.html", [MOTHS, MOTHS]),
}
"""Options that name an output file: the file names, and the other arguments that the command needs."""
TEN_CLASSES = "ten classes"  # placeholder for a folder with ten classes of ten photos each, which fine-tuning needs
FOLDERS: dict[tuple[str, str], tuple[str, list[object]]] = {
    ("export", "--out"): ("features.onnx", ["--model", "conv4"]),
    ("export", "--web"): ("page.js", ["--model", "conv4"]),
    ("reproduce", "--out"): ("ablation.json", ["ablation"]),
    ("train", "--out"): ("config.toml", ["demo"]),
    ("finetune", "--out"): ("config.toml", [TEN_CLASSES]),
    ("data prepare", "--out"): ("train/x/y.jpg", ["folder", "--source", MOTHS]),
}
"""Options that name a folder, and a file that the command would write there."""
ELSEWHERE = {
    ("reproduce", "--runs"): "the folders of runs, each by `frn train --out`",
    ("classify", "--crops"): "names each file after its photo and box: tests/frn/inference/test_find.py",
    ("group", "--out"): "refuses whatever exists: tests/frn/cli/test_class_files.py",
}
ALL = {**FILES, **FOLDERS}


def outputs(commands: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.opts[0] in ("--out", "--web", "--report", "--crops", "--runs") and not parameter.is_flag:
                yield f"{above}{name}", parameter.opts[0]
        yield from outputs(getattr(command, "commands", {}), f"{above}{name} ")


def test_every_option_that_names_an_output_is_in_the_table() -> None:
    command: Any = typer.main.get_command(app)
    shown = {(name, word) for name, word in outputs(command.commands) if not command.commands[name.split()[0]].hidden}
    assert shown - {("pretrain", "--out")} == {*ALL, *ELSEWHERE}


def place(tmp_path: Path, key: tuple[str, str]) -> tuple[Path, Path]:
    """Return a path for the option, and the file that the command would write."""
    name = ALL[key][0]
    if key in FILES:
        return tmp_path / name, tmp_path / name
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    return tmp_path / "out", tmp_path / "out" / name


def many_photos(tmp_path: Path) -> Path:
    for label in range(10):
        (home := tmp_path / "photos" / f"{label}").mkdir(parents=True)
        for number in range(10):
            (home / f"{number}.png").symlink_to(PHOTO)
    return tmp_path / "photos"


@pytest.mark.parametrize("key", ALL, ids=" ".join)
def test_file_not_written_by_frn_is_kept_without_replace(tmp_path: Path, key: tuple[str, str]) -> None:
    given, file = place(tmp_path, key)
    file.write_bytes(b"of others")
    command, option = key
    words = [many_photos(tmp_path) if word == TEN_CLASSES else word for word in ALL[key][1]]
    result = frn(*command.split(), *words, option, given)
    assert result.exit_code == 1
    assert str(file.name) in result.stderr or "out: already exists. Choose" in result.stderr
    assert result.stderr.startswith("error: ") or "\nerror: " in result.stderr
    assert file.read_bytes() == b"of others"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


UNUSABLE = [*FILES, ("group", "--out")]


@pytest.mark.parametrize("kind", ["below a file", "link"])
@pytest.mark.parametrize("key", UNUSABLE, ids=" ".join)
def test_unusable_target_is_refused_before_a_model_is_opened(
    key: tuple[str, str], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link leads to a folder, which no command writes as a file, and which `frn group` cannot put into its place."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    name, words = FILES.get(key, ("new", [MOTHS / "eyed footman"]))
    target = tmp_path / ("file" if kind == "below a file" else "") / name
    if kind == "link":
        target.symlink_to(tmp_path / "folder", target_is_directory=True)
    monkeypatch.setattr("frn.features.extractor.Extractor.__init__", MagicMock(side_effect=AssertionError("opened")))
    result = frn(key[0], *words, key[1], target)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(f"error: {target}: ")


def with_replace() -> list[tuple[str, str]]:
    command: Any = typer.main.get_command(app)

    def takes(name: str) -> bool:
        found = command
        for word in name.split():
            found = found.commands[word]
        return any("--replace" in parameter.opts for parameter in found.params)

    return [key for key in ALL if takes(key[0])]


@pytest.mark.parametrize("key", with_replace(), ids=" ".join)
def test_photo_is_kept_even_with_replace(tmp_path: Path, key: tuple[str, str]) -> None:
    given, file = place(tmp_path, key)
    file.write_bytes(PHOTO.read_bytes())
    result = frn(*key[0].split(), *ALL[key][1], key[1], given, "--replace")
    assert result.exit_code == 1
    assert f"{file.name}: is a photo, and frn never overwrites photos" in result.stderr
    assert file.read_bytes() == PHOTO.read_bytes()


def test_image_drawn_by_frn_is_replaced_but_a_photo_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    assert frn("explain", MOTHS, PHOTO, "--out", path).exit_code == 0
    assert is_ours(path)
    open_image(path)
    assert frn("explain", MOTHS, PHOTO, "--out", path).exit_code == 0
    picture = io.BytesIO()
    Image.new("RGB", (64, 64)).save(picture, "PNG")
    path.write_bytes(picture.getvalue())
    assert frn("explain", MOTHS, PHOTO, "--out", path, "--replace").exit_code == 1
    assert path.read_bytes() == picture.getvalue()


def test_table_is_replaced_only_on_request_but_an_empty_file_always(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.touch()
    words = ("score", MOTHS, tmp_path / "labelled", "--out", path)
    (tmp_path / "labelled" / "eyed footman").mkdir(parents=True)
    (tmp_path / "labelled" / "eyed footman" / "1.jpg").write_bytes(PHOTO.read_bytes())
    assert frn(*words).exit_code == 0
    assert frn(*words).exit_code == 1
    assert frn(*words, "--replace").exit_code == 0
    assert frn(*words[:3], "--report", tmp_path / "x.html").exit_code == 0
    assert frn(*words[:3], "--report", tmp_path / "x.html").exit_code == 0
