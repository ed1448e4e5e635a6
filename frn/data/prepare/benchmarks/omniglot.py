"""Omniglot (Lake et al., Science 2015): 20 drawings of each character; a class is one character of an alphabet.

Two protocols are in use, so state the protocol with every result. `lake` tests on the characters of images_evaluation
and validates on the last fifth of the background's alphabets. `vinyals` (Matching Networks) has 1028 / 172 / 423
characters; the rotations by 0, 90, 180 and 270 degrees are separate classes.
"""

import re
from functools import partial

from PIL import Image

from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, read_split
from frn.data.prepare.sources import Found, Sources
from frn.errors import FrnError

DRAWINGS = 20
LAKE: Counts = {"test": (659, 659 * DRAWINGS), "all": (1623, 1623 * DRAWINGS)}
VINYALS: Counts = {part: (4 * n, 4 * n * DRAWINGS) for part, n in (("train", 1028), ("val", 172), ("test", 423))}
TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


def plan(sources: Sources, split: str) -> Plan:
    """Assign characters to splits, from the official `images_*.zip` archives or their folders.

    For `lake` without `images_evaluation` (the small sets), the alphabets are split 3 : 1 : 1 in order of their names.
    """
    found = [image for image in sources.images() if len(image.parts) >= 3]
    is_test = {image.parts[-3]: any("evaluation" in part for part in image.parts[:-3]) for image in found}
    if split == "vinyals":
        return Plan(_turned(found), VINYALS)
    background = sorted(alphabet for alphabet, test in is_test.items() if not test)
    split_of = {alphabet: "test" for alphabet, test in is_test.items() if test}
    official = LAKE if split_of else {}
    fifth = max(1, len(background) // 5)
    held_out = ["val"] * fifth if split_of else ["val"] * fifth + ["test"] * fifth
    if len(background) <= len(held_out):
        raise FrnError(
            f"{sources}: only {len(background)} alphabets for training and validation (expected "
            "ALPHABET/characterNN/*.png, as in images_background.zip)"
        )
    training = len(background) - len(held_out)
    split_of |= dict(zip(background, ["train"] * training + held_out, strict=True))
    return Plan(
        [Item(split_of[image.parts[-3]], " ".join(image.parts[-3:-1]), image.parts[-1], image) for image in found],
        official,
    )


def _turned(found: list[Found]) -> list[Item]:
    facts = read_split("omniglot")
    items = []
    for image in found:
        alphabet, character, file = image.parts[-3:]
        number = re.search(r"\d+$", character)
        late = number is not None and int(number[0]) >= facts["test_from"].get(alphabet, 1000)
        part = "test" if alphabet in facts["test"] or late else "val" if alphabet in facts["val"] else "train"
        label = f"{alphabet} {character}"
        items.append(Item(part, label, file, image))
        for angle, turn in TURNS.items():
            turned = partial(Image.Image.transpose, method=turn)
            items.append(Item(part, f"{label} turned {angle}", file, image, turned))
    return items


OMNIGLOT = Benchmark(
    plan=plan,
    splits=("lake", "vinyals"),
    checksums={
        "images_background.zip": "68d2efa1b9178cc56df9314c21c6e718",
        "images_evaluation.zip": "6b91aef0f799c5bb55b94e3f2daec811",
    },
    archives=r".*\.zip",
    downloads="omniglot",
)
