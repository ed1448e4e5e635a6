"""Runs of our own: the demo, CIFAR-FS and Omniglot at their own sizes, and recipes of small shipped models."""

from dataclasses import replace

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.images.transforms import EvaluationTransform
from frn.training.presets.preset import Preset, Pretraining, Schedule, TrainingData, ValidationProtocol

RELATIVES = ("n01944390", "n03179701", "n03902125", "n04008634")
"""Classes of Tiny-ImageNet with a relative among the test classes of CIFAR-FS: snail, desk, pay-phone, missile."""
SHIPPED = TrainingData(prepare="folder", max_side=32, exclude_classes=RELATIVES)
"""Training data of the shipped models: --data cifar-fs --data tiny-imagenet."""


def demo() -> Preset:
    """Small enough to try: half a minute on two cores."""
    return Preset(
        about="rendered moths, no data needed; half a minute on two cores",
        data=TrainingData(prepare=None, max_side=32),
        last_pool=False,
        episode=EpisodeShape(way=10, shot=5, queries=5),
        schedule=Schedule(epochs=30, milestones=(20, 26)),
        augmentation=Augmentation(size=32, crop="padded", padding=4),
        transform=EvaluationTransform(size=32),
        validation=ValidationProtocol(every=5, episodes=300),
    )


def cifar_fs_conv4() -> Preset:
    """The paper's Conv-4 recipe at CIFAR's own size, without the last pooling (r = 16 instead of 4)."""
    return Preset(
        about="CIFAR-FS at 32 x 32, r = 16; 50 minutes on two cores",
        data=TrainingData(prepare="cifar-fs", max_side=32),
        last_pool=False,
        episode=EpisodeShape(way=20, shot=5, queries=15),
        schedule=Schedule(epochs=150, milestones=(66, 87, 103, 115, 124, 131, 138, 145), lr_decay=0.5),
        augmentation=Augmentation(size=32, crop="padded", padding=4),
        transform=EvaluationTransform(size=32),
        validation=ValidationProtocol(every=15),
    )


def cifar_fs_conv4_short() -> Preset:
    """The budget of the tables that compare methods: a third of the queries, a sixth of the epochs."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS as above, short: what the method and ablation tables train; 13 minutes on one core",
        episode=EpisodeShape(way=20, shot=5, queries=5),
        schedule=cifar_fs_conv4().schedule.scaled_to(24),
        validation=ValidationProtocol(every=4),
    )


def cifar_fs_resnet12() -> Preset:
    """Half the way of Conv-4, as the paper does for memory; wants a GPU."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS at 32 x 32, r = 16; wants a GPU",
        backbone="resnet12",
        episode=EpisodeShape(way=10, shot=5, queries=15),
    )


def cifar_fs_conv4_pretrain() -> Preset:
    """FRN pre-training (Sec. 3.6): all training classes at once, each reconstructed from its dummy map.

    The paper pre-trains ResNet-12 only, whose maps are divided by sqrt(640). Those of Conv-4 are not, and at the full
    rate its temperature is negative after five steps and stays so: a class then claims what its map reconstructs worst.
    """
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS, FRN pre-training with dummy maps",
        objective="frn-pretrain",
        schedule=Schedule(epochs=60, milestones=(30, 42, 50, 56), lr_decay=0.3, warm_up=200),
        validation=ValidationProtocol(every=6, shot=1),
    )


def classical(preset: Preset, about: str) -> Preset:
    """As long a pre-training with a linear classifier on average-pooled maps, which needs no warm-up."""
    schedule = replace(preset.schedule, warm_up=0)
    return replace(preset, about=about, objective="average-pretrain", method="proto", schedule=schedule)


def cifar_fs_conv4_average() -> Preset:
    """The classical pre-training that the paper compares with: a linear classifier on average-pooled maps."""
    return classical(cifar_fs_conv4_pretrain(), "CIFAR-FS, classical pre-training on average-pooled maps")


def cifar_fs_conv4_finetune() -> Preset:
    """Episodes after pre-training, of either kind.

    The paper's rate, a hundredth of pre-training's, hardly moves Conv-4: in 5 epochs to 65.8 % on validation classes,
    where 0.03 is at 69.4 % in two.
    """
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS, episodes after pre-training",
        pretraining=Pretraining(init_from="cifar-fs-conv4-pretrain"),
        schedule=Schedule(epochs=40, milestones=(20, 30, 36), learning_rate=0.03, lr_decay=0.3),
        validation=ValidationProtocol(every=5),
    )


def omniglot_conv4() -> Preset:
    """Characters have no colour, 20 drawings each, and must not be mirrored away; jitter is harmless on black ink."""
    return Preset(
        about="Omniglot characters at 28 x 28, r = 9; the small set takes a minute on two cores",
        data=TrainingData(prepare="omniglot", max_side=35),
        last_pool=False,
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=150, milestones=(80, 120)),
        augmentation=Augmentation(size=28, crop="resized", scale=(0.6, 1.0), jitter=0.0),
        transform=EvaluationTransform(size=28, resize=28),
        validation=ValidationProtocol(every=10),
    )


def shipped_conv4_pretrain() -> Preset:
    """The first half of the shipped Conv-4: FRN pre-training on all classes of two data sets."""
    return replace(
        cifar_fs_conv4_pretrain(),
        about="the shipped conv4, first half: --data cifar-fs --data tiny-imagenet; an hour on one core",
        data=SHIPPED,
        schedule=Schedule(epochs=30, milestones=(15, 21, 25, 28), lr_decay=0.3, warm_up=200),
        validation=ValidationProtocol(every=3, shot=1),
    )


def shipped_conv4_average() -> Preset:
    """The classical first half on the same data, for as long: what the ProtoNet compared with FRN starts from."""
    return classical(
        shipped_conv4_pretrain(),
        "as long a classical pre-training on the same data: ProtoNet's start in the comparison",
    )


def shipped_conv4() -> Preset:
    """The second half: episodes, each within one of the data sets."""
    return replace(
        cifar_fs_conv4(),
        about="the shipped conv4, second half: --data cifar-fs --data tiny-imagenet; half an hour on one core",
        data=SHIPPED,
        pretraining=Pretraining(init_from="shipped-conv4-pretrain"),
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=24, milestones=(10, 14, 18, 20, 22, 23), learning_rate=0.03, lr_decay=0.5),
        validation=ValidationProtocol(every=3),
    )


def shipped_resnet12_small_pretrain() -> Preset:
    """FRN pre-training for a network of the kind that the paper pre-trains: tried, and a little behind the next."""
    return replace(
        shipped_conv4_pretrain(),
        about="resnet12-small, FRN pre-training: --data cifar-fs --data tiny-imagenet; 72 minutes on two cores",
        backbone="resnet12-small",
        schedule=Schedule(epochs=16, milestones=(8, 11, 13, 15), lr_decay=0.3, warm_up=200),
        validation=ValidationProtocol(every=2, shot=1),
    )


def shipped_resnet12_small_average() -> Preset:
    """The first half of the shipped resnet12-small, and of the ProtoNet compared with it: classical pre-training."""
    return classical(
        shipped_resnet12_small_pretrain(),
        "the shipped resnet12-small, first half: --data cifar-fs --data tiny-imagenet; 78 minutes on two cores",
    )


def shipped_resnet12_small() -> Preset:
    """The second half: episodes, each within one of the data sets, that ProtoNet's head scores beside FRN's.

    Both learn from the same maps, so the second costs nothing; what it adds shows at one shot.
    """
    return replace(
        shipped_conv4(),
        about="the shipped resnet12-small, second half: --data cifar-fs --data tiny-imagenet; 24 minutes on two cores",
        backbone="resnet12-small",
        pretraining=Pretraining(init_from="shipped-resnet12-small-average", tune_head_at_start=True),
        schedule=Schedule(epochs=6, milestones=(2, 3, 4, 5), learning_rate=0.01, lr_decay=0.4),
        aux_heads=("proto",),
        validation=ValidationProtocol(every=1),
    )


def shipped_resnet12_average() -> Preset:
    """The paper's own network on the same data, with the time that a GPU has."""
    return replace(
        shipped_resnet12_small_average(),
        about="ResNet-12 on the same data, first half: --data cifar-fs --data tiny-imagenet; wants a GPU",
        backbone="resnet12",
        schedule=Schedule(epochs=60, milestones=(30, 42, 50, 56), lr_decay=0.3),
        validation=ValidationProtocol(every=6, shot=1),
    )


def shipped_resnet12() -> Preset:
    """The second half: episodes, each within one of the data sets."""
    return replace(
        shipped_resnet12_small(),
        about="ResNet-12 on the same data, second half: --data cifar-fs --data tiny-imagenet; wants a GPU",
        backbone="resnet12",
        pretraining=Pretraining(init_from="shipped-resnet12-average", tune_head_at_start=True),
        schedule=Schedule(epochs=24, milestones=(8, 12, 16, 20), learning_rate=0.01, lr_decay=0.4),
        validation=ValidationProtocol(every=3),
    )


def general_conv4() -> Preset:
    """Conv-4 as the paper has it, for 84 x 84 images of everything."""
    return Preset(
        about="any folder of photos at 84 x 84, r = 25",
        data=TrainingData(prepare="folder", max_side=128),
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=24, milestones=(11, 14, 16, 18, 20, 22, 23), lr_decay=0.5),
        augmentation=Augmentation(size=84, crop="resized", scale=(0.2, 1.0)),
        transform=EvaluationTransform(size=84, resize=92),
        validation=ValidationProtocol(every=4),
    )


GENERAL: dict[str, Preset] = {
    preset.__name__.replace("_", "-"): preset()
    for preset in (
        demo,
        cifar_fs_conv4,
        cifar_fs_conv4_short,
        cifar_fs_resnet12,
        cifar_fs_conv4_pretrain,
        cifar_fs_conv4_average,
        cifar_fs_conv4_finetune,
        omniglot_conv4,
        shipped_conv4_pretrain,
        shipped_conv4_average,
        shipped_conv4,
        shipped_resnet12_small_pretrain,
        shipped_resnet12_small_average,
        shipped_resnet12_small,
        shipped_resnet12_average,
        shipped_resnet12,
        general_conv4,
    )
}
