"""FGVC-Aircraft 2013b (Maji et al., 2013): 100 variants with 100 images each, cropped to their boxes.

A class is named by its line in variants.txt, counted from 0, as in the authors' code, since variant names contain
slashes. Cropping also removes the copyright strip. The split follows from that number; the paper calls it random.
"""

from frn.data.prepare.benchmark import Benchmark, Counts, Item, Plan, below, interleaved, lines, read_boxes, ready_made
from frn.data.prepare.sources import Sources
from frn.errors import FrnError

OFFICIAL: Counts = {"train": (50, 5000), "val": (25, 2500), "test": (25, 2500)}
LISTS = ("images_variant_trainval.txt", "images_variant_test.txt")
FOLDER = "Aircraft_fewshot"


def plan(sources: Sources, split: str) -> Plan:
    """Assign aircraft to splits, from `fgvc-aircraft-2013b.tar.gz` or its folder, or `Aircraft_fewshot.tar`."""
    found = sources.files()
    ready = ready_made(found, FOLDER)
    if ready:
        return Plan(ready, OFFICIAL)
    files = below(found, "variants.txt")
    absent = [name for name in ("variants.txt", "images_box.txt", *LISTS) if name not in files]
    if absent:
        raise FrnError(f"{sources}: has no {' or '.join(absent)}, which FGVC-Aircraft keeps in data/")
    number_of = {name: number for number, name in enumerate(lines(files["variants.txt"]))}
    boxes = read_boxes(files["images_box.txt"], "id xmin ymin xmax ymax")
    pairs = [(line[:7], line[8:].strip()) for name in LISTS for line in lines(files[name])]
    known = boxes.keys() & {
        image for image, variant in pairs if variant in number_of and f"images/{image}.jpg" in files
    }
    if wrong := [image for image, _ in pairs if image not in known]:
        raise FrnError(f"{sources}: {len(wrong)} images are missing, or have no known variant or box ({wrong[0]}, ...)")
    items = []
    for image, variant in pairs:
        number, file = number_of[variant], files[f"images/{image}.jpg"]
        items.append(Item(interleaved(number), str(number), f"{image}.png", file, boxes[image]))
    return Plan(items, OFFICIAL)


AIRCRAFT = Benchmark(
    plan=plan,
    checksums={
        "fgvc-aircraft-2013b.tar.gz": "d4acdd33327262359767eeaa97a4f732",
        f"{FOLDER}.tar": "f6646b79d6223af5de175c4849eecf25",
    },
    url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
    mebibytes=2625,
)
