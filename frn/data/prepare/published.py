"""Published benchmarks: each plan assigns the images of a release to splits and classes.

CUB-200-2011 (Wah et al., 2011) and FGVC-Aircraft 2013b (Maji et al., 2013) are split by the number of the class. CUB's
split `tang` is the paper's (even numbers train). `chen` is that of "A Closer Look at Few-shot Classification": the same
rule counted from 0, so the two share no training class. `all` tests on every class, for models trained elsewhere. The
official split by image is not used. An aircraft's class is its line in variants.txt, counted from 0, as in the authors'
code, since names contain slashes; cropping also removes the copyright strip.

mini-ImageNet (Vinyals et al., 2016) has Ravi and Larochelle's split; CIFAR-FS (Bertinetto et al., ICLR 2019) splits
CIFAR-100 by class. meta-iNat and tiered meta-iNat (Wertheimer and Hariharan, CVPR 2019) have the classes of iNaturalist
2017 with 50 to 1000 boxed images, at 84 x 84 pixels and without a validation split. tiered-ImageNet (Ren et al., ICLR
2018) has 608 ImageNet classes in 34 groups, and no group is in two splits: `tiered-imagenet` at 84 x 84 pixels,
`tiered-imagenet-224` as DeepEMD released it.
"""

import io
import re
import tomllib
from functools import partial
from importlib.resources import files as package_files
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from frn.data.folders import SPLITS
from frn.data.prepare.benchmark import Benchmark, Box, Counts, Item, Plan
from frn.data.prepare.sources import SourceFile, Sources
from frn.data.prepare.writer import encode_png
from frn.errors import FrnError

CUB_IMAGES = 11_788
CUB_COUNTS: Counts = {"train": (100, None), "val": (50, None), "test": (50, None), "all": (200, CUB_IMAGES)}
CUB_RAW, CUB_CROPPED = "CUB_fewshot_raw", "CUB_fewshot_cropped"
AIRCRAFT = "Aircraft_fewshot"
AIRCRAFT_COUNTS: Counts = {"train": (50, 5000), "val": (25, 2500), "test": (25, 2500)}
AIRCRAFT_LISTS = ("images_variant_trainval.txt", "images_variant_test.txt")
MINI_COUNTS: Counts = {"train": (64, 38_400), "val": (16, 9_600), "test": (20, 12_000)}
MINI_NAME = re.compile(r"(n\d{8})\d{8}\.jpe?g", re.IGNORECASE)
"""Pattern of mini-ImageNet's names: n0153282900000005.jpg is an image of ImageNet's class n01532829."""


def plan_birds(sources: Sources, split: str, *, cropped: bool) -> Plan:
    """Assign birds to splits, from `CUB_200_2011.tgz` or its folder, or the authors' `CUB_fewshot_*.tar`."""
    official: Counts = {"test": (200, CUB_IMAGES)} if split == "all" else CUB_COUNTS
    released = sources.files()
    ready = ready_made(released, CUB_CROPPED if cropped else CUB_RAW)
    if ready:
        return Plan([_bird(split, item.label, item.file, item.source) for item in ready], official)
    files = below(released, "images.txt")
    if not files:
        raise FrnError(f"{sources}: has neither CUB's images.txt nor train/ and test/ folders of classes")
    paths = dict(line.split(maxsplit=1) for line in lines(files["images.txt"]))
    boxes: dict[str, Box] = {}
    if cropped:
        if "bounding_boxes.txt" not in files:
            raise FrnError(f"{sources}: has no bounding_boxes.txt. `frn data prepare cub-raw` does not need them.")
        sizes = read_boxes(files["bounding_boxes.txt"], "id x y width height")
        boxes = {number: (x, y, x + width, y + height) for number, (x, y, width, height) in sizes.items()}
    annotated = boxes.keys() if cropped else paths.keys()
    missing = [path for number, path in paths.items() if f"images/{path}" not in files or number not in annotated]
    if missing:
        raise FrnError(
            f"{sources}: {len(missing)} of the {len(paths)} images in images.txt are missing or have no box "
            f"({missing[0]}, ...)"
        )
    items = []
    for number, path in paths.items():
        file = files[f"images/{path}"]
        name = f"{PurePosixPath(path).stem}.png" if cropped else file.parts[-1]
        items.append(_bird(split, file.parts[-2], name, file, boxes.get(number)))
    return Plan(items, official)


def _bird(split: str, label: str, name: str, file: SourceFile, box: Box | None = None) -> Item:
    number = label.partition(".")[0]
    if not number.isdecimal():
        raise FrnError(f"{file.where}: CUB's class folders start with a number, such as 001.Black_footed_Albatross")
    index = int(number) - (split == "chen")
    return Item("test" if split == "all" else interleaved(index), label, name, file, box)


def plan_aircraft(sources: Sources, split: str) -> Plan:
    """Assign aircraft to splits, from `fgvc-aircraft-2013b.tar.gz` or its folder, or `Aircraft_fewshot.tar`."""
    released = sources.files()
    ready = ready_made(released, AIRCRAFT)
    if ready:
        return Plan(ready, AIRCRAFT_COUNTS)
    files = below(released, "variants.txt")
    absent = [name for name in ("variants.txt", "images_box.txt", *AIRCRAFT_LISTS) if name not in files]
    if absent:
        raise FrnError(f"{sources}: has no {' or '.join(absent)}, which FGVC-Aircraft keeps in data/")
    number_of = {name: number for number, name in enumerate(lines(files["variants.txt"]))}
    boxes = read_boxes(files["images_box.txt"], "id xmin ymin xmax ymax")
    pairs = [(line[:7], line[8:].strip()) for name in AIRCRAFT_LISTS for line in lines(files[name])]
    known = boxes.keys() & {
        image for image, variant in pairs if variant in number_of and f"images/{image}.jpg" in files
    }
    if wrong := [image for image, _ in pairs if image not in known]:
        raise FrnError(f"{sources}: {len(wrong)} images are missing, or have no known variant or box ({wrong[0]}, ...)")
    items = []
    for image, variant in pairs:
        number, file = number_of[variant], files[f"images/{image}.jpg"]
        items.append(Item(interleaved(number), str(number), f"{image}.png", file, boxes[image]))
    return Plan(items, AIRCRAFT_COUNTS)


def plan_mini_imagenet(sources: Sources, split: str) -> Plan:
    """Assign images to splits, from `images.zip` or its folder, or from the authors' `mini-ImageNet.tar`."""
    released, split_of = sources.files(), read_split("mini_imagenet")
    ready = ready_made(released, "mini-ImageNet")
    if ready and {item.label for item in ready} <= split_of.keys():
        return Plan(ready, MINI_COUNTS)
    named = {file.parts[-1]: file for file in reversed(released)}
    items = [
        Item(split_of[match[1]], match[1], name, file)
        for name, file in named.items()
        if (match := MINI_NAME.fullmatch(name)) and match[1] in split_of
    ]
    if not items:
        raise FrnError(f"{sources}: has none of mini-ImageNet's images, such as images/n0153282900000005.jpg")
    return Plan(items, MINI_COUNTS)


def plan_cifar(sources: Sources, split: str) -> Plan:
    """Assign CIFAR-100 images to splits by their class, from `cifar-100-binary.tar.gz` or its unpacked contents."""
    split_of, counts = read_split("cifar_fs"), dict[str, int]()
    files = below(sources.files(), "train.bin")
    items = []
    try:
        names = files["fine_label_names.txt"].read().decode().split()
        raw = np.frombuffer(files["train.bin"].read() + files["test.bin"].read(), dtype=np.uint8).reshape(-1, 2 + 3072)
        for image, index in zip(raw[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 1], strict=True):
            label = names[index]
            number = counts[label] = counts.get(label, 0) + 1
            file = f"{number - 1:03d}.png"
            picture = SourceFile((label, file), -1, partial(_png, image), f"{sources}: {label} {number}")
            items.append(Item(split_of[label], label, file, picture))
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, FrnError):
            raise
        raise FrnError(f"{sources}: is not cifar-100-binary.tar.gz, or is damaged ({error})") from error
    classes = {part: list(split_of.values()).count(part) for part in SPLITS}
    return Plan(items, {part: (number, 600 * number) for part, number in classes.items()})


def _png(image: np.ndarray[Any, np.dtype[np.uint8]]) -> io.BytesIO:
    return io.BytesIO(encode_png(Image.fromarray(image)))


def _folders(*folders: str, archives: dict[str, str], official: Counts) -> Benchmark:
    """Use the class folders of one of the authors' archives unchanged."""

    def plan(sources: Sources, split: str) -> Plan:
        if ready := ready_made(sources.files(), *folders):
            return Plan(ready, official)
        raise FrnError(f"{sources}: has no train/ and test/ folders of classes in {' or '.join(folders)}/")

    return Benchmark(plan=plan, checksums=archives)


def interleaved(index: int) -> str:
    """Return the split of a class by its number: train if even, alternately validation and test if odd."""
    return "train" if index % 2 == 0 else "val" if index % 4 == 1 else "test"


def read_split(name: str) -> dict[str, str]:
    """Return the split of each class in `splits/NAME.toml`."""
    labels = tomllib.loads((package_files("frn.data") / "splits" / f"{name}.toml").read_text(encoding="utf-8"))
    return {label: part for part in SPLITS for label in labels[part]}


def below(released: list[SourceFile], marker: str) -> dict[str, SourceFile]:
    """Return files by their path relative to the folder of the file `marker`; nothing without such a file.

    If there are several such folders, the first is used: loose files come before archives.
    """
    home = next((file.parts[:-1] for file in released if file.parts[-1] == marker), None)
    if home is None:
        return {}
    first: dict[str, SourceFile] = {}
    for file in released:
        if file.parts[: len(home)] == home:
            first.setdefault("/".join(file.parts[len(home) :]), file)
    return first


def lines(file: SourceFile) -> list[str]:
    """Return the non-empty lines of a text file, stripped."""
    return [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


def read_boxes(file: SourceFile, form: str) -> dict[str, Box]:
    """Return four numbers per image, by its name. Raises FrnError if a line has a different format."""
    boxes = {}
    for line in lines(file):
        try:
            name, left, upper, right, lower = line.split()
            boxes[name] = (float(left), float(upper), float(right), float(lower))
        except ValueError as error:
            raise FrnError(f"{file.where}: {line!r} is not a box ({form})") from error
    return boxes


def ready_made(released: list[SourceFile], *names: str) -> list[Item]:
    """Return the items of the authors' folder with one of the names, laid out as train/ and test/ of class folders.

    Its `val_pre`, `test_pre`, `refr` and `query` are skipped: the evaluation transform resizes, and the paper does not
    use the others. The first folder that has both train/ and test/ is used.
    """
    homes: dict[tuple[str, ...], dict[tuple[str, ...], Item]] = {}
    for file in released:
        if len(file.parts) > 3 and file.parts[-4] in names and file.parts[-3] in SPLITS:
            split, label, name = file.parts[-3:]
            homes.setdefault(file.parts[:-3], {}).setdefault(file.parts[-3:], Item(split, label, name, file))
    items = (list(files.values()) for files in homes.values())
    return next((files for files in items if {"train", "test"} <= {item.split for item in files}), [])


CUB = {"CUB_200_2011.tgz": "97eceeb196236b17998738112f37df78"}
META_INAT = {"meta_inat.tar": "335e4818995a615b0b5b7b2fc7665e24"}
BENCHMARKS: dict[str, Benchmark] = {
    "cub-cropped": Benchmark(
        plan=partial(plan_birds, cropped=True),
        splits=("tang", "chen", "all"),
        checksums=CUB | {f"{CUB_CROPPED}.tar": "3f74dd5afdf8b38559bf1c303a16075f"},
    ),
    "cub-raw": Benchmark(
        plan=partial(plan_birds, cropped=False),
        splits=("tang", "chen", "all"),
        checksums=CUB | {f"{CUB_RAW}.tar": "914db78ae781778d04d321ad9e9c19da"},
    ),
    "aircraft": Benchmark(
        plan=plan_aircraft,
        checksums={
            "fgvc-aircraft-2013b.tar.gz": "d4acdd33327262359767eeaa97a4f732",
            f"{AIRCRAFT}.tar": "f6646b79d6223af5de175c4849eecf25",
        },
    ),
    "mini-imagenet": Benchmark(
        plan=plan_mini_imagenet,
        checksums={
            "images.zip": "987d2dfede486f633ec052ff463b62c6",
            "mini-ImageNet.tar": "13fda464dcd4d283e953bfb6633176b8",
        },
        archives=r"mini-?imagenet\.(zip|tar|tar\.gz|tgz)",
    ),
    "meta-inat": _folders(
        "meta_iNat", archives=META_INAT, official={"train": (908, None), "test": (227, None), "all": (1135, 243_986)}
    ),
    "tiered-meta-inat": _folders(
        "tiered_meta_iNat",
        archives=META_INAT,
        official={"train": (781, None), "test": (354, None), "all": (1135, 243_986)},
    ),
    "tiered-imagenet": _folders(
        "tiered-ImageNet",
        archives={"tiered-ImageNet.tar": "d127a0635b02446c120f2bd6036832c7"},
        official={"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)},
    ),
    "tiered-imagenet-224": _folders(
        "tiered_imagenet",
        "tiered-ImageNet_DeepEMD",
        archives={
            "tiered_imagenet.tar": "7828a6dc2889e226ba575d2ba9624753",
            "tiered-ImageNet_DeepEMD.tar": "1527ba3454a8d28b5ded2fe6df12e82c",
        },
        official={"train": (351, None), "val": (97, None), "test": (160, None)},
    ),
    "cifar-fs": Benchmark(plan=plan_cifar, checksums={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}),
}
