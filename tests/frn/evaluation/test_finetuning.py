"""Fine-tuning on the user's classes: the map of the channels, its measured gain, and the model that it makes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.evaluation import finetuning
from frn.evaluation.finetuning import cross_validate, whitening
from frn.features.feature_cache import Maps
from frn.models.header import read_header
from frn.models.model import load_model
from frn.ridge.tuning import UNTRAINED
from frn.training.presets import find_preset
from frn.training.setup import new_model
from tests.commands import frn


@pytest.fixture(scope="module")
def photos(moths: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of eight photos."""
    folder = tmp_path_factory.mktemp("mine")
    for home in sorted((moths / "test").iterdir())[:3]:
        (folder / home.name).mkdir()
        for photo in sorted(home.iterdir())[:8]:
            (folder / home.name / photo.name).symlink_to(photo)
    return folder


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.evaluation.finetuning.FineTuning.refusal", None)


def disturbed(seed: int) -> list[Maps]:
    """Return four classes that differ in eight channels; in eight others, photos differ much more within a class."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([2 * random.normal(size=(4, 12, 1, 8)), np.zeros((4, 12, 1, 8))], axis=-1)
    classes = np.concatenate([np.zeros((4, 8)), random.normal(size=(4, 8))], axis=1)[:, None, None]
    return list((offsets + classes + 0.7 * random.normal(size=(4, 12, 4, 16))).astype(np.float32))


def test_the_map_evens_out_differences_within_classes_and_keeps_the_energy() -> None:
    pools = disturbed(0)
    channels = whitening(pools)
    np.testing.assert_array_equal(channels, channels.T)

    def variances(maps: list[Maps]) -> NDArray[np.floating]:
        within = np.concatenate([pool.mean(1) - pool.mean((0, 1)) for pool in maps]).astype(np.float64)
        return np.linalg.eigvalsh(within.T @ within)

    mapped = [pool @ channels for pool in pools]
    before, after = variances(pools), variances(mapped)
    shrunk = before / (before / before.mean() + 1)
    np.testing.assert_allclose(after / after.mean(), shrunk / shrunk.mean(), rtol=1e-4)
    assert after[-1] / after[0] < before[-1] / before[0] / 2
    energies = [sum(float(np.square(pool).sum()) for pool in maps) for maps in (pools, mapped)]
    assert energies[1] == pytest.approx(energies[0], rel=1e-5)


def test_the_map_of_single_photos_is_the_identity() -> None:
    np.testing.assert_allclose(whitening([pool[:1] for pool in disturbed(0)]), np.eye(16), atol=1e-6)


def test_held_out_photos_gain_if_photos_differ_in_channels_without_the_class() -> None:
    gains = []
    for seed in range(3):
        before, after, chosen = cross_validate(disturbed(seed), UNTRAINED)
        assert len(before) == len(after) == len(chosen) == 48
        gains.append((after.mean() - before.mean(), chosen.mean() - before.mean()))
    assert np.mean(gains, axis=0).min() > 0.1


@pytest.mark.nightly
def test_the_gain_to_expect_is_smaller_where_the_map_gains_by_chance() -> None:
    """Pure noise: a map that seems to gain was lucky, and photos that had no part in the choice show it."""
    lucky, honest = [], []
    for seed in range(12):
        noise = list(np.random.default_rng(seed).normal(size=(4, 8, 2, 6)).astype(np.float32))
        before, after, chosen = cross_validate(noise, UNTRAINED)
        if (gain := after.mean() - before.mean()) >= 0.02:
            lucky.append(gain)
            honest.append(chosen.mean() - before.mean())
    assert np.mean(honest) < np.mean(lucky) / 2


def test_a_class_whose_photos_are_all_held_out_is_missing() -> None:
    pools = disturbed(0)
    before, *_ = cross_validate([*pools[:3], pools[3][:1]], UNTRAINED)
    assert len(before) == 36


@pytest.mark.parametrize(
    ("after", "chosen", "why"),
    [
        (0.9, 0.9, "the gain on held-out photos is +0.0 points, below 2"),
        (1.0, 0.9, "photos that had no part in the choice gain +0.0 points"),
    ],
)
def test_nothing_is_written_without_a_gain(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float, chosen: float, why: str
) -> None:
    rights = [np.full(50, right) for right in (0.9, after, chosen)]
    monkeypatch.setattr("frn.evaluation.finetuning.cross_validate", lambda *_: rights)
    told = frn("finetune", photos, "--model", "conv4", "--out", tmp_path / "run")
    assert told.exit_code == 3, told.output
    assert f"not worth it: {why}. Nothing was written." in " ".join(told.stdout.split())
    assert told.stdout.splitlines()[-1].endswith("PHOTO --model conv4")
    assert not (tmp_path / "run").exists()
    refused = frn("finetune", photos, "--model", "conv4", "--out", tmp_path / "run", "--json")
    found = json.loads(refused.stdout)
    assert (refused.exit_code, found["model"], found["written"], found["why"]) == (3, "conv4", False, why)


@pytest.mark.usefixtures("always")
def test_a_fine_tuned_model_works_like_any_other(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = frn("finetune", photos, "--model", "conv4", "--out", run, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert set(found) == {"model", "written", "why", "start", "validation", "gain", "expected_gain", "seconds"}
    assert found["model"] == str(run / "best.safetensors")
    _, record = read_header(run / "best.safetensors")
    assert record["finetuned_from"] == "conv4"
    start, tuned = load_model("conv4"), load_model(run)
    assert tuned.config == start.config
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        plain, mapped = start.feature_maps(images), tuned.feature_maps(images)
    pools = [
        np.stack([outcome.maps for _, outcome in load_extractor("conv4").read(sorted(home.iterdir()))])  # type: ignore[union-attr]
        for home in sorted(photos.iterdir())
    ]
    torch.testing.assert_close(mapped, plain @ torch.from_numpy(whitening(pools)), atol=1e-4, rtol=1e-3)
    photo = next(iter(sorted(photos.rglob("*.png"))))
    for precision in ("fp32", "fp16"):  # `frn export` refuses files that differ from the torch model
        exported = tmp_path / precision
        assert (
            frn("export", "--model", run, "--classes", photos, "--precision", precision, "--out", exported).exit_code
            == 0
        )
    answers = [
        json.loads(frn("classify", photos, photo, "--model", model, "--json").stdout)
        for model in (run, tmp_path / "fp32" / "features.onnx")
    ]
    assert answers[0]["label"] == answers[1]["label"] == photo.parent.name
    assert frn("finetune", photos, "--model", "conv4", "--out", run).exit_code == 1
    again = frn("finetune", photos, "--model", run, "--out", tmp_path / "again", "--json")
    assert again.exit_code == 0, again.output
    with pytest.raises(FrnError, match="was adapted by `frn finetune`"):
        new_model(find_preset("shipped-conv4"), 0, tuned)


def test_unsuitable_classes_and_models_are_reported(photos: Path, tmp_path: Path) -> None:
    few = {home.name: sorted(home.iterdir())[:3] for home in photos.iterdir()}
    with pytest.raises(FrnError, match="0 of 3 classes have 4 photos or more; fine-tuning needs two such classes"):
        finetuning.finetune(load_extractor("conv4"), few)
    told = frn("finetune", photos, "--model", "nosuch", "--out", tmp_path / "run")
    assert told.exit_code == 1
    assert "nosuch" in told.stderr
