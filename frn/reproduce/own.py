"""Tables of our own, in the paper's manner: methods and ablations on CIFAR-FS, and methods on photos."""

from typing import Any

from frn.reproduce.rows import NONE, Measurement, PublishedPair, Row, RunSpec, Table, at_both, own
from frn.training.runs.run_options import RunOptions


def short(name: str, **changed: Any) -> RunSpec:
    """A run of the short budget on CIFAR-FS."""
    return RunSpec(name=name, options=RunOptions(preset="cifar-fs-conv4-short", **changed))


AT_ONE_SHOT = {"way": 30, "shot": 1}
GENTLY: dict[str, dict[str, Any]] = {"covariance": {"warm_up": 200}}
"""At the full rate, the temperature of covariance pooling turns negative within two steps, and it learns late."""
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
        "r2d2": ("R2-D2's ridge regression", "ridge", ((60.0,), (76.1,))),
    }
    five, one = [], []
    for name, (label, m, figures) in methods.items():
        changed = {"method": m, **GENTLY.get(m, {})}
        five.append(own(label, short(name, **changed), figures))
        one.append(own(f"{label}, trained at 1 shot", short(f"{name}-1", **changed, **AT_ONE_SHOT)))
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
        own("fixed λ", short("fix-lambda", freeze="lambda")),
        own("fixed ρ", short("fix-rho", freeze="rho")),
        own("fixed λ, ρ", short("fix-both", freeze="both")),
        own("after pre-training with dummy maps", DUMMY),
        own("... and episodes", TUNED[DUMMY]),
        own("after average-pooled pre-training, as ProtoNet", AVERAGE),
        own("... and episodes", TUNED[AVERAGE]),
    ]


def on_birds(name: str, label: str, preset: str = "cub-small-conv4", **changed: Any) -> Row:
    """A run by the recipe of the table on photos, tested at both shots."""
    return own(label, RunSpec(name=name, options=RunOptions(preset=preset, **changed)))


def cub_small() -> list[Row]:
    """Four methods by three seeds, the others once; SimpleShot after a classical training of as long."""
    methods = {
        "proto-tdm": "TDM over ProtoNet",
        "frn-tdm": "TDM over FRN",
        "dsn": "DSN",
        "ctx": "CTX",
        "covariance": "Covariance pooling",
        "ridge": "R2-D2's ridge regression",
        "lccrn": "LCCRN",
        "deepbdc": "DeepBDC",
        "mcl": "MCL",
    }
    average = RunSpec(name="cub-average", options=RunOptions(preset="cub-small-conv4-average"))
    centred = Measurement(name="cub-simpleshot", run=average, flags=("--method", "simpleshot"), prepare=average.prepare)
    mini = "mini-imagenet-small-conv4"
    return [
        *(on_birds(f"cub-frn-{seed}", f"FRN, seed {seed}", seed=seed) for seed in range(3)),
        *(on_birds(f"cub-proto-{seed}", f"ProtoNet, seed {seed}", method="proto", seed=seed) for seed in range(3)),
        on_birds("cub-proto-1shot", "ProtoNet, trained at 1 shot", method="proto", way=30, shot=1, epochs=97),
        *(on_birds(f"cub-{m}", label, method=m, **GENTLY.get(m, {})) for m, label in methods.items()),
        *(
            on_birds(f"cub-{m}{suffix}", f"{label}, seed {seed}", method=m, seed=seed)
            for m, label in (("bifrn", "Bi-FRN"), ("srm", "SRM"))
            for seed, suffix in ((0, ""), (1, "-1"), (2, "-2"))
        ),
        at_both("SimpleShot", centred),
        on_birds("mini-frn", "FRN, mini-ImageNet", mini),
        on_birds("mini-proto", "ProtoNet, mini-ImageNet", mini, method="proto"),
    ]


OUR_OWN = (
    Table(
        "cub-small",
        "our own",
        "Methods on birds (CUB cropped, 128 pixels) and on mini-ImageNet, Conv-4 at 84 x 84 (r = 25)",
        cub_small(),
        note="The paper's recipe at an hour per row: every run sees 420,000 images, in episodes of 20-way 5-shot with "
        "5 queries (one ProtoNet in 30-way 1-shot ones), with the same augmentation, schedule and rate; the best of "
        "the validations of a run is tested, once. With covariance pooling the rate rises over the first 200 steps: at "
        "the full rate its temperature turns negative in the first one, and it learns late. The paper, after ten times "
        "as many images: FRN 73.48 and 88.43 % at 1 and 5 shot, ProtoNet 63.21 and 83.88 %, trained at each shot "
        "(Table 3).",
    ),
    Table(
        "cifar-fs",
        "our own",
        "Methods on CIFAR-FS at 32 x 32, Conv-4 without the last pooling (r = 16)",
        cifar_fs(),
        note="Every method has the same episodes (a short run: 24 epochs, 917,000 images), augmentation and "
        "schedule. SimpleShot takes the backbone of as long an average-pooled pre-training, centred on its "
        "training images; FRN after pre-training has 8 more epochs of episodes. Published: ProtoNet by the "
        "R2-D2 paper, R2-D2 (64 channels, its last two maps) by an early version of it, each with its own training. "
        "`docs/lab/recipes.md` discusses the order. With covariance pooling the rate rises over the first 200 steps.",
    ),
    Table(
        "cifar-fs-ablation",
        "our own",
        "FRN's ablations on CIFAR-FS at 32 x 32, Conv-4 without the last pooling (r = 16)",
        cifar_fs_ablation(),
        note="Every row has the budget of `cifar-fs`, where rows of episodes after pre-training have a third more. "
        "After average-pooled pre-training episodes begin with a lambda, rho and gamma that suit it, chosen on the "
        "first ten of them: Table 9 begins with FRN's own. Trained at 1 shot, the rate rises over the first 200 steps: "
        "at the full rate from the first one, gamma falls to a seventh, rho to nothing (beta = -13), and nothing "
        "is learned. The auxiliary loss as the paper writes it swamps the cross-entropy: chance.",
    ),
)
