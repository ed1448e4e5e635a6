"""Fine-tuning on few photos: held-out classes, possible episodes, and results at least as good as the initial model."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy
from frn.models.header import ModelConfig, read_header
from frn.models.model import load_model
from frn.models.zoo import shipped_models
from frn.training.finetuning.recipe import finetuning_folders, finetuning_preset, fitted_shape
from frn.training.finetuning.statistics import SHARES
from frn.training.launch import prepare_run
from frn.training.presets import find_preset
from frn.training.presets.preset import deciding_fields, overlay
from frn.training.runs.run import RunFolder
from frn.training.runs.run_options import RunOptions

SHIPPED = shipped_models()


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def photos(tmp_path: Path, moths: Path) -> Path:
    """Ten classes of ten photos without train/ and val/, as users have them."""
    folder = tmp_path / "mine"
    folder.mkdir()
    homes = sorted((moths / "train").iterdir()) + sorted((moths / "val").iterdir())[:2]
    for home in homes:
        (folder / home.name).mkdir()
        for photo in sorted(home.iterdir())[:10]:
            (folder / home.name / photo.name).symlink_to(photo)
    return folder


def test_fine_tuning_on_ten_classes_of_ten_photos_works_and_never_makes_a_model_worse(
    photos: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    told = frn("finetune", photos, "--model", "conv4", "--out", run, "--epochs", 2, "--threads", 1, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert set(found) == {"model", "start", "validation", "seconds"}
    assert found["validation"] >= found["start"] > 20
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validations = [(line["epoch"], line["val_accuracy"]) for line in lines if "val_accuracy" in line]
    assert [epoch for epoch, _ in validations] == [0] * (1 + len(SHARES)) + [1] * 4 + [2] * 4
    assert validations[0][1] == found["start"]
    assert max(accuracy for _, accuracy in validations) == found["validation"]
    model = load_model(run)
    assert model.config == load_model("conv4").config
    assert (model.record["preset"], model.record["finetuned_from"]) == ("shipped-conv4", "conv4")
    again = finetuning_preset(model.config, model.record, [10] * 7, [10] * 3)
    assert again.augmentation == find_preset("shipped-conv4").augmentation


def test_harmful_fine_tuning_keeps_the_original_model(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = frn("finetune", photos, "--model", "conv4", "--out", run, "--epochs", 1, "--lr", 0.5)
    assert told.exit_code == 0, told.output
    assert "no checkpoint was better than the starting model" in told.stdout
    start = load_model("conv4").state_dict()
    assert all(torch.equal(tensor, start[name]) for name, tensor in load_model(run).state_dict().items())


def test_mixture_with_the_initial_weights_can_be_best(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = iter(range(1, 100))  # makes every later validation better
    monkeypatch.setattr(
        "frn.training.loop.summarise", lambda *args, **kwargs: Accuracy(float(next(accuracies)), 1.0, 1)
    )
    run = tmp_path / "run"
    (tmp_path / "c.toml").write_text("[validation]\ninterpolation_weights = [0.75, 0.25]")
    words = ("finetune", photos, "--model", "conv4", "--out", run, "--epochs", 1, "--config", tmp_path / "c.toml")
    assert frn(*words).exit_code == 0
    start, best, last = (load_model(path) for path in ("conv4", run / "best.safetensors", run / "last.safetensors"))
    assert next(accuracies) == 1 + len(SHARES) + 3 + 1
    for before, mixed, after in zip(start.parameters(), best.parameters(), last.parameters(), strict=True):
        assert not torch.equal(before, after)
        torch.testing.assert_close(mixed, before.lerp(after, 0.25))


def test_classes_are_held_out_unless_val_exists(photos: Path, moths: Path) -> None:
    train, val = finetuning_folders(photos, seed=0)
    assert (len(train.names), len(val.names)) == (7, 3)
    assert not set(train.names) & set(val.names)
    assert finetuning_folders(photos, seed=0)[1].names == val.names != finetuning_folders(photos, seed=1)[1].names
    train, val = finetuning_folders(moths, seed=0)
    assert (train.root, val.root) == (moths / "train", moths / "val")
    for home in sorted(photos.iterdir())[3:]:
        for photo in home.iterdir():
            photo.unlink()
        home.rmdir()
    with pytest.raises(FrnError, match="has 3 classes, most with 10 photos or more; fine-tuning needs 10"):
        finetuning_folders(photos, seed=0)


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ([10] * 7, (5, 5, 5)),
        ([60] * 18, (9, 5, 5)),
        ([600] * 100, (20, 5, 5)),
        ([7, 7, 7], (3, 3, 4)),
        ([2, 2], (2, 1, 1)),
        ([1, 30, 30, 30, 30, 30, 30, 30], (5, 5, 5)),  # one small class does not limit the others
    ],
)
def test_episodes_fit_the_available_classes(sizes: list[int], shape: tuple[int, int, int]) -> None:
    way, shot, queries = shape
    assert fitted_shape(sizes) == EpisodeShape(way=way, shot=shot, queries=queries)


def test_too_few_photos_are_reported() -> None:
    with pytest.raises(FrnError, match="only 1 of 3 training classes have two or more photos"):
        fitted_shape([1, 1, 9])


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_model_has_a_matching_preset(name: str) -> None:
    config, record = read_header(SHIPPED[name])
    preset = finetuning_preset(config, record, [46] * 18, [50] * 6)
    assert (preset.backbone, preset.last_pool, preset.transform) == (
        config.backbone,
        config.last_pool,
        config.transform,
    )
    if "preset" in record:  # its recipe is in assets/teaching
        own = find_preset(record["preset"])
        assert (preset.augmentation, preset.data.max_side) == (own.augmentation, own.data.max_side)
    unknown = finetuning_preset(config, {}, [46] * 18, [50] * 6)
    assert unknown.augmentation.size == config.transform.size


def test_a_frozen_network_is_refused() -> None:
    with pytest.raises(FrnError, match="torchvision:resnet18 is a frozen pretrained backbone"):
        finetuning_preset(ModelConfig(backbone="torchvision:resnet18", method="frn"), {}, [9] * 9, [9] * 9)


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
        ("classifier_weight = nan", "a loss weight must be 0 or more, not nan"),
        ("progressive_resizing = [1, 64]", r"a side of 8 to 32 pixels, not \[1, 64\]"),
        ("progressive_resizing = [1, 4]", r"a side of 8 to 32 pixels, not \[1, 4\]"),
        ("progressive_resizing = [-1, 16]", r"progressive_resizing must be a number of epochs"),
        ("test_shots = [5, 0]", r"test_shots must be 1 or more, not \[5, 0\]"),
        ("test_shots = []", r"test_shots must be 1 or more, not \[\]"),
        ("precision = 'bf61'", "precision is 'bf61', but must be one of auto, fp32, bf16"),
        ("x", "is not a TOML file"),
    ],
)
def test_an_unsuitable_config_gives_a_one_line_error(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(FrnError, match=reason):
        RunOptions(preset="demo", config=tmp_path / "run.toml").configured().overridden()


@pytest.mark.parametrize("text", ["method = 'nosuch'", "backbone = 'nosuch'", "aux_heads = ['proto', 'nosuch']"])
def test_an_unknown_name_is_reported_before_images_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "run.toml").write_text(text)
    monkeypatch.setattr("frn.training.launch.load_splits", lambda *_: pytest.fail("images were decoded"))
    with pytest.raises(FrnError, match=r"unknown (method|backbone) 'nosuch'; choose one of"):
        prepare_run(RunOptions(preset="demo", out=tmp_path / "run", config=tmp_path / "run.toml", device="cpu"))


def test_config_accepts_none_integers_and_floats() -> None:
    preset = overlay(find_preset("demo"), tomllib.loads("[validation]\nshot = 1\n[schedule]\nlearning_rate = 1"), "x")
    assert (preset.validation.shot, preset.schedule.learning_rate) == (1, 1)
