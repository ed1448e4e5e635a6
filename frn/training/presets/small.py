"""The paper's recipe on real photos, at a budget of an hour on one core: Conv-4 at 84 x 84 pixels, r = 25.

Every run sees 420,000 images, a tenth of what the paper's Conv-4 sees on CUB, in episodes of a third of the queries:
twice as many steps for the same work.
"""

from dataclasses import replace

from frn.episodes import EpisodeShape
from frn.training.presets.fine_grained import SHORT, cub_cropped
from frn.training.presets.paper import AS_IS
from frn.training.presets.preset import Preset, TrainingData, ValidationProtocol


def cub_small() -> Preset:
    """CUB cropped to its birds, by the paper's class split; photos of 128 pixels, 20 to 60 of a class."""
    return replace(
        cub_cropped("conv4"),
        about="CUB cropped, reduced to 128 pixels, FRN: an hour on one core",
        data=TrainingData(prepare="folder", name="cub", max_side=128),
        episode=EpisodeShape(way=20, shot=5, queries=5),
        schedule=SHORT.scaled_to(100),
    )


def cub_small_average() -> Preset:
    """As many images in a classical pre-training, which SimpleShot takes."""
    return replace(
        cub_small(),
        about="CUB cropped, reduced to 128 pixels, classical pre-training on average-pooled maps: an hour on one core",
        method="proto",
        objective="average-pretrain",
        aux="off",
        schedule=SHORT.scaled_to(94),
        validation=ValidationProtocol(every=20, shot=1),
    )


def mini_imagenet_small() -> Preset:
    """All of mini-ImageNet, as 84 x 84 images; the paper has no Conv-4 on it."""
    return replace(
        cub_small(),
        about="mini-ImageNet as 84 x 84 images, FRN on Conv-4: an hour on one core",
        data=TrainingData(prepare="folder", name="mini-imagenet", max_side=84),
        schedule=SHORT.scaled_to(11),
        transform=AS_IS,
        validation=ValidationProtocol(every=2),
    )


SMALL: dict[str, Preset] = {
    "cub-small-conv4": cub_small(),
    "cub-small-conv4-average": cub_small_average(),
    "mini-imagenet-small-conv4": mini_imagenet_small(),
}
