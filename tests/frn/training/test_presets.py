"""Presets, and runs configured by files."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from frn.data.augmentation import Augmentation
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.training.launch import prepare_run
from frn.training.presets import PAPER, PRESETS, Preset, Published, Schedule, find_preset
from frn.training.presets.preset import deciding_fields
from frn.training.runs.run import RunFolder
from frn.training.runs.run_options import RunOptions

CROPS = {
    "RandomResizedCrop(84)": Augmentation(size=84, crop="resized", scale=(0.08, 1.0), jitter=0.4),
    "RandomCrop(84, padding=8)": Augmentation(size=84, crop="padded", padding=8, jitter=0.4),
}
TRANSFORMS = {
    "Resize([92,92]) CenterCrop(84)": EvaluationTransform(size=84, resize=92, square=True),
    "Resize(92) CenterCrop(84)": EvaluationTransform(size=84, resize=92),
    "as is": EvaluationTransform(size=84),
}
COLUMNS = ("name", "method", "step", "val_shot", "tests", "aux", "fixed", "table", "one", "five")


def rows() -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Return every row of the table, typed from the paper, with the common settings of its group."""
    text = (Path(__file__).parent / "paper.toml").read_text(encoding="utf-8")
    for group in tomllib.loads(text)["group"]:
        for line in group["rows"].strip().splitlines():
            yield group, dict(zip(COLUMNS, line.split(), strict=True))


def listed(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


def reported(row: dict[str, str]) -> Published | None:
    if row["table"] == "-":
        return None
    figures = {shot: row[column].split("±") for shot, column in ((1, "one"), (5, "five")) if row[column] != "-"}
    return Published(
        table=int(row["table"]),
        accuracy={shot: float(figure[0]) for shot, figure in figures.items()},
        ci95={shot: float(figure[1]) for shot, figure in figures.items() if len(figure) == 2},
    )


def step(preset: Preset) -> str:
    if not preset.trains_on_episodes:
        return f"batch{preset.pretraining.batch}"
    assert preset.episode.queries == 15
    return f"{preset.episode.way}w{preset.episode.shot}s"


@pytest.mark.parametrize(("group", "row"), [pytest.param(*pair, id=pair[1]["name"]) for pair in rows()])
def test_every_run_of_the_paper_is_as_published(group: dict[str, Any], row: dict[str, str]) -> None:
    preset = PRESETS[row["name"]]
    optimizer: Literal["adam", "sgd"] = "adam" if "adam" in group else "sgd"
    wanted = group[optimizer]
    assert preset.data.prepare == group["data"]
    assert preset.method == row["method"]
    assert preset.backbone == group["backbone"]
    assert preset.last_pool
    assert preset.objective == group.get("stage", "episodes")
    assert preset.pretraining.init_from == group.get("after")
    assert step(preset) == row["step"]
    assert preset.schedule == Schedule(
        epochs=wanted["epochs"],
        milestones=tuple(wanted["drops"]),
        optimizer=optimizer,
        learning_rate=wanted["lr"],
        lr_decay=wanted["factor"],
        momentum=0.9,
        nesterov=True,
        weight_decay=wanted["decay"],
    )
    assert preset.augmentation == CROPS[group["crop"]]
    assert preset.transform == TRANSFORMS[group["eval"]]
    assert preset.data.max_side == {"as is": 84}.get(group["eval"], 224 if "224" in group["data"] else 256)
    assert preset.validation.every == group["val_every"]
    assert (preset.validation.shot or preset.episode.shot) == int(row["val_shot"])
    assert preset.validation.episodes == 1000
    assert preset.validation.split == group.get("val_split", "val")
    assert list(map(str, preset.test_shots)) == listed(row["tests"])
    assert preset.aux == ("reference" if row["aux"] == "aux" else "off")
    assert list(preset.fixed) == listed(row["fixed"])
    assert preset.published == reported(row)


def test_presets_are_exactly_the_documented_ones() -> None:
    small = {"cub-small-conv4", "cub-small-conv4-average", "mini-imagenet-small-conv4"}
    assert set(PAPER) == small | {row["name"] for _, row in rows()}
    assert len(PRESETS) == len(PAPER) + 16
    for preset in PRESETS.values():
        start = preset.pretraining.init_from
        assert start is None or start in PRESETS


def test_every_preset_is_consistent() -> None:
    for name, preset in PRESETS.items():
        assert find_preset(name) == preset
        assert preset.schedule.learning_rate_at(preset.schedule.epochs - 1, 10**6) < preset.schedule.learning_rate


def test_mistyped_name_suggests_similar_ones() -> None:
    with pytest.raises(FrnError, match=r"unknown preset 'cifar-conv4'. Did you mean cifar-fs-conv4"):
        find_preset("cifar-conv4")
    with pytest.raises(FrnError, match="`frn presets` lists them"):
        find_preset("xyz")


def test_the_rate_warms_up_on_request() -> None:
    schedule = Schedule(epochs=10, milestones=(5,), learning_rate=0.1, warm_up=4)
    assert [round(schedule.learning_rate_at(0, step), 5) for step in (0, 1, 3, 4, 99)] == [0.025, 0.05, 0.1, 0.1, 0.1]
    assert round(schedule.learning_rate_at(5, 100), 5) == 0.01


def test_the_rate_falls_at_each_milestone_and_milestones_move_with_the_epochs() -> None:
    schedule = Schedule(epochs=100, milestones=(60, 80), learning_rate=0.1)
    assert [round(schedule.learning_rate_at(epoch, 0), 5) for epoch in (0, 59, 60, 79, 80, 99)] == [
        0.1, 0.1, 0.01, 0.01, 0.001, 0.001,
    ]  # fmt: skip
    assert schedule.scaled_to(10) == Schedule(epochs=10, milestones=(6, 8), learning_rate=0.1)
    assert schedule.scaled_to(1).milestones == ()
    with pytest.raises(FrnError, match="increasing milestones"):
        Schedule(epochs=10, milestones=(8, 6))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[a]\nover = "b"\n[b]\nover = "a"\n', "unknown stage 'a' to start from; choose from a, b"),
        ('[a]\nmethod = "proto"\n', "unknown stage 'None' to start from"),
        ('[a]\nover = "demo"\nepoch = 1\n', r"\[a\]: unknown setting 'epoch'"),
        ("", "unknown stage 'a' to start from"),
    ],
)
def test_recipe_with_a_missing_stage_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(FrnError, match=told):
        find_preset(f"{tmp_path}/recipe.toml:a")


def test_config_of_a_run_can_configure_a_new_run(tmp_path: Path) -> None:
    """Settings from the `config.toml` of a run override any preset, and options override these settings."""
    changed = find_preset("cifar-fs-conv4")
    RunFolder(tmp_path).write_config(["frn train x"], {"seed": 7, "images": ["a"], **deciding_fields(changed)})
    config = tmp_path / "config.toml"
    options = RunOptions(preset="cub-cropped-conv4", config=config).configured()
    assert options.seed == 7
    other = options.overridden()
    assert replace(other, about=changed.about, published=changed.published) == changed
    fewer = RunOptions(preset="cub-cropped-conv4", config=config, lr=0.002, way=7, seed=1).configured()
    assert (fewer.seed, fewer.overridden().schedule.learning_rate, fewer.overridden().episode.way) == (1, 0.002, 7)
    config.write_text('seed = 7\nprecision = "bf16"\n')
    given = RunOptions(preset="demo", config=config, seed=0, precision="auto").configured()
    assert (given.seed, given.precision) == (0, "auto")
    plain = RunOptions(preset="demo").configured()
    assert (plain.seed, plain.precision) == (0, "auto")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lr = 3", "unknown setting 'lr'; choose from method, backbone"),
        ("backbone = 3", "backbone is 3, but must have the type of 'conv4'"),
        ("[schedule]\nepochs = 'two'", r"\[schedule\]: epochs is 'two', but must have the type of 30"),
        ("[schedule]\nmilestones = [1, 'x']", r"milestones is \[1, 'x'\]"),
        ("[augmentation]\ncrop = 'round'", "crop is 'round', but must have the type of 'resized' or 'padded'"),
        ("[schedule]\nlearning_rate = -1", "a positive learning rate"),
        ("[schedule]\nlearning_rate = nan", "a positive learning rate"),
        ("[schedule]\nlr_decay = -0.1", "a positive lr_decay"),
        ("[schedule]\nmomentum = -1.0", "momentum from 0 to 1"),
        ("[schedule]\nmomentum = 0.0", "set nesterov = false"),
        ("[schedule]\nweight_decay = -1.0", "no negative weight decay"),
        ("test_shots = [5, 0]", r"test_shots must be 1 or more, not \[5, 0\]"),
        ("test_shots = []", r"test_shots must be 1 or more, not \[\]"),
        ("seed = 0.0", "seed is 0.0, but must be 0 or more"),
        ("[data]\nbalance = [1.0, inf]", "data set weights must be positive"),
        ("precision = 'bf61'", "precision is 'bf61', but must be one of auto, fp32, bf16"),
        ("x", "is not a TOML file"),
    ],
)
def test_an_unsuitable_config_gives_a_one_line_error(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(FrnError, match=reason):
        RunOptions(preset="demo", config=tmp_path / "run.toml").configured().overridden()


@pytest.mark.parametrize("text", ["method = 'nosuch'", "backbone = 'nosuch'"])
def test_an_unknown_name_is_reported_before_images_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "run.toml").write_text(text)
    monkeypatch.setattr("frn.training.launch.load_splits", lambda *_: pytest.fail("images were decoded"))
    with pytest.raises(FrnError, match=r"unknown (method|backbone) 'nosuch'; choose one of"):
        prepare_run(RunOptions(preset="demo", out=tmp_path / "run", config=tmp_path / "run.toml", device="cpu"))


def test_a_method_has_its_own_auxiliary_loss() -> None:
    for preset, method, aux in (
        ("cub-cropped-conv4-proto-5shot", "frn", "reference"),
        ("cub-cropped-conv4", "proto", "off"),
        ("cub-cropped-conv4-no-aux-5shot", "frn", "off"),
    ):
        assert RunOptions(preset=preset, method=method).overridden().aux == aux


def test_the_configuration_of_a_run_repeats_it_and_unknown_settings_are_refused(tmp_path: Path) -> None:
    changed = find_preset("cifar-fs-conv4")
    RunFolder(tmp_path).write_config(["frn train x"], {"seed": 7, "images": ["a"], **deciding_fields(changed)})
    options = RunOptions(preset="cifar-fs-conv4", config=tmp_path / "config.toml").configured()
    assert options.overridden() == changed
    (tmp_path / "own.toml").write_text("aux_heads = []")
    with pytest.raises(FrnError, match="unknown setting 'aux_heads'"):
        RunOptions(preset="cifar-fs-conv4", config=tmp_path / "own.toml").configured().overridden()
