"""CUB, Aircraft, meta-iNat and tiered meta-iNat: Tables 3 to 6, and 11, 12, 16 and 17 of the supplement."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from frn.training.presets.paper import (
    AS_IS,
    PADDED_CROP,
    PHOTO_SIDE,
    RESIZED,
    RESIZED_CROP,
    SQUEEZED,
    Figure,
    Figures,
    by_method,
    episode,
    published,
    trained_at,
    without,
)
from frn.training.presets.preset import Preset, Pretraining, Regulariser, Schedule, TrainingData, ValidationProtocol

WAY = {"conv4": {1: 30, 5: 20}, "resnet12": {1: 15, 5: 10}}
"""Classes of a training episode by its shot; half of them for ResNet-12, to save memory."""

SHORT = Schedule(epochs=800, milestones=(400,))
LONG = Schedule(epochs=1200, milestones=(400, 800))
INAT = Schedule(epochs=100, milestones=(20, 40, 60, 80), optimizer="adam", learning_rate=1e-3, lr_decay=0.5)


def photos(prepare: str) -> TrainingData:
    """Photos of any size."""
    return TrainingData(prepare=prepare, max_side=PHOTO_SIDE)


def cub_cropped(backbone: str) -> Preset:
    """CUB, cropped to the birds' bounding boxes; the supplement's ablations are made on it."""
    return Preset(
        about="CUB cropped, FRN",
        data=photos("cub-cropped"),
        backbone=backbone,
        episode=episode(WAY[backbone][5], 5),
        schedule=SHORT if backbone == "conv4" else LONG,
        augmentation=RESIZED_CROP,
        transform=SQUEEZED,
        validation=ValidationProtocol(every=20),
    )


def cub_raw() -> Preset:
    """CUB as photographed."""
    return replace(cub_cropped("resnet12"), about="CUB raw, FRN", data=photos("cub-raw"), transform=RESIZED)


def aircraft(backbone: str) -> Preset:
    """Aircraft, cropped; SM does not say where Conv-4's rate falls, the authors' script says."""
    return replace(cub_cropped(backbone), about="Aircraft, FRN", data=photos("aircraft"), schedule=LONG)


def meta_inat() -> Preset:
    """No validation split: the last weights are the result, and the test split is only logged."""
    return Preset(
        about="meta-iNat, FRN",
        data=TrainingData(prepare="meta-inat", max_side=84),
        episode=episode(WAY["conv4"][5], 5),
        schedule=INAT,
        augmentation=PADDED_CROP,
        transform=AS_IS,
        validation=ValidationProtocol(every=2, split="test"),
    )


def tiered_meta_inat() -> Preset:
    """Insects and arachnids are the test classes, all others train."""
    return replace(
        meta_inat(), about="tiered meta-iNat, FRN", data=TrainingData(prepare="tiered-meta-inat", max_side=84)
    )


def family(name: str, base: Preset, table: int, one_shot: Figure, rows: Mapping[str, Figures]) -> dict[str, Preset]:
    """FRN at 5 shot, and at 1 (Table 11); every baseline at both, as the paper trains them."""
    way = WAY[base.backbone]
    presets = {
        name: replace(base, published=published(table, rows["frn"])),
        f"{name}-1shot": trained_at(1, base, way[1], published(11, {1: one_shot})),
    }
    for method, figures in rows.items():
        for shot, figure in figures.items() if method != "frn" else ():
            result = published(table, {shot: figure})
            presets[f"{name}-{method}-{shot}shot"] = trained_at(shot, by_method(base, method), way[shot], result)
    return presets


ABLATIONS: dict[str, tuple[bool, tuple[Regulariser, ...]]] = {
    "no-aux": (False, ()),
    "fixed-lambda": (True, ("lambda",)),
    "fixed-rho": (True, ("rho",)),
    "fixed-lambda-rho": (True, ("lambda", "rho")),
}


def ablations(backbone: str, rows: Mapping[str, Figures]) -> dict[str, Preset]:
    """Table 12: here each shot's figure is of a model trained at that shot."""
    presets = {}
    for ablation, figures in rows.items():
        aux, fixed = ABLATIONS[ablation]
        for shot, figure in figures.items():
            ablated, result = without(cub_cropped(backbone), aux=aux, fixed=fixed), published(12, {shot: figure})
            name = f"cub-cropped-{backbone}-{ablation}-{shot}shot"
            presets[name] = trained_at(shot, ablated, WAY[backbone][shot], result)
    return presets


def pretrained_cub() -> dict[str, Preset]:
    """Table 17 (SM). The text gives no batch and no interval of validation: those of mini-ImageNet and of CUB here."""
    pretrain = replace(
        cub_raw(),
        about="CUB raw, FRN pre-training",
        objective="frn-pretrain",
        aux="off",
        schedule=Schedule(epochs=1200, milestones=(600, 900)),
        validation=ValidationProtocol(every=20, shot=1),
        published=published(17, {1: (73.46, 0.20), 5: (84.20, 0.13)}),
    )
    finetune = replace(
        cub_raw(),
        about="CUB raw, FRN after pre-training",
        pretraining=Pretraining(init_from="cub-raw-resnet12-pretrain"),
        episode=episode(20, 5),
        schedule=Schedule(epochs=600, milestones=(300, 500), learning_rate=1e-3),
        validation=ValidationProtocol(every=5),
        published=published(17, {1: (83.23, 0.18), 5: (93.59, 0.09)}),
    )
    return {
        "cub-raw-resnet12-pretrain": pretrain,
        "cub-raw-resnet12-finetune": finetune,
        "cub-raw-resnet12-finetune-1shot": trained_at(1, finetune, 25),
    }


def chen() -> Preset:
    """Table 16 (SM): the class split of Chen et al. instead of Tang et al.'s."""
    return replace(
        cub_raw(),
        about="CUB raw, classes split as by Chen et al., FRN",
        data=photos("cub-raw --split chen"),
        published=published(16, {1: (83.35, 0.18), 5: (93.28, 0.09)}),
    )


def stabilised(presets: dict[str, Preset], name: str = "aircraft-resnet12-1shot") -> dict[str, Preset]:
    """SGD collapses at the start of this one; SM trains it by Adam without weight decay."""
    adam = replace(LONG, optimizer="adam", learning_rate=1e-3, weight_decay=0.0)
    return presets | {name: replace(presets[name], schedule=adam)}


def rows(names: Iterable[str], *figures: tuple[Figure, Figure]) -> dict[str, Figures]:
    """Lines of a table: for each name the figures at 1 and at 5 shot."""
    return {name: {1: one, 5: five} for name, (one, five) in zip(names, figures, strict=True)}


METHODS = ("frn", "proto", "dsn", "ctx")
METHODS_ON_INAT = ("frn", "proto", "covariance", "dsn", "ctx")
CUB_CONV4 = rows(METHODS, (73.48, 88.43), (63.21, 83.88), (66.01, 85.41), (69.64, 87.31))
CUB_CONV4_ABLATIONS = rows(
    ABLATIONS,
    ((68.38, 0.23), (88.13, 0.13)),
    ((66.44, 0.23), (84.05, 0.15)),
    ((67.34, 0.23), (87.60, 0.13)),
    ((66.19, 0.23), (83.27, 0.15)),
)
CUB_RESNET12 = rows(METHODS, (83.16, 92.59), (79.09, 90.59), (80.80, 91.19), (78.47, 90.90))
CUB_RESNET12_ABLATIONS = rows(
    ABLATIONS,
    ((82.20, 0.20), (92.65, 0.10)),
    ((82.40, 0.20), (93.12, 0.10)),
    ((82.58, 0.20), (92.79, 0.10)),
    ((82.80, 0.19), (93.33, 0.10)),
)
CUB_RAW = rows(
    METHODS,
    ((83.55, 0.19), (92.92, 0.10)),
    ((78.60, 0.22), (89.73, 0.12)),
    ((79.96, 0.21), (91.41, 0.34)),
    ((79.34, 0.21), (91.42, 0.11)),
)
AIRCRAFT_CONV4 = rows(METHODS, (53.20, 71.17), (47.72, 69.42), (49.63, 66.36), (49.67, 69.06))
AIRCRAFT_RESNET12 = rows(METHODS, (70.17, 83.81), (66.57, 82.37), (68.16, 81.85), (65.60, 80.20))
META_INAT = rows(METHODS_ON_INAT, (62.42, 80.45), (55.34, 76.43), (57.15, 77.20), (58.08, 77.38), (60.03, 78.80))
TIERED_META_INAT = rows(METHODS_ON_INAT, (43.91, 63.36), (34.34, 57.13), (36.06, 57.48), (36.82, 60.11), (36.83, 60.84))

FINE_GRAINED: dict[str, Preset] = {
    **family("cub-cropped-conv4", cub_cropped("conv4"), 3, (68.27, 0.23), CUB_CONV4),
    **ablations("conv4", CUB_CONV4_ABLATIONS),
    **family("cub-cropped-resnet12", cub_cropped("resnet12"), 3, (82.62, 0.19), CUB_RESNET12),
    **ablations("resnet12", CUB_RESNET12_ABLATIONS),
    **family("cub-raw-resnet12", cub_raw(), 4, (82.02, 0.20), CUB_RAW),
    **pretrained_cub(),
    "cub-chen-resnet12": chen(),
    **family("aircraft-conv4", aircraft("conv4"), 5, (50.25, 0.21), AIRCRAFT_CONV4),
    **stabilised(family("aircraft-resnet12", aircraft("resnet12"), 5, (69.40, 0.23), AIRCRAFT_RESNET12)),
    **family("meta-inat-conv4", meta_inat(), 6, (60.04, 0.22), META_INAT),
    **family("tiered-meta-inat-conv4", tiered_meta_inat(), 6, (40.11, 0.18), TIERED_META_INAT),
}
