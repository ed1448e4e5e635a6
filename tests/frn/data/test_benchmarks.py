"""Benchmarks built from their archives, and archives that are refused."""

import os
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frn.data.prepare import prepare, sources
from frn.data.prepare.published import BENCHMARKS, read_split
from frn.errors import FrnError
from frn.system import archives
from tests.commands import frn
from tests.frn.data.miniatures import (
    Files,
    aircraft_files,
    cub_files,
    picture,
    pixels,
    prepared,
    tar_of,
    unpacked,
    zip_of,
)

# CUB


def test_cub_is_cropped_to_its_boxes(cub: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = prepare("cub-cropped", [cub], out, unofficial=True)
    assert counts == {"train": (100, 100), "val": (50, 50), "test": (50, 50)}
    split = {0: "train", 1: "val", 2: "train", 3: "test"}
    assert prepared(out) == {f"{split[n % 4]}/{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.png" for n in range(1, 201)}
    assert pixels(out / "train/002.Bird_2/Bird_2_9002.png").ndim == 2  # grey stays grey
    for n, part in ((1, "val"), (2, "train"), (3, "test")):
        whole = pixels(cub_files(classes=3)[f"CUB_200_2011/images/{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.jpg"])
        assert np.array_equal(pixels(out / part / f"{n:03d}.Bird_{n}" / f"Bird_{n}_{9000 + n}.png"), whole[2:12, 3:14])


def test_cub_raw_is_copied_and_split_by_name(cub: Path, tmp_path: Path) -> None:
    files = cub_files(classes=4)
    bird = "003.Bird_3/Bird_3_9003.jpg"
    prepare("cub-raw", [cub], tmp_path / "tang", unofficial=True)
    assert (tmp_path / "tang/test" / bird).read_bytes() == files[f"CUB_200_2011/images/{bird}"]
    chen = prepare("cub-raw", [cub], tmp_path / "chen", split="chen", unofficial=True)
    assert chen == {"train": (100, 100), "val": (50, 50), "test": (50, 50)}
    folders = {part: {int(f.name[:3]) for f in (tmp_path / "chen" / part).iterdir()} for part in chen}
    assert folders["train"] == set(range(1, 200, 2))
    assert folders["val"] == set(range(2, 199, 4))
    assert folders["test"] == set(range(4, 201, 4))
    assert prepare("cub-raw", [cub], tmp_path / "all", split="all", unofficial=True) == {"test": (200, 200)}
    with pytest.raises(FrnError, match="cub-raw has no class split 'feat'; it has: tang, chen, all"):
        prepare("cub-raw", [cub], tmp_path / "feat", split="feat")


def test_a_source_folder_may_hold_the_archive_or_its_content(birds: Path, tmp_path: Path) -> None:
    both = unpacked(tmp_path / "downloads", cub_files(classes=40))
    (both / birds.name).write_bytes(birds.read_bytes())
    (both / "other.zip").write_text("nothing of CUB's: not looked into")
    prepare("cub-raw", [birds], tmp_path / "a", unofficial=True)
    prepare("cub-raw", [both], tmp_path / "b", unofficial=True)
    prepare("cub-raw", [birds.parent], tmp_path / "c", unofficial=True)
    assert prepared(tmp_path / "a") == prepared(tmp_path / "b") == prepared(tmp_path / "c")


def test_archive_from_the_authors_is_used_unchanged(tmp_path: Path) -> None:
    files = {
        f"CUB_fewshot_cropped/{part}/{n:03d}.Bird_{n}/{n}.png": picture(n, kind="PNG")
        for n, part in ((2, "train"), (1, "val"), (3, "test"), (1, "val_pre"), (3, "test_pre"))
    }
    source = tar_of(tmp_path / "CUB_fewshot_cropped.tar", files)
    prepare("cub-cropped", [source], tmp_path / "out", unofficial=True)
    wanted = {"train/002.Bird_2/2.png", "val/001.Bird_1/1.png", "test/003.Bird_3/3.png"}
    assert prepared(tmp_path / "out") == wanted
    prepare("cub-cropped", [source], tmp_path / "chen", split="chen", unofficial=True)
    assert prepared(tmp_path / "chen") == {"val/002.Bird_2/2.png", "train/001.Bird_1/1.png", "train/003.Bird_3/3.png"}
    with pytest.raises(FrnError, match=r"has neither CUB's images\.txt nor train/ and test/"):
        prepare("cub-raw", [source], tmp_path / "raw", unofficial=True)


def test_missing_parts_of_cub_are_reported(tmp_path: Path) -> None:
    files = cub_files(classes=3)
    del files["CUB_200_2011/images/002.Bird_2/Bird_2_9002.jpg"]
    with pytest.raises(
        FrnError, match=r"1 of the 3 images in images\.txt are missing or have no box \(002\.Bird_2/Bird_2_9002\.jpg"
    ):
        prepare("cub-raw", [tar_of(tmp_path / "a.tgz", files)], tmp_path / "out", unofficial=True)
    few = tar_of(tmp_path / "b.tgz", cub_files(classes=8))
    with pytest.raises(FrnError, match="4 classes and 4 images in train, but cub-raw has 100 classes"):
        prepare("cub-raw", [few], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# FGVC-Aircraft


def test_aircraft_are_named_by_their_list_and_cropped(tmp_path: Path) -> None:
    files = aircraft_files()
    source = tar_of(tmp_path / "aircraft.tar.gz", files)
    out = tmp_path / "out"
    counts = prepare("aircraft", [source], out, unofficial=True)
    assert counts == {"train": (50, 100), "val": (25, 50), "test": (25, 50)}
    split = {0: "train", 1: "val", 2: "train", 3: "test"}
    assert prepared(out) == {f"{split[n // 2 % 4]}/{n // 2}/{n:07d}.png" for n in range(200)}
    whole = pixels(files["fgvc-aircraft-2013b/data/images/0000007.jpg"])
    assert np.array_equal(pixels(out / "test/3/0000007.png"), whole[2:15, 1:20])
    del files["fgvc-aircraft-2013b/data/images_box.txt"]
    with pytest.raises(FrnError, match=r"has no images_box\.txt"):
        prepare("aircraft", [tar_of(tmp_path / "less.tar.gz", files)], tmp_path / "less", unofficial=True)


# iNaturalist


def test_inat_archive_from_the_authors_may_contain_shared_links(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {f"inat2017_84x84/{c}/{c}.png": picture(c, kind="PNG") for c in (0, 6)}
    files |= {
        f"{name}/{part}/{c}/{c}.png": f"../../../inat2017_84x84/{c}/{c}.png"
        for name, parts in (("meta_iNat", {0: "train", 6: "test"}), ("tiered_meta_iNat", {6: "train", 0: "test"}))
        for c, part in parts.items()
    }
    files["meta_iNat/refr/6/6.png"] = "../../../inat2017_84x84/6/6.png"
    source = tar_of(tmp_path / "meta_inat.tar", files)
    prepare("meta-inat", [source], tmp_path / "meta", unofficial=True)
    prepare("tiered-meta-inat", [source], tmp_path / "tiered", unofficial=True)
    assert prepared(tmp_path / "meta") == {"train/0/0.png", "test/6/6.png"}
    assert prepared(tmp_path / "tiered") == {"train/6/6.png", "test/0/0.png"}
    assert (tmp_path / "meta/test/6/6.png").read_bytes() == files["inat2017_84x84/6/6.png"]


# mini-ImageNet


def test_mini_imagenet_is_split_by_the_class_in_the_name(tmp_path: Path) -> None:
    names = {"train": "n0153282900000005.jpg", "val": "n0185567200000001.jpg", "test": "n0193011200000009.jpg"}
    files = {f"images/{name}": picture(n) for n, name in enumerate(names.values())}
    files |= {"images/n0000000100000010.jpg": b"another class", "train.csv": b"filename,label"}
    source = zip_of(tmp_path / "mini-imagenet.zip", files)
    for given, out in ((source, "out"), (tmp_path, "out2")):
        prepare("mini-imagenet", [given], tmp_path / out, unofficial=True)
        assert prepared(tmp_path / out) == {f"{part}/{name[:9]}/{name}" for part, name in names.items()}
    with pytest.raises(FrnError, match="1 classes and 1 images in train, but mini-imagenet has 64 classes and 38,400"):
        prepare("mini-imagenet", [source], tmp_path / "other")
    with pytest.raises(FrnError, match="has none of mini-ImageNet's images"):
        prepare("mini-imagenet", [zip_of(tmp_path / "x.zip", {"x.jpg": picture(1)})], tmp_path / "other")


def test_the_packaged_splits_are_the_published_ones() -> None:
    shared = Path(os.environ.get("FRN_SHARED", "../shared")) / "facts" / "splits.toml"
    if not shared.is_file():
        pytest.skip(f"no list of splits at {shared} (set FRN_SHARED)")
    facts = tomllib.loads(shared.read_text(encoding="utf-8"))
    for name in ("mini_imagenet", "cifar_fs"):
        parts = ("train", "val", "test")
        assert read_split(name) == {label: part for part in parts for label in facts[name][part]}


# tiered-ImageNet


def test_tiered_imagenet_follows_the_authors_archive(tmp_path: Path) -> None:
    files = {f"tiered-ImageNet/{part}/0_{n}/{n}.png": picture(n) for n, part in enumerate(("train", "val", "test"))}
    source = tar_of(tmp_path / "tiered.tar", files)
    prepare("tiered-imagenet", [source], tmp_path / "out", unofficial=True)
    assert prepared(tmp_path / "out") == {name.removeprefix("tiered-ImageNet/") for name in files}
    with pytest.raises(FrnError, match="has no train/ and test/ folders of classes in tiered-ImageNet/"):
        prepare("tiered-imagenet", [zip_of(tmp_path / "x.zip", {"x.png": b"x"})], tmp_path / "other")


def test_tiered_imagenet_224_follows_the_deepemd_layout(tmp_path: Path) -> None:
    files = {f"tiered_imagenet/{part}/n0{n}/{n}.jpg": picture(n) for n, part in enumerate(("train", "val", "test"))}
    source = tar_of(tmp_path / "deepemd.tar", files)
    prepare("tiered-imagenet-224", [source], tmp_path / "out", unofficial=True)
    assert prepared(tmp_path / "out") == {name.removeprefix("tiered_imagenet/") for name in files}
    with pytest.raises(FrnError, match="1 classes and 1 images in train, but tiered-imagenet-224 has 351 classes"):
        prepare("tiered-imagenet-224", [source], tmp_path / "other")


def test_message_about_a_wrong_checksum_shows_both_checksums(birds: Path, tmp_path: Path) -> None:
    with pytest.raises(
        FrnError, match=r"MD5 checksum is [0-9a-f]{32}, but the released CUB_200_2011\.tgz has 97eceeb196"
    ):
        prepare("cub-raw", [birds.parent], tmp_path / "out")
    (tmp_path / "CUB_200_2011.tgz").write_text("<!DOCTYPE html><title>Sign in</title>")
    for unofficial in (False, True):
        with pytest.raises(FrnError, match="it is a web page"):
            prepare("cub-raw", [tmp_path / "CUB_200_2011.tgz"], tmp_path / "out", unofficial=unofficial)


def test_truncated_archive_is_refused(birds: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.tgz"
    torn.write_bytes(birds.read_bytes()[: birds.stat().st_size // 2])
    with pytest.raises(FrnError, match=r"torn\.tgz: is not a complete archive"):
        prepare("cub-raw", [torn], tmp_path / "out", unofficial=True)


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/evil.png", "C:\\evil.png", "..\\evil.png"])
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_archive_entries_outside_the_folder_are_refused(
    tmp_path: Path, pack: Callable[[Path, Files], Path], name: str
) -> None:
    files = {"train/a/1.png": picture(1, kind="PNG"), f"train/{name}" if name[0] == "." else name: b"x"}
    suffix = ".tar" if pack is tar_of else ".zip"
    source = pack(tmp_path / f"birds{suffix}", files)
    with pytest.raises(FrnError, match="points outside the archive"):
        prepare("folder", [source], tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} <= {source.name, "cache"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../etc/passwd"])
def test_archive_links_outside_the_folder_are_refused(tmp_path: Path, target: str) -> None:
    source = tar_of(tmp_path / "birds.tar", {"train/a/1.png": picture(1, kind="PNG"), "train/a/2.png": target})
    with pytest.raises(FrnError, match="points outside the archive"):
        prepare("folder", [source], tmp_path / "out")


def test_archives_beyond_the_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = zip_of(tmp_path / "birds.zip", {f"train/a/{i}.png": picture(i, kind="PNG") for i in range(4)})
    for name, limit in (("MAX_ENTRIES", 3), ("MAX_ENTRY", 100), ("MAX_ARCHIVE", 3000)):
        with monkeypatch.context() as patch:
            patch.setattr(archives, name, limit)
            with pytest.raises(FrnError, match="unpacks to more than an image data set needs"):
                prepare("folder", [source], tmp_path / "out")
    with sources.Sources([source]) as opened, pytest.raises(FrnError, match=r"0\.png: is larger than 0 MiB, the limit"):
        opened.files()[0].read(limit=100)


def test_impossible_file_sizes_are_refused(tmp_path: Path) -> None:
    """A negative size would make the listing loop forever; the others are far beyond the file."""
    good = tar_of(tmp_path / "good.tar", {"train/a/1.png": picture(1, kind="PNG")}).read_bytes()
    for number, size in enumerate([(-512).to_bytes(12, signed=True), b"\x80" + b"\xff" * 11, b"77777777777\0"]):
        for kind in b"0xL":
            bad = bytearray(good)
            bad[124:136], bad[156] = size, kind
            bad[148:156] = b" " * 8
            bad[148:156] = b"%06o\0 " % sum(bad[:512])
            source = tmp_path / f"{number}{kind}.tar"
            source.write_bytes(bad)
            with pytest.raises(
                FrnError, match=r"is not a complete archive|no files|no images|unpacks to more"
            ) as caught:
                prepare("folder", [source], tmp_path / "out")
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_archive_that_contains_only_names_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    names = [f"train/a/{number}.png" for number in range(2000)]
    source = tmp_path / f"names{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(source, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
    else:
        tar_of(source, dict.fromkeys(names, b""))
    for limit in ("MAX_DIRECTORY", "FREE_ENTRIES"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archives, limit, 1000)
            if suffix == ".zip" or limit == "FREE_ENTRIES":
                with pytest.raises(FrnError, match=r"is almost only file names|unpacks to more"):
                    prepare("folder", [source], tmp_path / "out")


def test_a_tar_that_unpacks_to_many_times_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tar_of(tmp_path / "zeros.tar.gz", {"train/a/1.png": bytes(4 << 20)})
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    with pytest.raises(FrnError, match="unpacks to more than an image data set needs"):
        prepare("folder", [source], tmp_path / "out")


def test_a_data_set_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    source = unpacked(tmp_path / "photos", {"train/jay/a.jpg": picture(1), "train/jay/b.jpg": picture(2)})
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare("folder", [source], out, progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    prepare("folder", [source], out)
    assert prepared(out) == {"train/jay/a.jpg", "train/jay/b.jpg"}
    with pytest.raises(FrnError, match="out: already exists"):
        prepare("folder", [source], out)


def interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt


def test_output_folder_inside_the_source_is_not_read_as_source(tmp_path: Path) -> None:
    home = unpacked(tmp_path / "data", cub_files(classes=8))
    for name in ("cub", "again"):
        counts = prepare("cub-raw", [home], home / name, unofficial=True)
        assert counts == {"train": (4, 4), "val": (2, 2), "test": (2, 2)}


# The command


def test_prepare_lists_every_benchmark_and_gives_one_line_errors(birds: Path, tmp_path: Path) -> None:
    shown = frn("data", "prepare", "--help", env={"COLUMNS": "300"})
    words = set(shown.stdout.replace(",", " ").split())
    assert {*BENCHMARKS, "folder", *BENCHMARKS["cub-raw"].splits} <= words
    place = ["--source", str(birds), "--out", str(tmp_path / "out")]
    done = frn("data", "prepare", "cub-raw", "--split", "all", "--unofficial", *place)
    assert (done.exit_code, done.stdout.split()[:5]) == (0, ["test", "40", "classes", "40", "images"])
    wrong = frn("data", "prepare", "cub", *place)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr == "error: unknown data set 'cub'. Did you mean 'cub-cropped' or 'cub-raw'?\n"
