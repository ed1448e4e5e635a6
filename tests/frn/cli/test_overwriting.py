"""One rule for all commands: files that frn did not write are replaced only with --replace, photos never."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from PIL import Image

from frn.cli.main import app
from frn.images.opening import open_image
from frn.system.files import is_ours
from tests.commands import frn
from tests.drawings import DRAWINGS

MOTHS, QUERIES = DRAWINGS / "moths", DRAWINGS / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
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
    ("group", "--out"): "refuses whatever exists: tests/frn/ridge/test_groups.py",
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
