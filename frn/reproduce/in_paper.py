"""Every table with numbers, of the paper and its supplement.

A row's figures may come from several runs: the paper trains each baseline once per shot. What a preset says is not
said again here: published figures, data sets and what a run starts from are the presets' own.
"""

from collections.abc import Mapping

from frn.reproduce.rows import (
    Cell,
    DecoderSpec,
    Elsewhere,
    Measurement,
    Regeneration,
    Row,
    Table,
    at_both,
    data_name,
    run_of,
)
from frn.training.presets import PRESETS


def paper(label: str, *presets: str, shots: tuple[int, ...] = (1, 5), ci95: Mapping[int, float] | None = None) -> Row:
    """A row of the paper's; each shot's figure is the first preset's that is tested at it.

    `ci95`: intervals by shot that this table prints, and the one that the preset has its figures of does not.
    """
    cells: dict[int | str, Cell] = {}
    for name in presets:
        preset, run = PRESETS[name], run_of(name)
        measurement = Measurement(name=name, run=run, prepare=run.prepare)
        figures = preset.published.accuracy if preset.published else {}
        intervals = {**(preset.published.ci95 if preset.published else {}), **(ci95 or {})}
        for shot in preset.test_shots:
            if shot in shots and shot not in cells:
                cells[shot] = Cell(measurement, figures.get(shot), intervals.get(shot))
    return Row(name=presets[-1].removesuffix("-5shot"), label=label, cells=dict(sorted(cells.items())))


BASELINES = {"proto": "ProtoNet", "covariance": "Covariance pooling", "dsn": "DSN", "ctx": "CTX"}


def benchmark(labels: Mapping[str, str], *methods: str) -> list[Row]:
    """For each data set and backbone, by the name of its preset, the baselines and then FRN."""
    return [
        row
        for name, label in labels.items()
        for row in (
            *(paper(f"{BASELINES[m]}, {label}", f"{name}-{m}-1shot", f"{name}-{m}-5shot") for m in methods),
            paper(f"FRN, {label}", name),
        )
    ]


def training_shots(labels: Mapping[str, str]) -> list[Row]:
    """FRN at 1 shot, trained at 1 and at 5."""
    return [
        row
        for name, label in labels.items()
        for row in (
            paper(f"trained at 1 shot, {label}", f"{name}-1shot", shots=(1,)),
            paper(f"trained at 5 shot, {label}", name, shots=(1,), ci95=AT_FIVE.get(name)),
        )
    ]


AT_FIVE: dict[str, Mapping[int, float]] = {
    "cub-cropped-conv4": {1: 0.21, 5: 0.13},
    "cub-cropped-resnet12": {1: 0.19, 5: 0.10},
    "aircraft-conv4": {1: 0.21},
    "aircraft-resnet12": {1: 0.22},
    "meta-inat-conv4": {1: 0.22},
    "tiered-meta-inat-conv4": {1: 0.19},
}
"""Intervals of FRN trained at 5 shot that Tables 3, 5 and 6 leave out and Tables 11 and 12 have."""


def measured_by(command: str, figures: Mapping[str, str], *, aside: str = "") -> list[Elsewhere]:
    """Lines that a command measures, with the published figures of each; `aside`: what it measures otherwise."""
    return [
        Elsewhere(label, published, command, f"{label.replace('qpth', 'POT')}: {aside}" if aside else "")
        for label, published in figures.items()
    ]


def ablation(label: str, name: str) -> list[Row]:
    """Table 12: each shot's figure is of a model trained at that shot."""
    parts = {"no-aux": "no Aux", "fixed-lambda": "fixed λ", "fixed-rho": "fixed ρ", "fixed-lambda-rho": "fixed λ, ρ"}
    rows = [paper(f"{what}, {label}", f"{name}-{part}-1shot", f"{name}-{part}-5shot") for part, what in parts.items()]
    return [*rows, paper(f"whole model, {label}", f"{name}-1shot", name, ci95={5: AT_FIVE[name][5]})]


def cross_domain() -> list[Row]:
    """Table 8: the model of Table 7, tested on birds."""
    run = run_of("mini-imagenet-resnet12-finetune")
    figures = {
        ("cub-raw --split chen", "FRN on classes from Chen et al."): ((54.11, 0.19), (77.09, 0.15)),
        ("cub-raw", "FRN on classes from Tang et al."): ((51.60, 0.21), (72.97, 0.18)),
        ("cub-raw --split all", "FRN on all CUB classes"): ((53.39, 0.21), (75.16, 0.17)),
    }
    return [
        at_both(label, Measurement(name=f"mini-imagenet-on-{data_name(prepare)}", run=run, prepare=prepare), published)
        for (prepare, label), published in figures.items()
    ]


REGENERATED_FROM = ("ground_truth", "same_class", "other_class")
"""Columns of Table 10: an image's own feature map, and those reconstructed by its class and by others."""


def regenerated(name: str, label: str, preset: str, epochs: int, published: tuple[float, ...]) -> Row:
    """A row of Table 10: a decoder of a model trained at 5 shot, on validation images."""
    decoder = DecoderSpec(name=f"decoder-{name}", init=run_of(preset), epochs=epochs)
    measurement = Regeneration(
        name=decoder.name, run=decoder, flags=("--split", "val", "--trials", "1000"), prepare=decoder.prepare
    )
    cells: dict[int | str, Cell] = dict(
        zip(REGENERATED_FROM, (Cell(measurement, figure) for figure in published), strict=True)
    )
    return Row(name=decoder.name, label=label, cells=cells)


def of_backbones(name: str) -> dict[str, str]:
    """Presets of a data set, with both backbones."""
    return {f"{name}-conv4": "Conv-4", f"{name}-resnet12": "ResNet-12"}


SHOTS_COMPARED = {
    "cub-cropped-conv4": "CUB cropped, Conv-4",
    "aircraft-conv4": "Aircraft, Conv-4",
    "meta-inat-conv4": "meta-iNat, Conv-4",
    "tiered-meta-inat-conv4": "tiered meta-iNat, Conv-4",
    "cub-cropped-resnet12": "CUB cropped, ResNet-12",
    "cub-raw-resnet12": "CUB raw, ResNet-12",
    "aircraft-resnet12": "Aircraft, ResNet-12",
    "mini-imagenet-resnet12-finetune": "mini-ImageNet, ResNet-12",
    "tiered-imagenet-224-resnet12-finetune": "tiered-ImageNet, ResNet-12",
}
CUB_RAW, MINI = "cub-raw-resnet12", "mini-imagenet-resnet12"
IN_PAPER = (
    Table(
        "cub-cropped",
        "Table 3",
        "CUB, images cropped to bounding boxes",
        benchmark(of_backbones("cub-cropped"), "proto", "dsn", "ctx"),
    ),
    Table("cub-raw", "Table 4", "CUB, raw images", benchmark({CUB_RAW: "ResNet-12"}, "proto", "dsn", "ctx")),
    Table("aircraft", "Table 5", "Aircraft", benchmark(of_backbones("aircraft"), "proto", "dsn", "ctx")),
    Table(
        "meta-inat",
        "Table 6",
        "meta-iNat and tiered meta-iNat, Conv-4",
        benchmark({"meta-inat-conv4": "meta-iNat", "tiered-meta-inat-conv4": "tiered meta-iNat"}, *BASELINES),
    ),
    Table(
        "imagenet",
        "Table 7",
        "mini-ImageNet and tiered-ImageNet, ResNet-12",
        [
            paper("FRN, mini-ImageNet", f"{MINI}-finetune"),
            paper("FRN, tiered-ImageNet at 84 x 84", "tiered-imagenet-resnet12-finetune"),
            paper("FRN, tiered-ImageNet at 224 x 224", "tiered-imagenet-224-resnet12-finetune"),
        ],
    ),
    Table("cross-domain", "Table 8", "From mini-ImageNet to CUB, ResNet-12", cross_domain()),
    Table(
        "pre-training",
        "Table 9",
        "Impact of pre-training on mini-ImageNet, ResNet-12",
        [
            paper("episodic train from scratch", MINI),
            paper("after avg-pool pre-train", f"{MINI}-average"),
            paper("... and episodic finetune", f"{MINI}-average-finetune"),
            paper("after FRN pre-train", f"{MINI}-pretrain"),
            paper("... and episodic finetune", f"{MINI}-finetune"),
        ],
    ),
    Table(
        "decoder",
        "Table 10",
        "L2 pixel error of images regenerated from feature maps, ResNet-12 trained at 5 shot",
        [
            regenerated("cub", "CUB cropped", "cub-cropped-resnet12", 500, (0.208, 0.343, 0.385)),
            regenerated("mini", "mini-ImageNet", "mini-imagenet-resnet12-finetune", 200, (0.177, 0.307, 0.337)),
        ],
        note="The root of the mean squared difference, pixels in [-1, 1]: of images regenerated from their own feature "
        "maps (ground truth), and from maps rebuilt by supports of their class and of others. The paper gives neither "
        "the error's unit nor whether its birds are cropped.",
        unit="of the error",
        digits=3,
    ),
    Table("training-shot", "Table 11", "FRN at 1 shot, trained at 1 and at 5", training_shots(SHOTS_COMPARED)),
    Table(
        "ablation",
        "Table 12",
        "Auxiliary loss and learned regularisers on CUB cropped",
        [row for name, label in of_backbones("cub-cropped").items() for row in ablation(label, name)],
    ),
    Table(
        "speed",
        "Tables 1 and 14",
        "Milliseconds per 5-way episode on mini-ImageNet, ResNet-12: 1-shot, 5-shot",
        elsewhere=measured_by(
            "python assets/benchmarks/emd.py --whole",
            {
                "DeepEMD by qpth, meta-train": "26,000, > 990,000",
                "FRN by Eq. 10, meta-train": "281, 357",
                "FRN by Eq. 8, meta-train": "279, 346",
                "DeepEMD by qpth, meta-test": "23,275, > 800,000",
                "DeepEMD by OpenCV, meta-test": "178, 18,292",
                "FRN by Eq. 10, meta-test": "73, 88",
                "FRN by Eq. 8, meta-test": "63, 79",
            },
            aside="on one thread of a processor",
        ),
        note="The paper times whole episodes on a GPU, ResNet-12 included. `python assets/benchmarks/emd.py --whole` "
        "times them on one thread of a processor; without `--whole`, the heads alone. DeepEMD's exact solver is POT "
        "in the place of qpth. `python assets/benchmarks/head.py` has both equations beside our forms.",
    ),
    Table(
        "memory",
        "Table 15",
        "Megabytes in training on CUB, Conv-4: 5 x 5 maps at 1 and 5 shot, 10 x 10 maps at 1 and 5 shot",
        elsewhere=measured_by(
            "python assets/benchmarks/memory.py",
            {
                "CTX": "6225, 5449; 8979, 9693",
                "FRN by Eq. 8": "6305, 5317; 7125, 6767",
                "FRN by Eq. 10": "6305, 6529; 7125, 6727",
            },
        ),
    ),
    Table(
        "class-split",
        "Table 16",
        "CUB raw under two class splits, ResNet-12",
        [paper("FRN, Tang et al.", CUB_RAW), paper("FRN, Chen et al.", "cub-chen-resnet12")],
    ),
    Table(
        "pre-training-cub",
        "Table 17",
        "Impact of pre-training on CUB raw, ResNet-12",
        [
            paper("from scratch", CUB_RAW),
            paper("after pre-train", f"{CUB_RAW}-pretrain"),
            paper("finetune", f"{CUB_RAW}-finetune"),
        ],
    ),
)
