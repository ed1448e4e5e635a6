"""tiered-ImageNet (Ren et al., ICLR 2018): 608 ImageNet classes in 34 groups; no group is in two splits.

`tiered-imagenet` has images of 84 x 84 pixels, `tiered-imagenet-224` is DeepEMD's release of larger ones.
"""

from functools import partial

from frn.data.prepare.benchmark import Benchmark, Counts, Plan, ready_made
from frn.data.prepare.sources import Sources
from frn.errors import FrnError

OFFICIAL: Counts = {"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)}
DEEPEMD: Counts = {part: (classes, None) for part, (classes, _) in OFFICIAL.items()}
"""DeepEMD's release has the same classes, but its number of images was not published."""


def plan(sources: Sources, split: str, *, folders: tuple[str, ...], official: Counts) -> Plan:
    """Use the class folders of an archive unchanged."""
    ready = ready_made(sources.files(), *folders)
    if not ready:
        raise FrnError(f"{sources}: has no train/, val/ and test/ folders of classes, as in {folders[-1]}.tar")
    return Plan(ready, official)


TIERED_IMAGENET = Benchmark(
    plan=partial(plan, folders=("tiered-ImageNet",), official=OFFICIAL),
    checksums={"tiered-ImageNet.tar": "d127a0635b02446c120f2bd6036832c7"},
)
TIERED_IMAGENET_224 = Benchmark(
    plan=partial(plan, folders=("tiered_imagenet", "tiered-ImageNet_DeepEMD"), official=DEEPEMD),
    checksums={
        "tiered_imagenet.tar": "7828a6dc2889e226ba575d2ba9624753",
        "tiered-ImageNet_DeepEMD.tar": "1527ba3454a8d28b5ded2fe6df12e82c",
    },
)
