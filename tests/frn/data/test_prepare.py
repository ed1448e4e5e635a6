"""`frn data prepare folder`, and the files that it writes."""

import io
import os
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from frn.data.check import check_splits
from frn.data.folders import scan
from frn.data.prepare import RECORD, prepare, writer
from frn.data.prepare.sources import Sources
from frn.data.prepare.writer import as_stored, cropped_png
from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError
from frn.images.opening import open_image
from frn.system.files import read_json
from tests.frn.data import miniatures
from tests.frn.data.miniatures import tar_of


def png(colour: int = 0, size: tuple[int, int] = (8, 8)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (colour, colour, colour)).save(buffer, "PNG")
    return buffer.getvalue()


def zip_of(path: Path, names: list[str]) -> Path:
    return miniatures.zip_of(path, {name: png(number % 256) for number, name in enumerate(names)})


def cifar_classes() -> dict[str, list[str]]:
    return tomllib.loads((files("frn.data") / "splits" / "cifar_fs.toml").read_text())


def tree(folder: Path) -> dict[str, int]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "prepared.json"]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def test_zips_of_class_folders_become_the_split_in_their_names(tmp_path: Path) -> None:
    zips = [
        zip_of(tmp_path / "birds-train-1of2.zip", ["jay/1.png", "jay/2.png"]),
        zip_of(tmp_path / "birds-train-2of2.zip", ["wren/1.png", "__MACOSX/wren/._1.png", "wren/notes.txt"]),
        zip_of(tmp_path / "birds-val.zip", ["owl/1.png"]),
    ]
    out = tmp_path / "out"
    assert prepare("folder", zips, out) == {"train": (2, 3), "val": (1, 1)}
    assert list(tree(out)) == ["train/jay/1.png", "train/jay/2.png", "train/wren/1.png", "val/owl/1.png"]


def test_random_split_keeps_classes_whole_and_is_reproducible(tmp_path: Path) -> None:
    source = zip_of(tmp_path / "mine.zip", [f"class {c}/{i}.png" for c in range(10) for i in range(2)])
    counts = prepare("folder", [source], tmp_path / "a", val=0.2, test=0.3)
    assert counts == {"train": (5, 10), "val": (2, 4), "test": (3, 6)}
    prepare("folder", [source], tmp_path / "b", val=0.2, test=0.3)
    assert list(tree(tmp_path / "a")) == list(tree(tmp_path / "b"))


def test_given_shares_override_folder_names(tmp_path: Path) -> None:
    """This also holds if no other folder is named after a split: "train stations" is not a training split."""
    stations = tmp_path / "train stations"
    for c in range(10):
        (stations / f"station {c}").mkdir(parents=True)
        (stations / f"station {c}" / "1.png").write_bytes(png(c))
    asked = prepare("folder", [stations], tmp_path / "asked", val=0.3)
    assert asked == {"train": (5, 5), "val": (3, 3), "test": (2, 2)}
    assert prepare("folder", [stations], tmp_path / "unasked") == {"train": (6, 6), "val": (2, 2), "test": (2, 2)}
    split = [zip_of(tmp_path / f"{part}.zip", [f"{part} {c}/1.png" for c in range(5)]) for part in ("train", "val")]
    assert prepare("folder", split, tmp_path / "named") == {"train": (5, 5), "val": (5, 5)}
    both = prepare("folder", split, tmp_path / "drawn", val=0.3, test=0.0)
    assert both == {"train": (7, 7), "val": (3, 3)}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_pipes_among_photos_and_archives_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "jay").mkdir()
    (tmp_path / "jay" / "1.png").write_bytes(png())
    pipes = [tmp_path / "jay" / "pipe.png", tmp_path / "pipe.zip"]
    for pipe in pipes:
        os.mkfifo(pipe)
    with Sources([tmp_path]) as sources:
        assert [found.parts[-1] for found in sources.images()] == ["1.png"]
        assert sources.skipped() == [f"{pipe}: is skipped: it is not a file, or a broken link" for pipe in pipes]


def test_every_file_that_is_not_an_image_is_reported_with_its_reason(tmp_path: Path) -> None:
    jay = tmp_path / "birds" / "jay"
    (jay / "more").mkdir(parents=True)
    for name in ("1.avif", "2.HEIC", "3.png"):
        (jay / name).write_bytes(png())
    for name in ("clip.mov", "noname", "Thumbs.db", ".hidden"):
        (jay / name).write_bytes(b"x")
    (tmp_path / "birds" / "loose.jpg").write_bytes(png())
    reasons = {"clip.mov": ".mov is not a supported image format", "noname": "its name has no extension"}
    scanned = scan(tmp_path / "birds")
    assert scanned.files == (("1.avif", "2.HEIC", "3.png"),)
    expected = {f"{jay / name}: is skipped: {reason}" for name, reason in reasons.items()}
    placed = {f"{tmp_path / 'birds' / 'loose.jpg'}: is skipped: it is not in a class folder"}
    assert {entry.reason for entry in scanned.skipped} == expected | placed
    out = tmp_path / "out"
    (tmp_path / "birds" / "loose.jpg").unlink()
    assert prepare("folder", [tmp_path / "birds"], out, val=0, test=0) == {"train": (1, 3)}
    assert set(read_json(out / RECORD)["skipped"]) == expected


def test_cifar_fs_is_built_from_the_official_archive(tmp_path: Path) -> None:
    names = sorted(label for split in cifar_classes().values() for label in split)
    pixels = np.random.default_rng(0).integers(0, 255, (200, 3072), dtype=np.uint8)
    labels = np.arange(200, dtype=np.uint8)[:, None] % 100
    rows = np.concatenate([np.zeros((200, 1), np.uint8), labels, pixels], axis=1)
    members = {
        "fine_label_names.txt": "\n".join(names).encode(),
        "train.bin": rows[:160].tobytes(),
        "test.bin": rows[160:].tobytes(),
    }
    path = tar_of(tmp_path / "cifar.tar.gz", {f"cifar-100-binary/{name}": content for name, content in members.items()})
    counts = prepare("cifar-fs", [path], tmp_path / "out", unofficial=True)
    assert counts == {"train": (64, 128), "val": (16, 32), "test": (20, 40)}
    # the first class by name is "apple": images 0 and 100
    second = np.asarray(Image.open(tmp_path / "out" / "train" / "apple" / "001.png"))
    assert np.array_equal(second, pixels[100].reshape(3, 32, 32).transpose(1, 2, 0))
    torn = tar_of(tmp_path / "torn.tar.gz", {**members, "train.bin": b"x"})
    with pytest.raises(FrnError, match=r"is not cifar-100-binary\.tar\.gz, or is damaged"):
        prepare("cifar-fs", [torn], tmp_path / "torn", unofficial=True)


def test_unusable_sources_give_a_one_line_error(tmp_path: Path) -> None:
    page, torn = tmp_path / "page.zip", tmp_path / "torn.zip"
    page.write_text("<!DOCTYPE html><title>Sign in</title>")
    torn.write_bytes(zip_of(tmp_path / "whole.zip", ["a/1.png", "b/1.png"]).read_bytes()[:60])
    flat = zip_of(tmp_path / "flat.zip", ["1.png"])
    mixed = zip_of(tmp_path / "mixed.zip", ["train/a/1.png", "b/1.png"])
    seen = zip_of(tmp_path / "seen.zip", ["train/a/1.png", "train/b/1.png", "test/a/1.png", "test/c/1.png"])
    for name, source, reason in (
        ("folder", page, "it is a web page"),
        ("folder", torn, "is not a complete archive"),
        ("folder", tmp_path / "none", "no such file or folder"),
        ("folder", flat, "is not in a class folder"),
        ("folder", mixed, "is not in a split"),
        ("folder", seen, r"class a is in train and test \(1 such classes\), but a few-shot test needs classes that"),
        ("cifar-fs", flat, r"is not cifar-100-binary\.tar\.gz, or is damaged \('fine_label_names"),
        ("cifarfs", flat, "Did you mean 'cifar-fs'"),
    ):
        with pytest.raises(FrnError, match=reason):
            prepare(name, [source], tmp_path / "out")
    other = zip_of(tmp_path / "other.zip", ["other/a/1.png"])
    told = r"other.zip: other/a/1.png and .*whole.zip: a/1.png would both become .*/a/1.png \(1 such files\)"
    with pytest.raises(FrnError, match=told):
        prepare("folder", [tmp_path / "whole.zip", other], tmp_path / "out")


def test_a_linked_class_folder_is_reported(tmp_path: Path) -> None:
    for name in ("photos/a", "photos/b", "real"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    (tmp_path / "photos" / "c").symlink_to(tmp_path / "real")
    prepare("folder", [tmp_path / "photos"], tmp_path / "out")
    skipped = read_json(tmp_path / "out" / RECORD)["skipped"]
    assert skipped == [f"{tmp_path / 'photos' / 'c'}: is skipped: it is a link to a folder"]


def test_split_folders_may_have_names_in_camel_case(tmp_path: Path) -> None:
    for split in ("TrainImages", "ValidationSet", "testImages"):
        for name in ("a", "b"):
            (tmp_path / "photos" / split / f"{split} {name}").mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / "photos" / split / f"{split} {name}" / "1.png")
    counts = prepare("folder", [tmp_path / "photos"], tmp_path / "out")
    assert counts == {"train": (2, 2), "val": (2, 2), "test": (2, 2)}
    assert (tmp_path / "out" / "test" / "testImages a").is_dir()


def test_check_finds_broken_files_and_small_classes(tmp_path: Path) -> None:
    for name, count in (("a", 4), ("b", 1)):
        (tmp_path / name).mkdir()
        for i in range(count):
            (tmp_path / name / f"{i}.png").write_bytes(png(size=(8 + i, 9)))
    (tmp_path / "a" / "text.png").write_text("no picture")
    (report,) = check_splits([tmp_path])
    assert report.classes == {"a": 4, "b": 1}
    assert (report.smallest, report.largest) == ((8, 9), (11, 9))
    assert [entry.path for entry in report.broken] == [str(Path("a") / "text.png")]
    assert report.too_small == {"b": 1}


def test_check_finds_near_copies_in_classes_and_splits(tmp_path: Path) -> None:
    moths = {
        f"{kind}{number}": draw_moth(species(kind), np.random.default_rng([kind, number]), 96)
        for kind in (1, 2) for number in (0, 1)
    }  # fmt: skip
    photos = {
        "train/a/0.png": moths["10"], "train/a/1.jpg": moths["10"], "train/a/2.png": moths["11"],
        "train/b/0.png": ImageOps.mirror(moths["11"]), "test/c/0.png": moths["20"], "test/c/1.png": moths["21"],
        "test/d/0.png": moths["20"].crop((4, 4, 92, 92)), "test/d/1.png": moths["10"].convert("L"),
    }  # fmt: skip
    for name, photo in photos.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        photo.save(tmp_path / name)
    reports = check_splits([tmp_path / "train", tmp_path / "test"])
    copies = [[tuple(str(Path(each).relative_to(tmp_path)) for each in pair) for pair in r.copies] for r in reports]
    assert copies == [
        [("train/a/1.jpg", "train/a/0.png"), ("train/b/0.png", "train/a/2.png")],
        [("test/d/0.png", "test/c/0.png"), ("test/d/1.png", "train/a/0.png"), ("test/d/1.png", "train/a/1.jpg")],
    ]


ORIENTATION = 0x0112


def turned(orientation: int) -> bytes:
    """A 24 x 16 pixel JPEG with a dark left side and an EXIF tag."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, 12:] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_removing_the_exif_data_changes_no_pixel(orientation: int) -> None:
    data = turned(orientation)
    plain = as_stored(data)
    assert len(plain) == len(data)
    with Image.open(io.BytesIO(plain)) as image, Image.open(io.BytesIO(data)) as tagged:
        assert not image.getexif()
        assert np.array_equal(np.asarray(image), np.asarray(tagged))


def test_files_without_exif_data_are_unchanged() -> None:
    data = turned(6)
    without = io.BytesIO()
    Image.new("RGB", (8, 8)).save(without, "JPEG")
    for other in (without.getvalue(), b"", b"\xff\xd8", b"GIF89a" + data, data[: data.index(b"Exif") + 3]):
        assert as_stored(other) == other


def test_benchmarks_keep_the_stored_orientation_but_own_photos_are_turned_upright(tmp_path: Path) -> None:
    home = tmp_path / "tiered_imagenet"
    for place in ("train/n1/a.JPEG", "val/n2/a.JPEG", "test/n3/a.JPEG"):
        (home / place).parent.mkdir(parents=True)
        (home / place).write_bytes(turned(6))
    prepare("tiered-imagenet-224", [tmp_path], tmp_path / "benchmark", unofficial=True)
    prepare("folder", [home], tmp_path / "own")
    stored = open_image(tmp_path / "benchmark/train/n1/a.JPEG")
    upright = open_image(tmp_path / "own/train/n1/a.JPEG")
    assert (stored.size, upright.size) == ((24, 16), (16, 24))
    assert np.array_equal(np.asarray(stored), np.asarray(upright.transpose(Image.Transpose.ROTATE_90)))


def test_image_that_is_slow_to_write_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, "TIFF")
    assert cropped_png(file.getvalue(), "x", (0, 0, 9, 9))
    monkeypatch.setattr(writer, "MAX_PIXELS", 599)
    with pytest.raises(FrnError, match="x: is 30 x 20 pixels; the limit for an image"):
        cropped_png(file.getvalue(), "x", (0, 0, 9, 9))
