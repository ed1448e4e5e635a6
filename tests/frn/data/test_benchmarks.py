"""Every benchmark, from miniature archives in the layout of the released ones."""

import base64
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from frn import archives
from frn.cli.main import app
from frn.data.prepare import BENCHMARKS, prepare, sources, writer
from frn.data.prepare.benchmark import read_split
from frn.data.prepare.download import Download
from frn.data.prepare.mini_imagenet import NAMED
from frn.data.prepare.pickles import load_arrays
from frn.errors import FrnError

Files = dict[str, bytes]


def picture(seed: int, *, size: tuple[int, int] = (24, 18), mode: str = "RGB", kind: str = "JPEG") -> bytes:
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def tar_of(path: Path, files: Mapping[str, bytes | str]) -> Path:
    """A tar, compressed as its name says; text is where a symbolic link leads."""
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def zip_of(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def unpacked(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def prepared(out: Path) -> set[str]:
    return {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file() and p.name != "prepared.json"}


def states(out: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in sorted(out.rglob("*"))}


def pixels(data: bytes | Path) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(data) if isinstance(data, bytes) else data))


# CUB

BOX = (3.0, 2.5, 10.6, 9.0)
"""x, y, width, height of every miniature bird: its sides round to 3, 2, 14 and 12 (13.6 and 11.5)."""


def cub_files(*, classes: int = 200) -> Files:
    """CUB's archive: annotations come after the images, and attributes.txt lies outside."""
    names = {n: f"{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.jpg" for n in range(1, classes + 1)}
    text = {
        "bounding_boxes.txt": "\n".join(f"{n} {' '.join(map(str, BOX))}" for n in names),
        "classes.txt": "\n".join(f"{n} {name.split('/')[0]}" for n, name in names.items()),
        "image_class_labels.txt": "\n".join(f"{n} {n}" for n in names),
        "images.txt": "\n".join(f"{n} {name}" for n, name in names.items()),
        "README": "x",
    }
    images = {f"images/{name}": picture(n, mode="L" if n == 2 else "RGB") for n, name in names.items()}
    whole = {f"CUB_200_2011/{name}": data for name, data in images.items()}
    whole |= {f"CUB_200_2011/{name}": content.encode() for name, content in text.items()}
    return {"attributes.txt": b"x", **whole, "CUB_200_2011/images/001.Bird_1/._Bird_1.jpg": b"apple double"}


@pytest.fixture(scope="module")
def cub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tar_of(tmp_path_factory.mktemp("cub") / "CUB_200_2011.tgz", cub_files())


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 40 classes, where all 200 would tell no more."""
    return tar_of(tmp_path_factory.mktemp("birds") / "CUB_200_2011.tgz", cub_files(classes=40))


def test_cub_is_cut_to_its_boxes(cub: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = prepare("cub-cropped", [cub], out, unofficial=True)
    assert counts == {"train": (100, 100), "val": (50, 50), "test": (50, 50)}
    split = {0: "train", 1: "val", 2: "train", 3: "test"}
    assert prepared(out) == {f"{split[n % 4]}/{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.png" for n in range(1, 201)}
    assert pixels(out / "train/002.Bird_2/Bird_2_9002.png").ndim == 2  # grey stays grey
    for n, part in ((1, "val"), (2, "train"), (3, "test")):
        whole = pixels(cub_files(classes=3)[f"CUB_200_2011/images/{n:03d}.Bird_{n}/Bird_{n}_{9000 + n}.jpg"])
        assert np.array_equal(pixels(out / part / f"{n:03d}.Bird_{n}" / f"Bird_{n}_{9000 + n}.png"), whole[2:12, 3:14])


def test_cub_raw_is_copied_and_splits_by_name(cub: Path, tmp_path: Path) -> None:
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


def test_a_folder_may_hold_the_archive_or_what_it_unpacks_to(birds: Path, tmp_path: Path) -> None:
    both = unpacked(tmp_path / "downloads", cub_files(classes=40))
    (both / birds.name).write_bytes(birds.read_bytes())
    (both / "other.zip").write_text("nothing of CUB's: not looked into")
    prepare("cub-raw", [birds], tmp_path / "a", unofficial=True)
    prepare("cub-raw", [both], tmp_path / "b", unofficial=True)
    prepare("cub-raw", [birds.parent], tmp_path / "c", unofficial=True)
    assert prepared(tmp_path / "a") == prepared(tmp_path / "b") == prepared(tmp_path / "c")


def test_the_authors_own_archive_is_taken_as_it_is(tmp_path: Path) -> None:
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


def test_what_cub_lacks_is_named(tmp_path: Path) -> None:
    files = cub_files(classes=3)
    del files["CUB_200_2011/images/002.Bird_2/Bird_2_9002.jpg"]
    with pytest.raises(FrnError, match=r"1 of the 3 images of images\.txt are missing \(002\.Bird_2/Bird_2_9002\.jpg"):
        prepare("cub-raw", [tar_of(tmp_path / "a.tgz", files)], tmp_path / "out", unofficial=True)
    few = tar_of(tmp_path / "b.tgz", cub_files(classes=8))
    with pytest.raises(FrnError, match="4 classes and 4 images in train, but cub-raw has 100 classes"):
        prepare("cub-raw", [few], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# FGVC-Aircraft


def aircraft_files(*, per_class: int = 2) -> Files:
    variants = [f"F/A-{n} Plane" for n in range(100)]
    images = {f"{n * per_class + i:07d}": n for n in range(100) for i in range(per_class)}
    lists = {"trainval": [], "test": []}  # type: dict[str, list[str]]
    for image, n in images.items():
        lists["test" if int(image) % 3 == 0 else "trainval"].append(f"{image} {variants[n]}")
    files = {f"images/{image}.jpg": picture(int(image)) for image in images}
    files |= {f"images_variant_{name}.txt": "\n".join(content).encode() for name, content in lists.items()}
    files["variants.txt"] = "\n".join(variants).encode()
    files["images_box.txt"] = "\n".join(f"{image} 1 2 20 15" for image in images).encode()
    return {f"fgvc-aircraft-2013b/data/{name}": content for name, content in files.items()}


def test_aircraft_are_called_by_their_line_and_cut(tmp_path: Path) -> None:
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

CATEGORIES = {0: ("Aves", 50), 1: ("Insecta", 51), 6: ("Mammalia", 50), 24: ("Arachnida", 49), 68: ("Aves", 1001)}
"""Super-category and boxed images of each: the last two have too few and too many. meta-iNat tests on 6, 24 and 68."""


def inat_files() -> tuple[bytes, Files]:
    images: list[dict[str, Any]] = []
    boxes: list[dict[str, int]] = []
    files: Files = {}
    for category, (group, count) in CATEGORIES.items():
        for i in range(count):
            key = 10_000 * category + i
            name = f"train_val_images/{group}/Species {category}/{key:06x}.jpg"
            images.append({"id": key, "file_name": name})
            boxes += [{"id": len(boxes) + b, "image_id": key, "category_id": category} for b in range(2)]
            if count in (50, 51):
                files[name] = picture(key % 7, size=(30, 20))
    groups = [{"id": category, "supercategory": group} for category, (group, _) in CATEGORIES.items()]
    return json.dumps({"images": images, "annotations": boxes, "categories": groups}).encode(), files


def test_inat_keeps_categories_of_50_to_1000_boxed_images_squashed(tmp_path: Path) -> None:
    annotations, files = inat_files()
    given = [
        zip_of(tmp_path / "boxes.zip", {"train_2017_bboxes.json": annotations}),
        tar_of(tmp_path / "images.tar.gz", files),
    ]
    out = tmp_path / "meta"
    assert prepare("meta-inat", given, out, unofficial=True) == {"train": (2, 101), "test": (1, 50)}
    assert {p.name for p in (out / "train").iterdir()} == {"0", "1"}
    squashed = Image.open(io.BytesIO(files["train_val_images/Mammalia/Species 6/00ea60.jpg"])).resize((84, 84), 2)
    assert np.array_equal(pixels(out / "test/6/00ea60.png"), np.asarray(squashed))
    unpacked(tmp_path / "inat2017", files | {"train_2017_bboxes.json": annotations})
    tiered = prepare("tiered-meta-inat", [tmp_path / "inat2017"], tmp_path / "tiered", unofficial=True)
    assert tiered == {"train": (2, 100), "test": (1, 51)}
    with pytest.raises(FrnError, match="151 of 151 images are missing"):
        prepare("meta-inat", given[:1], tmp_path / "none", unofficial=True)


def test_the_authors_inat_archive_is_links_to_images_that_both_share(tmp_path: Path) -> None:
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


def test_mini_imagenet_goes_by_its_lists(tmp_path: Path) -> None:
    names = {"train": "n0153282900000005.jpg", "val": "n0185567200000001.jpg", "test": "n0193011200000009.jpg"}
    files = {f"images/{name}": picture(n) for n, name in enumerate(names.values())}
    files["images/n0193011200000010.jpg"] = b"not in any list"
    given = [zip_of(tmp_path / "images of mini.zip", files)]
    for part, name in names.items():
        (tmp_path / f"{part}.csv").write_text(f"filename,label\n{name},{name[:9]}\n")
        given.append(tmp_path / f"{part}.csv")
    prepare("mini-imagenet", given, tmp_path / "out", unofficial=True)
    assert prepared(tmp_path / "out") == {f"{part}/{name[:9]}/{name}" for part, name in names.items()}
    with pytest.raises(FrnError, match="59999 of mini-ImageNet's 60000 images are missing"):
        prepare("mini-imagenet", given[:1], tmp_path / "out2", unofficial=True)
    (tmp_path / "val.csv").write_text("filename,label\n../../evil.jpg,..\n")
    with pytest.raises(FrnError, match="is no row of filename,label"):
        prepare("mini-imagenet", given, tmp_path / "out3", unofficial=True)


def imagenet_classes() -> dict[str, dict[int, bytes]]:
    """Three classes by the numbers in their files' names, which neither are dense nor sort as text."""
    return {label: {n: picture(n) for n in (1001, 9, 77, 10026)} for label in ("n01532829", "n01855672", "n01930112")}


@pytest.mark.parametrize("layout", ["class folders", "class tars", "one tar"])
def test_mini_imagenet_from_imagenet_goes_by_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """The classes' masks say ranks 2 and 4, numbers 77 and 10026."""
    labels = dict(zip(("train", "val", "test"), imagenet_classes(), strict=True))
    facts = {part: [label] for part, label in labels.items()}
    masks = dict.fromkeys(labels.values(), base64.b64encode(bytes([0b1010])).decode())
    monkeypatch.setattr("frn.data.prepare.mini_imagenet.read_split", lambda name: facts | {"images": masks})
    home = tmp_path / "train"
    home.mkdir()
    for label, files in imagenet_classes().items():
        named = {f"{label}_{n}.JPEG": data for n, data in files.items()}
        if layout == "class folders":
            unpacked(home / label, named)
        else:
            tar_of(home / f"{label}.tar", named)
    (home / "n02105855.tar").write_text("a class that is not asked for is not looked into")
    if layout == "one tar":
        parts = {path.name: path.read_bytes() for path in home.iterdir()}
        home = tar_of(tmp_path / "train.tar", parts)
    prepare("mini-imagenet", [home], tmp_path / "out", unofficial=True)
    wanted = {f"{part}/{label}/{label}{rank:08d}.jpg" for part, label in labels.items() for rank in (2, 4)}
    assert prepared(tmp_path / "out") == wanted
    file = tmp_path / "out/val/n01855672/n0185567200000002.jpg"
    assert file.read_bytes() == imagenet_classes()["n01855672"][77]


def test_mini_imagenets_packaged_facts_are_100_classes_of_600() -> None:
    facts = read_split("mini_imagenet")
    assert [len(facts[part]) for part in ("train", "val", "test")] == [64, 16, 20]
    assert set(facts["images"]) == {label for part in ("train", "val", "test") for label in facts[part]}
    assert {int.from_bytes(base64.b64decode(m), "big").bit_count() for m in facts["images"].values()} == {600}
    assert NAMED.fullmatch("n0153282900000005.jpg")


def test_the_packaged_splits_are_the_published_ones() -> None:
    shared = Path(os.environ.get("FRN_SHARED", "../shared")) / "facts" / "splits.toml"
    if not shared.is_file():
        pytest.skip(f"no list of splits at {shared} (set FRN_SHARED)")
    facts = tomllib.loads(shared.read_text(encoding="utf-8"))
    ours = {
        label: int.from_bytes(base64.b64decode(m), "big") for label, m in read_split("mini_imagenet")["images"].items()
    }
    assert ours == {label: int(mask, 16) for label, mask in facts["mini_imagenet"]["images"].items()}
    assert set(read_split("meta_inat")["test"]) == set(facts["meta_inat"]["test_category_ids"])
    fc100 = read_split("fc100")
    for part in ("train", "val", "test"):
        assert sorted(read_split("mini_imagenet")[part]) == sorted(facts["mini_imagenet"][part])
        assert sorted(read_split("cifar_fs")[part]) == sorted(facts["cifar_fs"][part])
        assert sorted(fc100[part]) == sorted(facts["fc100"][f"{part}_superclasses"])
        assert {len(labels) for labels in fc100[part].values()} == {5}
    every = {label for part in ("train", "val", "test") for labels in fc100[part].values() for label in labels}
    assert every == {label for part in ("train", "val", "test") for label in facts["cifar_fs"][part]}


# tiered-ImageNet


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("this must never run",))


def tiered_files(pictures: object = None, *, protocol: int = 2) -> Files:
    files = {}
    for start, part in ((0, "train"), (10, "val"), (20, "test")):
        encoded = [np.frombuffer(picture(start + i, size=(8, 8), kind="PNG"), np.uint8)[:, None] for i in range(3)]
        labels = {"label_general": np.array([start, start, start + 1]), "label_specific": [5, 6, 6]}
        files[f"tiered-imagenet/{part}_images_png.pkl"] = pickle.dumps(pictures or encoded, protocol)
        files[f"tiered-imagenet/{part}_labels.pkl"] = pickle.dumps(labels, protocol)
    return files


@pytest.mark.parametrize("protocol", [2, 5])
def test_tiered_imagenet_comes_out_of_its_pickles(tmp_path: Path, protocol: int) -> None:
    source = tar_of(tmp_path / "tiered.tar", tiered_files(protocol=protocol))
    counts = prepare("tiered-imagenet", [source], tmp_path / "out", unofficial=True)
    assert counts == {"train": (3, 3), "val": (3, 3), "test": (3, 3)}
    wanted = {"val/10_5/0.png", "val/10_6/1.png", "val/11_6/2.png"}
    assert {name for name in prepared(tmp_path / "out") if name.startswith("val")} == wanted
    assert np.array_equal(pixels(tmp_path / "out/val/11_6/2.png"), pixels(picture(12, size=(8, 8), kind="PNG")))


def test_a_pickle_that_asks_for_more_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tar_of(tmp_path / "tiered.tar", tiered_files([Hostile()]))
    with pytest.raises(
        FrnError, match=r"asks for (builtins|__builtin__)\.print, which an image archive has no use for"
    ):
        prepare("tiered-imagenet", [source], tmp_path / "out", unofficial=True)
    assert capsys.readouterr().out == ""
    assert prepared(tmp_path / "out") == set()


def test_tiered_imagenet_224_is_taken_as_deepemd_lays_it_out(tmp_path: Path) -> None:
    files = {f"tiered_imagenet/{part}/n0{n}/{n}.jpg": picture(n) for n, part in enumerate(("train", "val", "test"))}
    source = tar_of(tmp_path / "deepemd.tar", files)
    prepare("tiered-imagenet-224", [source], tmp_path / "out", unofficial=True)
    assert prepared(tmp_path / "out") == {name.removeprefix("tiered_imagenet/") for name in files}
    with pytest.raises(FrnError, match="1 classes and 1 images in train, but tiered-imagenet-224 has 351 classes"):
        prepare("tiered-imagenet-224", [source], tmp_path / "other")


# CIFAR-100 and Omniglot


def test_fc100_goes_by_super_class(tmp_path: Path) -> None:
    labels = [label for part in ("train", "val", "test") for label in read_split("cifar_fs")[part]]
    source = zip_of(tmp_path / "cifar.zip", {f"{label}/1.png": picture(1, kind="PNG") for label in labels})
    assert prepare("fc100", [source], tmp_path / "out", unofficial=True) == {
        "train": (60, 60),
        "val": (20, 20),
        "test": (20, 20),
    }
    assert (tmp_path / "out/test/baby/1.png").is_file()
    assert (tmp_path / "out/val/lion/1.png").is_file()


def test_vinyals_omniglot_turns_every_character_into_four_classes(tmp_path: Path) -> None:
    drawing = picture(3, size=(9, 9), mode="L", kind="PNG")
    background = {f"images_background/{a}/character01/0001_01.png": drawing for a in ("Greek", "Hebrew")}
    evaluation = {f"images_evaluation/Gurmukhi/character{c}/0001_01.png": drawing for c in (41, 42)}
    given = [zip_of(tmp_path / "b.zip", background), zip_of(tmp_path / "e.zip", evaluation)]
    out = tmp_path / "out"
    counts = prepare("omniglot", given, out, split="vinyals", unofficial=True)
    assert counts == {"train": (8, 8), "val": (4, 4), "test": (4, 4)}
    assert (out / "test/Gurmukhi character42/0001_01.png").read_bytes() == drawing
    assert (out / "train/Gurmukhi character41").is_dir()
    assert (out / "val/Hebrew character01").is_dir()
    for turns, angle in enumerate((90, 180, 270), start=1):
        turned = pixels(out / f"train/Greek character01 turned {angle}/0001_01.png")
        assert np.array_equal(turned, np.rot90(pixels(drawing), turns))


# Archives that are not what they should be


def test_a_wrong_checksum_names_both(birds: Path, tmp_path: Path) -> None:
    with pytest.raises(
        FrnError, match=r"MD5 checksum is [0-9a-f]{32}, but CUB_200_2011\.tgz as released has 97eceeb196"
    ):
        prepare("cub-raw", [birds.parent], tmp_path / "out")
    (tmp_path / "CUB_200_2011.tgz").write_text("<!DOCTYPE html><title>Sign in</title>")
    for unofficial in (False, True):
        with pytest.raises(FrnError, match="it is a web page"):
            prepare("cub-raw", [tmp_path / "CUB_200_2011.tgz"], tmp_path / "out", unofficial=unofficial)


def test_a_torn_archive_is_refused(birds: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.tgz"
    torn.write_bytes(birds.read_bytes()[: birds.stat().st_size // 2])
    with pytest.raises(FrnError, match=r"torn\.tgz: is not a whole archive"):
        prepare("cub-raw", [torn], tmp_path / "out", unofficial=True)


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/evil.png", "C:\\evil.png", "..\\evil.png"])
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_entries_that_lead_out_are_refused(tmp_path: Path, pack: Callable[[Path, Files], Path], name: str) -> None:
    files = {"train/a/1.png": picture(1, kind="PNG"), f"train/{name}" if name[0] == "." else name: b"x"}
    suffix = ".tar" if pack is tar_of else ".zip"
    source = pack(tmp_path / f"birds{suffix}", files)
    with pytest.raises(FrnError, match="leads out of the archive"):
        prepare("folder", [source], tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} <= {source.name, "cache"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../etc/passwd"])
def test_links_that_lead_out_are_refused(tmp_path: Path, target: str) -> None:
    source = tar_of(tmp_path / "birds.tar", {"train/a/1.png": picture(1, kind="PNG"), "train/a/2.png": target})
    with pytest.raises(FrnError, match="leads out of the archive"):
        prepare("folder", [source], tmp_path / "out")


def test_an_archive_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = zip_of(tmp_path / "birds.zip", {f"train/a/{i}.png": picture(i, kind="PNG") for i in range(4)})
    for name, limit in (("MAX_ENTRIES", 3), ("MAX_ENTRY", 100), ("MAX_ARCHIVE", 3000)):
        with monkeypatch.context() as patch:
            patch.setattr(archives, name, limit)
            with pytest.raises(FrnError, match="unpacks to more than an image data set would hold"):
                prepare("folder", [source], tmp_path / "out")
    with sources.Sources([source]) as opened, pytest.raises(FrnError, match=r"0\.png: has more than 0 MiB, the limit"):
        opened.files()[0].read(limit=100)


def test_sizes_that_no_file_has_are_refused(tmp_path: Path) -> None:
    """Negative, so that the listing would go back and never end; far beyond the file; a name of a gigabyte."""
    good = tar_of(tmp_path / "good.tar", {"train/a/1.png": picture(1, kind="PNG")}).read_bytes()
    for number, size in enumerate([(-512).to_bytes(12, signed=True), b"\x80" + b"\xff" * 11, b"77777777777\0"]):
        for kind in b"0xL":
            bad = bytearray(good)
            bad[124:136], bad[156] = size, kind
            bad[148:156] = b" " * 8
            bad[148:156] = b"%06o\0 " % sum(bad[:512])
            source = tmp_path / f"{number}{kind}.tar"
            source.write_bytes(bad)
            with pytest.raises(FrnError, match=r"is not a whole archive|no files|no images|unpacks to more") as caught:
                prepare("folder", [source], tmp_path / "out")
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_an_archive_of_nothing_but_names_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
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
                with pytest.raises(FrnError, match=r"is nearly all names|unpacks to more"):
                    prepare("folder", [source], tmp_path / "out")


def test_a_tar_may_not_unpack_to_many_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tar_of(tmp_path / "zeros.tar.gz", {"train/a/1.png": bytes(4 << 20)})
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    with pytest.raises(FrnError, match="unpacks to more than an image data set would hold"):
        prepare("folder", [source], tmp_path / "out")


# Interrupted, and again

KILLED = """
import os, signal, sys
from pathlib import Path
from frn.data.prepare import prepare, writer

replace, left = os.replace, [10]

def killing(*paths):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

writer.os.replace = killing
prepare("cub-cropped", [Path(sys.argv[1])], Path(sys.argv[2]), unofficial=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed_half_way_and_called_again_it_completes(birds: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(birds), str(out)], check=False)
    assert ended.returncode == -signal.SIGKILL
    before = states(out)
    kept = {name for name in prepared(out) if not Path(name).name.startswith(".")}
    assert 0 < len(kept) < 40
    next(path for path in out.rglob("*.png")).write_bytes(b"torn by a power cut")
    assert prepare("cub-cropped", [birds], out, unofficial=True) == prepare(
        "cub-cropped", [birds], whole, unofficial=True
    )
    assert prepared(out) == prepared(whole)
    assert all((out / name).read_bytes() == (whole / name).read_bytes() for name in prepared(whole))
    untouched = [path for path, state in states(out).items() if path.endswith(".png") and before.get(path) == state]
    assert len(untouched) == len(kept) - 1


def test_an_error_in_the_middle_leaves_only_whole_files(
    birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, left = tmp_path / "out", [25]
    write = writer._write

    def failing(item: Any, data: bytes, home: Path, upright: bool) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise FrnError("disk full")
        write(item, data, home, upright)

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_write", failing)
        with pytest.raises(FrnError, match="disk full"):
            prepare("cub-raw", [birds], out, unofficial=True)
    assert len(prepared(out)) == 25
    assert prepare("cub-raw", [birds], out, unofficial=True) == {"train": (20, 20), "val": (10, 10), "test": (10, 10)}
    assert len(prepared(out)) == 40


@pytest.mark.parametrize("name", ["cub-cropped", "cub-raw"])
def test_a_second_call_writes_nothing_and_does_not_look_into_the_archive(
    birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = tmp_path / "out"
    counts = prepare(name, [birds], out, unofficial=True)
    before = states(out)
    with monkeypatch.context() as patch:
        patch.setattr(sources.Sources, "files", lambda self: pytest.fail("looked into the archive"))
        assert prepare(name, [birds], out) == counts
    assert states(out) == before
    (out / "prepared.json").unlink()  # without it: looked through, and nothing but it written
    assert prepare(name, [birds], out, unofficial=True) == counts
    del before[str(out / "prepared.json")]
    assert before.items() <= states(out).items()


def test_a_file_that_went_missing_is_written_again(birds: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare("cub-raw", [birds], out, unofficial=True)
    gone = out / "val/001.Bird_1/Bird_1_9001.jpg"
    content = gone.read_bytes()
    gone.unlink()
    prepare("cub-raw", [birds], out, unofficial=True)
    assert gone.read_bytes() == content


def test_two_data_sets_do_not_mix(birds: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare("cub-raw", [birds], out, unofficial=True)
    for name, split, held in (("cub-cropped", "tang", "cub-raw split=tang"), ("cub-raw", "chen", "cub-raw split=tang")):
        with pytest.raises(FrnError, match=rf"already holds something else \({held}\)"):
            prepare(name, [birds], out, split=split, unofficial=True)
    (out / "test/003.Bird_3/mine.jpg").write_bytes(picture(1))
    with pytest.raises(FrnError, match=r"already holds something else \('mine\.jpg' in 003\.Bird_3\)"):
        prepare("cub-raw", [birds], out, unofficial=True)
    with pytest.raises(FrnError, match="both --source and --out"):
        prepare("cub-raw", [out], out, unofficial=True)


def test_a_data_set_inside_its_own_source_is_not_its_source(tmp_path: Path) -> None:
    home = unpacked(tmp_path / "data", cub_files(classes=8))
    for _ in range(2):
        counts = prepare("cub-raw", [home], home / "cub", unofficial=True)
        assert counts == {"train": (4, 4), "val": (2, 2), "test": (2, 2)}


# Downloads


def test_only_download_asks_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(url: str, root: Path, file: str, md5: str) -> None:
        asked.append((url, file, md5))
        root.mkdir(exist_ok=True)
        tar_of(root / file, aircraft_files(per_class=1))

    monkeypatch.setattr("torchvision.datasets.utils.download_url", fetch)
    home = tmp_path / "downloads"
    counts = prepare("aircraft", [home], tmp_path / "out", download=True, unofficial=True)
    assert counts == {"train": (50, 50), "val": (25, 25), "test": (25, 25)}
    [(url, file, md5)] = asked
    assert url.endswith("/fgvc-aircraft-2013b.tar.gz")
    assert BENCHMARKS["aircraft"].checksums[file] == md5
    with pytest.raises(
        FrnError, match=r"torchvision cannot fetch cub-raw \(it can: aircraft, cifar-fs, fc100, omniglot\)"
    ):
        prepare("cub-raw", [home], tmp_path / "cub", download=True)
    with pytest.raises(FrnError, match="give that folder as the only --source"):
        prepare("omniglot", [home / file], tmp_path / "omniglot", download=True)
    assert len(asked) == 1


def test_a_failed_download_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("File not found or corrupted.")

    monkeypatch.setattr("torchvision.datasets.utils.download_url", fail)
    with pytest.raises(FrnError, match=r"cannot be fetched \(File not found or corrupted\.\)"):
        prepare("cifar-fs", [tmp_path], tmp_path / "out", download=True)


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.downloads])
def test_torchvision_has_the_archives_that_we_know(name: str) -> None:
    benchmark = BENCHMARKS[name]
    assert benchmark.downloads is not None
    for download in benchmark.downloads():
        assert isinstance(download, Download)
        assert benchmark.checksums[download.file] == download.md5
        assert download.url.startswith("https://")


# The command


def test_the_command_names_every_benchmark_and_tells_errors_in_one_line(birds: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["data", "prepare", "--help"], env={"COLUMNS": "300"})
    words = set(shown.stdout.replace(",", " ").split())
    assert {*BENCHMARKS, "folder", *BENCHMARKS["cub-raw"].splits, *BENCHMARKS["omniglot"].splits} <= words
    place = ["--source", str(birds), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["data", "prepare", "cub-raw", "--split", "all", "--unofficial", *place])
    assert (done.exit_code, done.stdout.split()[:5]) == (0, ["test", "40", "classes", "40", "images"])
    wrong = CliRunner().invoke(app, ["data", "prepare", "cub", *place])
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr == "error: unknown data set 'cub'. Did you mean 'cub-cropped' or 'cub-raw'?\n"


def test_a_pickle_is_not_given_the_room_that_it_asks_for() -> None:
    """It says that it will remember two thousand million objects: 16 GiB in C."""
    assert load_arrays(io.BytesIO(b"\x80\x02]r\xff\xff\xff\x7f."), "x.pkl") == []
    with pytest.raises(FrnError, match=r"^x\.pkl: is not the released file, or is damaged"):
        load_arrays(io.BytesIO(b"\x80\x02]h\x07."), "x.pkl")
