"""Settings from a `config.toml`, and error messages for unsuitable ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.training.launch import prepare_run
from frn.training.presets import find_preset
from frn.training.presets.preset import deciding_fields
from frn.training.runs.run import RunFolder
from frn.training.runs.run_options import RunOptions


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


def test_retired_settings_of_an_earlier_run_are_ignored(tmp_path: Path) -> None:
    changed = find_preset("cifar-fs-conv4")
    RunFolder(tmp_path).write_config(
        ["frn train x"],
        {"seed": 7, "images": ["a"], **deciding_fields(changed), "freeze_batchnorm": False, "aux_heads": []},
    )
    options = RunOptions(preset="cifar-fs-conv4", config=tmp_path / "config.toml").configured()
    assert options.overridden() == changed
    (tmp_path / "own.toml").write_text("aux_heads = []")
    with pytest.raises(FrnError, match="unknown setting 'aux_heads'"):
        RunOptions(preset="cifar-fs-conv4", config=tmp_path / "own.toml").configured().overridden()
