"""Command line, library and app find the same classes; the picker's listings."""

import random
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.worker_queues import Cancelled
from PIL import Image

from frn.errors import FrnError, FrnWarning
from frn.estimator.few_shot import FewShotClassifier
from frn.projects.class_files import class_files
from frn.projects.folder_tree import DEEPEST
from frn.projects.project import load_project
from frn.system.csv_rows import csv_row
from tests.commands import frn
from tests.tui.engine.conftest import Engine

NAMES = ("2", "10", "Épervier", "-plus", "'-plus", "=a;b", "sparrow, tree", "Jay", "雀", "x [1]", 'so "called"')
BELOW = ("", "", "2024-01", "2024-01/photos", "DCIM/100CANON")
Contents = tuple[list[tuple[str, list[str]]], list[str], list[str]]
"""Classes with their photos, photos of no class, and warnings."""


def write_tree(root: Path, seed: int) -> None:
    """Write class folders with photos at several depths, and entries that are skipped."""
    draw = random.Random(seed)
    for name in draw.sample(NAMES, 4):
        for number in range(1, draw.randint(2, 12)):
            write_photo(root / name / draw.choice(BELOW) / f"{number}.png")
    (root / "empty" / "2024").mkdir(parents=True)
    write_photo(root / draw.choice(("unknown", "Other", "none of these")) / "1.png")
    write_photo(root / "loose.png")
    next(root.glob("*/*")).with_name("notes.txt").touch()


def write_photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(list(str(path).encode())).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def by_command(path: Path, out: Path) -> Contents:
    told = frn("enroll", path, "--out", out, "--model", "conv4")
    assert told.exit_code == 0, told.output
    state = load_project(out).state
    classes = [(entry.name, [str(photo.path) for photo in entry.supports]) for entry in state.classes]
    reasons = [line.removeprefix("warning: ") for line in told.stderr.splitlines()]
    return classes, [str(photo.path) for photo in state.others], reasons


def by_library(path: Path) -> Contents:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FrnWarning)
        classifier = FewShotClassifier("conv4").fit(path)
    state = classifier.classifier_.state
    classes = [(entry.name, [str(photo.path) for photo in entry.supports]) for entry in state.classes]
    reasons = [str(each.message) for each in caught if issubclass(each.category, FrnWarning)]
    return classes, [str(photo.path) for photo in state.others], reasons


def by_app(bare: Engine, path: Path) -> Contents:
    found = bare.done("scan", path=str(path))
    if found["kind"] == "levels":  # the app asks where the commands take the first level
        found = bare.done("scan", path=str(path), level=1)
    if found["kind"] == "project":
        state = bare.done("load", path=str(path))["state"]
        classes = [(entry["name"], [photo["path"] for photo in entry["supports"]]) for entry in state["classes"]]
        return classes, [photo["path"] for photo in state["others"]], []
    assert found["kind"] == "classes"
    others = found["classes"].pop("unknown", [])
    return list(found["classes"].items()), others, found["skipped"]


@pytest.mark.parametrize("seed", range(3))
def test_every_door_finds_the_same_classes(bare: Engine, tmp_path: Path, seed: int) -> None:
    root = tmp_path / "birds"
    write_tree(root, seed)
    expected = {}
    for name in sorted({path.relative_to(root).parts[0] for path in root.rglob("*.png")} - {"loose.png"}):
        expected[name] = {str(path) for path in (root / name).rglob("*.png")}
    packed, table, project = tmp_path / "birds.zip", tmp_path / "birds.csv", tmp_path / "birds.frn.json"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(root.rglob("*")):
            archive.write(path, path.relative_to(root))
    rows = [("path", "label"), *((path, name) for name, paths in expected.items() for path in sorted(paths))]
    table.write_text("".join(map(csv_row, rows)), encoding="utf-8", newline="")
    frn("enroll", root, "--out", project, "--model", "conv4")
    for path in (root, packed, table, project):
        classes, others, reasons = by_command(path, tmp_path / f"{path.suffix}.frn.json")
        assert by_app(bare, path) == (classes, others, reasons)
        library = by_library(path)
        assert sorted(library[0]) == sorted(classes)  # an estimator's classes are sorted
        assert library[1:] == (others, reasons)
        within = {name: {photo.replace(f"{packed}/", f"{root}/") for photo in photos} for name, photos in classes}
        assert {name.strip(): photos for name, photos in expected.items() if name in within} == within
        assert len(within) == len(expected) - 1
        assert len(others) == 1
        assert len(reasons) == {"": 4, ".zip": 4, ".csv": 1, ".json": 0}[path.suffix]
    names = [name for name, _ in class_files(root).members.items()]
    assert names == [name for name, _ in classes]


def test_class_folder_names_survive_writing_and_reading_a_table(tmp_path: Path) -> None:
    starts = ("=", "+", "-", "@", "＝", "'", "''", "'=", "''-", " '", '"', ";", ",", "é", "2", "sep=;")
    for seed in range(60):
        draw = random.Random(seed)
        names = [draw.choice(starts) + draw.choice(("a", "a;b", "a,b", "a\tb", "a\nb", "'", "10")) for _ in range(3)]
        rows = [(f"{name.replace(chr(10), '')}.jpg", name) for name in names]
        for path, _ in rows:
            (tmp_path / path).touch()
        text = "".join(map(csv_row, [("image", "truth"), *rows]))
        (tmp_path / "x.csv").write_text(text, encoding="utf-8", newline="")
        found = class_files(tmp_path / "x.csv").members
        assert set(found) == {name.strip() for name in names}
        photos = [path for paths in found.values() for path in paths]
        assert {str(path.relative_to(tmp_path)) for path in photos} == {path for path, _ in rows}


def test_two_levels_of_names_ask_which_one_is_meant(bare: Engine, tmp_path: Path) -> None:
    root, out = tmp_path / "birds", tmp_path / "x.frn.json"
    for name in ("corvus/corone", "corvus/corax", "corvus/cornix", "parus/major"):
        for number in range(2):
            write_photo(root / name / f"{number}.png")
    told = frn("enroll", root, "--out", out, "--model", "conv4")
    assert told.stderr == (
        f"error: {root}: has two levels of folders. Choose which are the classes: "
        "--level 1 (2 classes: corvus, parus) or 2 (4 classes: corax, cornix, corone, ...).\n"
    )
    counts = {"corvus": 6, "parus": 2}, {"corax": 2, "cornix": 2, "corone": 2, "major": 2}
    found = bare.done("scan", path=str(root))
    assert (found["kind"], [each["classes"] for each in found["levels"]]) == ("levels", [*counts[::-1]])
    shown = [[Path(photo).name for photo in each["photos"]] for each in found["levels"]]
    assert shown == [["0.png"] * 3, ["0.png"] * 2]
    with pytest.raises(FrnError, match="has two levels of folders"):
        FewShotClassifier("conv4").fit(root)
    for level, expected in enumerate(counts, 1):
        told = frn("enroll", root, "--level", level, "--replace", "--out", out, "--model", "conv4")
        assert told.exit_code == 0, told.output
        state = load_project(out).state
        assert {entry.name: len(entry.supports) for entry in state.classes} == expected
        classes = bare.done("scan", path=str(root), level=level)["classes"]
        assert {name: len(photos) for name, photos in classes.items()} == expected
        assert list(FewShotClassifier("conv4").fit(root, level=level).classes_) == list(expected)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (("jay/1", "jay/2024/3", "wren/1"), {"jay": 2, "wren": 1}),
        (("jay/2024-01/1", "jay/2024-02/2", "wren/2024-01/1"), {"jay": 2, "wren": 1}),
        (("birds/jay/1", "birds/wren/1"), {"jay": 1, "wren": 1}),
        (("data/train/jay/1", "data/train/wren/2023/1"), {"jay": 1, "wren": 1}),
        (("jay/left/1", "wren/right/1"), {"jay": 1, "wren": 1}),
        (("jay/images/1", "jay/photos/2"), {"jay": 2}),
        (("Owl/1", "Jay 10/1", "jay 2/1", "magpie/1"), {"jay 2": 1, "Jay 10": 1, "magpie": 1, "Owl": 1}),
    ],
)
def test_a_class_is_a_folder_with_all_photos_below_it(
    tmp_path: Path, tree: tuple[str, ...], expected: dict[str, int]
) -> None:
    for name in tree:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.jpg").touch()
    found = class_files(tmp_path)
    assert [(name, len(photos)) for name, photos in found.members.items()] == [*expected.items()]
    assert found.skipped == []


def test_links_and_repeated_zip_entries_are_reported(tmp_path: Path) -> None:
    (tmp_path / "birds" / "jay").mkdir(parents=True)
    (tmp_path / "birds" / "jay" / "1.jpg").touch()
    (tmp_path / "birds" / "also jay").symlink_to("jay")
    (tmp_path / "birds" / "jay" / "all").symlink_to(tmp_path)
    home = tmp_path / "birds"
    assert class_files(home).members == {"jay": [home / "jay" / "1.jpg"]}
    assert class_files(home).skipped == [
        f"{home / 'also jay'}: is skipped: it is a link to {home / 'jay'}",
        f"{home / 'jay' / 'all'}: is skipped: it is a link to {tmp_path}",
    ]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("jay/1.jpg", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("jay/1.jpg", "2")
    assert class_files(tmp_path / "x.zip").skipped == [
        f"{tmp_path / 'x.zip'}/jay/1.jpg: is skipped: the zip has it twice; the last one is used"
    ]


def test_scattered_folders_are_a_class_each_or_by_their_first_level(bare: Engine, tmp_path: Path) -> None:
    folders = ("birds/2023/owl", "birds/2024/owl", "pets/cat", "pets/old/dog", "moths/2024-05-01")
    for folder in folders:
        write_photo(tmp_path / folder / "1.png")
    found = bare.done("scan", path=str(tmp_path))
    assert {each["level"]: each["classes"] for each in found["levels"]} == {
        DEEPEST: {"2024-05-01": 1, "cat": 1, "dog": 1, "owl": 2},
        1: {"birds": 2, "moths": 1, "pets": 2},
    }
    for folder in folders[:-1]:  # dates alone are not names of classes
        (tmp_path / folder / "1.png").unlink()
    assert bare.done("scan", path=str(tmp_path))["kind"] == "classes"


def test_scan_groups_paths_by_kind(bare: Engine, moths: Path, tmp_path: Path) -> None:
    image = next((moths / "test").glob("*/*.png"))
    assert bare.done("scan", path=str(image))["files"] == [str(image)]
    folder = bare.done("scan", path=str(image.parent))
    assert (folder["kind"], len(folder["files"])) == ("folder", 12)
    assert bare.done("scan", path=str(image.parent), level=1) == folder
    classes = bare.done("scan", path=str(moths / "test"))
    assert classes["kind"] == "classes"
    assert [len(files) for files in classes["classes"].values()] == [12] * 5
    for name, reason in (("away", "away: No such file or directory"), ("a\0b", "embedded null byte")):
        assert reason in bare.done("scan", path=str(tmp_path / name))["reason"]
    project = tmp_path / "x.FRN.json"
    project.write_text("{}")
    assert bare.done("scan", path=str(project))["kind"] == "project"


def test_class_folders_take_precedence_over_loose_images(bare: Engine, tmp_path: Path) -> None:
    (tmp_path / "loose.png").touch()
    (tmp_path / "empty").mkdir()
    assert bare.done("scan", path=str(tmp_path))["kind"] == "folder"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.jpg").touch()
    assert bare.done("scan", path=str(tmp_path))["classes"] == {"full": [str(tmp_path / "full" / "a.jpg")]}


def test_images_next_to_class_folders_are_reported(bare: Engine, tmp_path: Path) -> None:
    loose = tmp_path / "loose.png"
    (tmp_path / "full").mkdir()
    for path in (loose, tmp_path / "full" / "a.jpg"):
        path.write_text("12")
    found = bare.done("scan", path=str(tmp_path))
    assert (found["kind"], found["files"]) == ("classes", [str(loose)])
    stamps = bare.done("stamp", paths=[str(loose), str(tmp_path / "away")])
    assert stamps == {str(loose): [2, loose.stat().st_mtime_ns]}
    with zipfile.ZipFile(packed := tmp_path / "day.zip", "w") as archive:
        archive.write(loose, "x.png")
    status, inside = packed.stat(), str(packed / "x.png")
    assert bare.done("stamp", paths=[inside]) == {inside: [status.st_size, status.st_mtime_ns]}


def test_a_scan_skips_hidden_entries_and_lists_no_folder_twice(bare: Engine, tmp_path: Path) -> None:
    home = tmp_path / "a"
    (home / "b").mkdir(parents=True)
    (home / "b" / "x.png").touch()
    (home / "cached").mkdir()
    for name in (".hidden.png", "cached/x.png", "cached/CACHEDIR.TAG"):
        (home / name).touch()
    (home / "same").symlink_to(home)
    (home / "self").symlink_to(home / "self")
    found = bare.done("scan", path=str(home))
    assert found["classes"] == {"b": [str(home / "b" / "x.png")]}


def test_a_scan_can_be_cancelled(tmp_path: Path) -> None:
    for i in range(200):
        (tmp_path / f"{i}").mkdir()
    checks = iter(range(100))

    def check() -> None:
        if next(checks) == 50:
            raise Cancelled

    with pytest.raises(Cancelled):
        class_files(tmp_path, check=check)


def test_a_listing_contains_the_picker_entries(bare: Engine, tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "p.frn.json", "m.onnx", "text.txt", ".hidden.png"):
        (tmp_path / name).touch()
    (tmp_path / "z").mkdir()
    found = bare.done("list", path=f"{tmp_path}/z/..")
    assert found["path"] == str(tmp_path)
    kinds = [(entry["kind"], entry["name"]) for entry in found["entries"] if entry["name"] != "cache"]
    assert kinds == [
        ("folder", "z"),
        ("image", "a.JPG"),
        ("image", "b.png"),
        ("project", "p.frn.json"),
        ("model", "m.onnx"),
    ]
    assert "cannot be listed" in bare.ask("list", path=str(tmp_path / "away")).reason


def test_subfolders_are_listed_level_by_level(bare: Engine, tmp_path: Path) -> None:
    for name in ("owl/barn/night", "jay", ".hidden/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "owl" / "barn" / "again").symlink_to(tmp_path)
    found = bare.done("folders", path=str(tmp_path))
    assert found[:3] == ["jay", "owl", "owl/barn"]
    assert "owl/barn/night" in found
    assert not any("hidden" in name or "again/" in name for name in found)
