"""Benchmarks that are class folders in an archive, which are used unchanged.

meta-iNat and tiered meta-iNat (Wertheimer and Hariharan, CVPR 2019) have the classes of iNaturalist 2017 with 50 to
1000 boxed images, at 84 x 84 pixels and without a validation split. tiered-ImageNet (Ren et al., ICLR 2018) has 608
ImageNet classes in 34 groups, and no group is in two splits: `tiered-imagenet` at 84 x 84 pixels,
`tiered-imagenet-224` as DeepEMD released it.
"""

from functools import partial

from frn.data.prepare.benchmark import Benchmark, Counts, Plan, ready_made
from frn.data.prepare.sources import Sources
from frn.errors import FrnError

META_INAT_ARCHIVE = {"meta_inat.tar": "335e4818995a615b0b5b7b2fc7665e24"}


def plan(sources: Sources, split: str, *, folders: tuple[str, ...], official: Counts) -> Plan:
    """Use the class folders of an archive."""
    ready = ready_made(sources.files(), *folders)
    if not ready:
        raise FrnError(f"{sources}: has no train/ and test/ folders of classes in {' or '.join(folders)}/")
    return Plan(ready, official)


def benchmark(*folders: str, archives: dict[str, str], official: Counts) -> Benchmark:
    """Return a benchmark in one of the folders of archives with these MD5 checksums."""
    return Benchmark(plan=partial(plan, folders=folders, official=official), checksums=archives)


AUTHORS: dict[str, Benchmark] = {
    "meta-inat": benchmark(
        "meta_iNat",
        archives=META_INAT_ARCHIVE,
        official={"train": (908, None), "test": (227, None), "all": (1135, 243_986)},
    ),
    "tiered-meta-inat": benchmark(
        "tiered_meta_iNat",
        archives=META_INAT_ARCHIVE,
        official={"train": (781, None), "test": (354, None), "all": (1135, 243_986)},
    ),
    "tiered-imagenet": benchmark(
        "tiered-ImageNet",
        archives={"tiered-ImageNet.tar": "d127a0635b02446c120f2bd6036832c7"},
        official={"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)},
    ),
    "tiered-imagenet-224": benchmark(
        "tiered_imagenet",
        "tiered-ImageNet_DeepEMD",
        archives={
            "tiered_imagenet.tar": "7828a6dc2889e226ba575d2ba9624753",
            "tiered-ImageNet_DeepEMD.tar": "1527ba3454a8d28b5ded2fe6df12e82c",
        },
        official={"train": (351, None), "val": (97, None), "test": (160, None)},
    ),
}
