"""Every table with numbers, of the paper and its supplement, as rows of runs; and two of our own on CIFAR-FS.

A row's figures may come from several runs: the paper trains each baseline once per shot. What a preset says is not
said again here: published figures, data sets and what a run starts from are the presets' own.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frn.errors import FrnError
from frn.training.options import RunOptions
from frn.training.presets import PRESETS


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A training run; its folder has its name."""

    name: str
    options: RunOptions
    """What decides the run; what is missing is only where things are."""
    init: "RunSpec | None" = None
    """The run whose result it starts from."""

    @property
    def prepare(self) -> str:
        """The data set, as `frn data prepare` calls it."""
        return PRESETS[self.options.preset].data.prepare or ""

    @property
    def chain(self) -> "tuple[RunSpec, ...]":
        """The run after those that it starts from."""
        return (*(self.init.chain if self.init else ()), self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """An evaluation of a run's result; the answer of `frn eval --json` is kept as NAME.json beside the runs."""

    name: str
    run: RunSpec
    flags: tuple[str, ...] = ()
    prepare: str
    """The data set it is tested on, as `frn data prepare` calls it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: what the paper has, and what to measure."""

    measurement: Measurement
    published: float | None = None
    published_ci95: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A line of a table."""

    name: str
    label: str
    cells: Mapping[int, Cell]
    """By shot."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A line that another command measures: seconds, megabytes, pixels."""

    label: str
    published: str
    command: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or in its manner."""

    name: str
    source: str
    title: str
    rows: Sequence[Row] = ()
    elsewhere: Sequence[Elsewhere] = ()
    note: str = ""


def data_name(prepare: str) -> str:
    """What a data set is called here: "cub-raw --split chen" is cub-raw-chen."""
    return prepare.replace(" --split ", "-")


def run_of(preset: str) -> RunSpec:
    """The run of a preset as it stands, after the pre-training that it needs."""
    start = PRESETS[preset].pretraining.init_from
    return RunSpec(name=preset, options=RunOptions(preset=preset), init=run_of(start) if start else None)


def paper(label: str, *presets: str, shots: tuple[int, ...] = (1, 5)) -> Row:
    """A row of the paper's; each shot's figure is the first preset's that is tested at it."""
    cells: dict[int, Cell] = {}
    for name in presets:
        preset, run = PRESETS[name], run_of(name)
        measurement = Measurement(name=name, run=run, prepare=run.prepare)
        figures, intervals = (preset.published.accuracy, preset.published.ci95) if preset.published else ({}, {})
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
        paper(f"trained at {shot} shot, {label}", f"{name}-1shot" if shot == 1 else name, shots=(1,))
        for name, label in labels.items()
        for shot in (1, 5)
    ]


def measured_by(command: str, figures: Mapping[str, str]) -> list[Elsewhere]:
    """Lines that a command measures, with the published figures of each."""
    return [Elsewhere(label, published, command) for label, published in figures.items()]


def ablation(label: str, name: str) -> list[Row]:
    """Table 12: each shot's figure is of a model trained at that shot."""
    parts = {"no-aux": "no Aux", "fixed-lambda": "fixed λ", "fixed-rho": "fixed ρ", "fixed-lambda-rho": "fixed λ, ρ"}
    rows = [paper(f"{what}, {label}", f"{name}-{part}-1shot", f"{name}-{part}-5shot") for part, what in parts.items()]
    return [*rows, paper(f"whole model, {label}", f"{name}-1shot", name)]


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


PublishedPair = tuple[tuple[float, ...], tuple[float, ...]]
"""Accuracy at 1 and at 5 shot, each with the half-width of its interval where there is one."""
NONE: PublishedPair = ((), ())


def own(label: str, run: RunSpec, published: PublishedPair = NONE) -> Row:
    """A row of our own: one run, tested at both shots."""
    return at_both(label, Measurement(name=run.name, run=run, prepare=run.prepare), published)


def at_both(label: str, measurement: Measurement, published: PublishedPair = NONE) -> Row:
    """One measurement at both shots."""
    one, five = published
    return Row(name=measurement.name, label=label, cells={1: Cell(measurement, *one), 5: Cell(measurement, *five)})


def short(name: str, **changed: Any) -> RunSpec:
    """A run of the short budget on CIFAR-FS."""
    return RunSpec(name=name, options=RunOptions(preset="cifar-fs-conv4-short", **changed))


AT_ONE_SHOT = {"way": 30, "shot": 1}
FRN = short("frn")
AVERAGE = RunSpec(name="average", options=RunOptions(preset="cifar-fs-conv4-average", epochs=24))
DUMMY = RunSpec(name="dummy", options=RunOptions(preset="cifar-fs-conv4-pretrain", epochs=24))
SIMPLESHOT = Measurement(name="simpleshot", run=AVERAGE, flags=("--method", "simpleshot"), prepare="cifar-fs")
TUNED = {
    kind: RunSpec(
        name=f"{kind.name}-tuned", options=RunOptions(preset="cifar-fs-conv4-finetune", queries=5, epochs=8), init=kind
    )
    for kind in (DUMMY, AVERAGE)
}
"""Episodes after pre-training, by kind."""


def cifar_fs() -> list[Row]:
    """Every method on the same episodes, augmentation and schedule; the baselines at both training shots."""
    methods: dict[str, tuple[str, str, PublishedPair]] = {
        "proto": ("ProtoNet", "proto", ((55.5, 0.7), (72.0, 0.6))),
        "dsn": ("DSN", "dsn", NONE),
        "ctx": ("CTX", "ctx", NONE),
        "covariance": ("Covariance pooling", "covariance", NONE),
        "r2d2": ("R2-D2", "ridge", ((60.0,), (76.1,))),
    }
    five, one = [], []
    for name, (label, m, figures) in methods.items():
        five.append(own(label, short(name, method=m), figures))
        one.append(own(f"{label}, trained at 1 shot", short(f"{name}-1", method=m, **AT_ONE_SHOT)))
    return [
        own("FRN", FRN),
        own("FRN after FRN pre-training", TUNED[DUMMY]),
        own("FRN after average-pooled pre-training", TUNED[AVERAGE]),
        own("Bi-FRN", short("bifrn", method="bifrn")),
        *five,
        at_both("SimpleShot", SIMPLESHOT),
        *one,
    ]


def cifar_fs_ablation() -> list[Row]:
    """The paper's ablations (Tables 9, 11 and 12) on CIFAR-FS."""
    return [
        own("whole model, trained at 5 shot", FRN),
        own("trained at 1 shot", short("one-shot", **AT_ONE_SHOT, warm_up=200)),
        own("no auxiliary loss", short("no-aux", aux="off")),
        own("auxiliary loss as the paper writes it", short("aux-paper", aux="paper")),
        own("fixed λ", short("fix-lambda", fix="lambda")),
        own("fixed ρ", short("fix-rho", fix="rho")),
        own("fixed λ, ρ", short("fix-both", fix="both")),
        own("after pre-training with dummy maps", DUMMY),
        own("... and episodes", TUNED[DUMMY]),
        own("after average-pooled pre-training, as ProtoNet", AVERAGE),
        own("... and episodes", TUNED[AVERAGE]),
    ]


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
        "L2 pixel error of regenerated images: CUB, mini-ImageNet",
        elsewhere=measured_by(
            "frn visualize render",
            {
                "ground-truth feature map": ".208, .177",
                "same-class reconstruction": ".343, .307",
                "diff-class reconstruction": ".385, .337",
            },
        ),
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
            "frn bench emd",
            {
                "DeepEMD by qpth, meta-train": "26,000, > 990,000",
                "FRN by Eq. 10, meta-train": "281, 357",
                "FRN by Eq. 8, meta-train": "279, 346",
                "DeepEMD by qpth, meta-test": "23,275, > 800,000",
                "DeepEMD by OpenCV, meta-test": "178, 18,292",
                "FRN by Eq. 10, meta-test": "73, 88",
                "FRN by Eq. 8, meta-test": "63, 79",
            },
        ),
        note="The paper times whole episodes; `frn bench emd` times the heads alone, on one thread. "
        "`frn bench head` has both equations beside our forms.",
    ),
    Table(
        "memory",
        "Table 15",
        "Megabytes in training on CUB, Conv-4: 5 x 5 maps at 1 and 5 shot, 10 x 10 maps at 1 and 5 shot",
        elsewhere=measured_by(
            "frn bench memory",
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
OUR_OWN = (
    Table(
        "cifar-fs",
        "our own",
        "Methods on CIFAR-FS at 32 x 32, Conv-4 without the last pooling (r = 16)",
        cifar_fs(),
        note="Every method has the same episodes (a short run: 24 epochs, 917,000 images), augmentation and "
        "schedule. SimpleShot takes the backbone of as long an average-pooled pre-training, centred on its "
        "training images; FRN after pre-training has 8 more epochs of episodes. Published: ProtoNet by the "
        "R2-D2 paper, R2-D2 (64 channels) by an early version of it, each with its own training. "
        "`recipes.md` discusses the order.",
    ),
    Table(
        "cifar-fs-ablation",
        "our own",
        "FRN's ablations on CIFAR-FS at 32 x 32, Conv-4 without the last pooling (r = 16)",
        cifar_fs_ablation(),
        note="Every row has the budget of `cifar-fs`. Trained at 1 shot, the rate rises over the first 200 steps: "
        "at the full rate from the first one, gamma falls to a seventh, rho to nothing (beta = -13), and nothing "
        "is learned. The auxiliary loss as the paper writes it swamps the cross-entropy: chance.",
    ),
)
TABLES: dict[str, Table] = {table.name: table for table in (*IN_PAPER, *OUR_OWN)}


def find_table(name: str) -> Table:
    """Return a table by name; an FrnError names the nearest ones."""
    if name in TABLES:
        return TABLES[name]
    near = difflib.get_close_matches(name, TABLES, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(TABLES)}."
    raise FrnError(f"unknown table {name!r}. {hint}")


def choose_rows(table: Table, names: Sequence[str]) -> list[Row]:
    """The rows of these names; without any, all. FrnError if the table has no such row."""
    known = [row.name for row in table.rows]
    for name in names:
        if name not in known:
            raise FrnError(f"table {table.name!r} has no row {name!r}. It has: {', '.join(known) or 'none to train'}.")
    return [row for row in table.rows if not names or row.name in names]
