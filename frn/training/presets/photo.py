"""The recipe of the shipped model for photos, part by part: each goes on from what the one before it made."""

from dataclasses import replace

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.images.transforms import EvaluationTransform
from frn.training.presets.general import RELATIVES
from frn.training.presets.preset import Preset, Pretraining, Schedule, TrainingData, ValidationProtocol

UNSEEN = (
    *("n03770439", "n02099601", "n04146614", "n04149813"),
    "n02091244-Podengo_ibicenco",
    *("n02089867", "n02091831", "n02108915", "n02106662"),
)
"""Training classes that are validation or test classes of another data set of `shipped-photo`.

Of Tiny-ImageNet, in mini-ImageNet: miniskirt, golden retriever, school bus, scoreboard. Of the dogs, in mini-ImageNet:
Ibizan hound. Of mini-ImageNet, among the dogs: Walker hound, Saluki, French bulldog; of Tiny-ImageNet: German shepherd.
"""


def shipped_photo_average() -> Preset:
    """The first half of a model for photos: classical pre-training on five data sets, on smaller images first."""
    return Preset(
        about="resnet9-photo, first half: five data sets (mini-imagenet, cub, dogs, butterflies, tiny-imagenet)",
        method="proto",
        backbone="resnet9-patch4",
        last_pool=False,
        objective="average-pretrain",
        data=TrainingData(prepare="folder", max_side=112, exclude_classes=(*RELATIVES, *UNSEEN), balance=0.5),
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=12, milestones=(6, 8, 10, 11), lr_decay=0.3),
        augmentation=Augmentation(size=84, crop="resized", scale=(0.2, 1.0)),
        progressive_resizing=(7, 64),
        transform=EvaluationTransform(size=84, resize=92),
        validation=ValidationProtocol(every=2, shot=1),
    )


def shipped_photo() -> Preset:
    """The second half: episodes, each within one of the data sets, scored by FRN's head and by ProtoNet's.

    A random crop shows things larger than the whole photo does, so the model looks at larger photos than it has trained
    on: r = 36 instead of 25.
    """
    return replace(
        shipped_photo_average(),
        about="resnet9-photo, second half: the same five data sets",
        method="frn",
        objective="episodes",
        aux_heads=("proto",),
        pretraining=Pretraining(init_from="shipped-photo-average", tune_head_at_start=True),
        schedule=Schedule(epochs=2, milestones=(1,), learning_rate=0.01, lr_decay=0.4),
        progressive_resizing=None,
        transform=EvaluationTransform(size=100, resize=110),
        validation=ValidationProtocol(every=1),
    )


def shipped_photo_longer_average() -> Preset:
    """The third part: classical once more, from the first rate down, all classes' linear classifier anew."""
    return replace(
        shipped_photo_average(),
        about="resnet9-photo, third part: the same five data sets, from what the second made",
        pretraining=Pretraining(init_from="shipped-photo"),
        schedule=Schedule(epochs=8, milestones=(4, 6, 7), lr_decay=0.3, warm_up=300),
        progressive_resizing=(4, 64),
    )


def shipped_photo_wide_average() -> Preset:
    """The fourth: the network gets wider and begins as what the third made of the narrow one."""
    return replace(
        shipped_photo_average(),
        about="resnet9-photo, fourth part: the same five data sets, a wider network",
        backbone="resnet9-patch4-wide",
        pretraining=Pretraining(init_from="shipped-photo-longer-average"),
        schedule=Schedule(epochs=6, milestones=(3, 5), lr_decay=0.2, warm_up=300),
        progressive_resizing=(3, 64),
    )


def shipped_photo_wide() -> Preset:
    """The fifth: episodes."""
    return replace(
        shipped_photo(),
        about="resnet9-photo, fifth part: the same five data sets",
        backbone="resnet9-patch4-wide",
        pretraining=Pretraining(init_from="shipped-photo-wide-average", tune_head_at_start=True),
        schedule=Schedule(epochs=3, milestones=(1, 2), learning_rate=0.01, lr_decay=0.4),
    )


MINI_FIRST = (0.45, 0.08, 0.12, 0.1, 0.25)
"""Shares of an epoch of mini-imagenet, cub, dogs, butterflies and tiny-imagenet, for the stages that mini-ImageNet's
many kinds of things need most."""


def shipped_photo_wide_longer_average() -> Preset:
    """The sixth: classical once more, mostly on mini-ImageNet."""
    average = shipped_photo_wide_average()
    return replace(
        average,
        about="resnet9-photo, sixth part: the same five data sets, in the same order",
        data=replace(average.data, balance=MINI_FIRST),
        pretraining=Pretraining(init_from="shipped-photo-wide"),
        schedule=Schedule(epochs=12, milestones=(7, 9, 11), lr_decay=0.3, warm_up=300),
        progressive_resizing=(9, 64),
    )


def shipped_photo_wide_longer() -> Preset:
    """The seventh: episodes."""
    episodes = shipped_photo_wide()
    return replace(
        episodes,
        about="resnet9-photo, seventh part: the same five data sets, in the same order",
        data=replace(episodes.data, balance=MINI_FIRST),
        pretraining=Pretraining(init_from="shipped-photo-wide-longer-average", tune_head_at_start=True),
    )


def shipped_photo_wide_longest_average() -> Preset:
    """The eighth: classical once more, from a third of the first rate, where the rate before brought nothing."""
    return replace(
        shipped_photo_wide_longer_average(),
        about="resnet9-photo, eighth part: the same five data sets, in the same order",
        pretraining=Pretraining(init_from="shipped-photo-wide-longer"),
        schedule=Schedule(epochs=7, milestones=(4, 6), learning_rate=0.03, lr_decay=0.3, warm_up=300),
        progressive_resizing=(4, 64),
        validation=ValidationProtocol(every=1, shot=1),
    )


def shipped_photo_wide_longest() -> Preset:
    """Episodes after that: the model as it shipped once; the next part goes on from the eighth, too."""
    return replace(
        shipped_photo_wide_longer(),
        about="resnet9-photo as it shipped once, last part: the same five data sets, in the same order",
        pretraining=Pretraining(init_from="shipped-photo-wide-longest-average", tune_head_at_start=True),
    )


MOSTLY_MINI = (0.55, 0.08, 0.07, 0.06, 0.24)
"""As `MINI_FIRST`, where dogs and butterflies had points to spare."""


def shipped_photo_wide_distilled_average() -> Preset:
    """The ninth: classical once more, with the same network as it was before for a teacher."""
    average = shipped_photo_wide_longest_average()
    return replace(
        average,
        about="resnet9-photo, ninth part: the same five data sets, in the same order",
        data=replace(average.data, balance=MOSTLY_MINI),
        pretraining=Pretraining(init_from="shipped-photo-wide-longest-average", distil=0.5),
        schedule=Schedule(epochs=8, milestones=(5, 7), learning_rate=0.05, lr_decay=0.2, warm_up=300),
        progressive_resizing=(5, 64),
    )


def shipped_photo_wide_distilled() -> Preset:
    """The tenth: episodes."""
    episodes = shipped_photo_wide_longest()
    return replace(
        episodes,
        about="resnet9-photo, tenth part: the same five data sets, in the same order",
        data=replace(episodes.data, balance=MOSTLY_MINI),
        pretraining=Pretraining(init_from="shipped-photo-wide-distilled-average", tune_head_at_start=True),
    )


def shipped_photo_wide_distilled_longer() -> Preset:
    """More episodes, for the mean of this, of the part before, and of that part with seed 1."""
    episodes = shipped_photo_wide_distilled()
    return replace(
        episodes,
        about="resnet9-photo, tenth part, more of it: the same five data sets, in the same order",
        data=replace(episodes.data, balance=(0.65, 0.08, 0.06, 0.08, 0.13)),
        pretraining=Pretraining(init_from="shipped-photo-wide-distilled"),
        schedule=Schedule(epochs=4, milestones=(1, 2, 3), learning_rate=0.006, lr_decay=0.4),
    )


def shipped_photo_wide_redistilled_average() -> Preset:
    """The eleventh: the ninth once more, with what that made for a teacher."""
    return replace(
        shipped_photo_wide_distilled_average(),
        about="resnet9-photo, eleventh part: the same five data sets, in the same order",
        pretraining=Pretraining(init_from="shipped-photo-wide-distilled-average", distil=0.5),
        schedule=Schedule(epochs=6, milestones=(4, 5), learning_rate=0.05, lr_decay=0.2, warm_up=300),
        progressive_resizing=(4, 64),
    )


def shipped_photo_wide_redistilled() -> Preset:
    """The last: episodes. What ships is the mean of this and of the tenth part's mean."""
    return replace(
        shipped_photo_wide_distilled(),
        about="resnet9-photo, last part: the same five data sets, in the same order",
        pretraining=Pretraining(init_from="shipped-photo-wide-redistilled-average", tune_head_at_start=True),
    )


PHOTO: dict[str, Preset] = {
    preset.__name__.replace("_", "-"): preset()
    for preset in (
        shipped_photo_average,
        shipped_photo,
        shipped_photo_longer_average,
        shipped_photo_wide_average,
        shipped_photo_wide,
        shipped_photo_wide_longer_average,
        shipped_photo_wide_longer,
        shipped_photo_wide_longest_average,
        shipped_photo_wide_longest,
        shipped_photo_wide_distilled_average,
        shipped_photo_wide_distilled,
        shipped_photo_wide_distilled_longer,
        shipped_photo_wide_redistilled_average,
        shipped_photo_wide_redistilled,
    )
}
