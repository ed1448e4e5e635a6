"""The image decoder, its training, and the images that it regenerates."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from decoding import Decoder, learning_rate_at, load_decoder, train_decoder
from PIL import Image
from typer.testing import CliRunner, Result
from visualize import GAP, Regenerator, app

from frn.data.folders import scan
from frn.data.pixel_cache import StoredImages, load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.model import Model, save_model
from frn.training.runs.run import RunSettings
from tests.models import small_model


def test_resnet12_decoder_has_the_shapes_given_in_the_paper() -> None:
    with torch.device("meta"):
        decoder = Decoder(640, grid=5, size=84)
        x = torch.empty(2, 640, 5, 5)
        shapes = []
        for block in decoder.blocks:
            x = block(x)
            shapes.append(tuple(x.shape[1:]))
        assert shapes == [(512, 10, 10), (256, 20, 20), (128, 40, 40), (64, 80, 80)]
        assert decoder(torch.empty(2, 25, 640)).shape == (2, 3, 84, 84)


SHAPE = EpisodeShape(way=3, shot=2, queries=2)


def small(method: str = "frn") -> Model:
    return small_model(method)


@pytest.fixture
def images(moths: Path) -> StoredImages:
    return load_images(scan(moths / "test"), EvaluationTransform(size=32))


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_rate_falls_to_a_quarter_after_each_fifth_of_the_epochs() -> None:
    rates = [learning_rate_at(epoch, 200) for epoch in (0, 39, 40, 80, 199)]
    assert rates == pytest.approx([0.01, 0.01, 0.01 / 4, 0.01 / 16, 0.01 / 256])


@pytest.mark.nightly
def test_decoder_learns_without_changing_its_model(images: StoredImages, tmp_path: Path) -> None:
    model = small()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trained = train_decoder(model, images, tmp_path / "run", RunSettings(), epochs=8, batch=12)
    assert trained.finished
    measured = losses(tmp_path / "run")
    assert len(measured) == 8 * 5
    assert np.mean(measured[-5:]) < 0.7 * np.mean(measured[:5])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_used_folder_and_different_settings_or_models_are_refused(images: StoredImages, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_decoder(small(), images, run, RunSettings(), epochs=1, batch=30)
    with pytest.raises(FrnError, match=r"already contains a run\. Add --resume"):
        train_decoder(small(), images, run, RunSettings(), epochs=1, batch=30)
    with pytest.raises(FrnError, match=r"different settings .*seed was 0 and is 1"):
        train_decoder(small(), images, run, RunSettings(seed=1, resume=True), epochs=1, batch=30)
    other = small()
    with torch.no_grad():
        next(other.backbone.parameters()).mul_(2)
    with pytest.raises(FrnError, match="was trained on the feature maps of another model"):
        load_decoder(run, other)
    save_model(other, tmp_path / "model.safetensors")
    with pytest.raises(FrnError, match="contains no decoder"):
        load_decoder(tmp_path, other)
    with pytest.raises(FrnError, match="contains no decoder"):
        load_decoder(tmp_path / "none", other)


def test_errors_equal_those_computed_by_hand(images: StoredImages) -> None:
    model = small()
    regenerator = Regenerator(model, Decoder.of(model).eval(), images)
    sampled = np.array([[label * 12 + number for number in range(4)] for label in (3, 0, 1)])

    def regenerate(query: int, members: list[int]) -> float:
        """Decode one image from its own map, or from a plain ridge regression on the members' maps (Eq. 8)."""
        pixels = torch.from_numpy(images.images()[[query, *members]]).permute(0, 3, 1, 2)
        with torch.no_grad():
            maps = 8 * model.feature_maps(pixels / 255)
            target, pool = maps[0].double(), maps[1:].flatten(0, 1).double()
            if members:
                lam = len(pool) / 64 + 1e-6
                target = target @ pool.T @ torch.linalg.inv(pool @ pool.T + lam * torch.eye(len(pool))) @ pool
            picture = regenerator.decoder(target.float()[None])[0]
        return (picture - (pixels[0] / 127.5 - 1)).square().mean().sqrt().item()

    own: list[float] = []
    same: list[float] = []
    other: list[float] = []
    for label, row in enumerate(sampled.tolist()):
        for query in row[SHAPE.shot :]:
            own.append(regenerate(query, []))
            for rebuilder, members in enumerate(sampled[:, : SHAPE.shot].tolist()):
                (same if rebuilder == label else other).append(regenerate(query, members))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("visualize.evaluation_episode", lambda *args, **kwargs: sampled)
        found = regenerator.trial(SHAPE, seed=0, index=0)
    assert found == pytest.approx([np.mean(own), np.mean(same), np.mean(other)], rel=1e-3)


def test_a_model_without_reconstruction_is_reported(images: StoredImages) -> None:
    proto = small("proto")
    with pytest.raises(FrnError, match="a proto model does not reconstruct"):
        Regenerator(proto, Decoder.of(proto), images)


def test_visualize_commands_train_and_render(moths: Path, tmp_path: Path) -> None:
    save_model(small(), tmp_path / "model.safetensors")
    model, run, out = tmp_path / "model.safetensors", tmp_path / "run", tmp_path / "grid.png"
    train = ("train", model, "--data", moths, "--out", run)
    result = frn(*train, "--epochs", 2, "--batch", 48, "--threads", 1, "--precision", "fp32")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("trained 4 steps in ")
    render = ("render", model, "--decoder", run, "--data", moths, "--out", out)
    options = ("--shot", 3, "--trials", 5, "--threads", 1)
    result = frn(*render, *options)
    assert result.exit_code == 0, result.stderr
    found = re.findall(r"^(\S+) (?:feature map|reconstruction) +(\S+) ± (\S+)$", result.stdout, re.MULTILINE)
    assert [name for name, _, _ in found] == ["ground-truth", "same-class", "other-class"]
    assert all(0 < float(error) < 2 and float(ci95) > 0 for _, error, ci95 in found)
    with Image.open(out) as image:
        assert image.size == ((3 + 6) * (32 + GAP), 5 * (32 + GAP))
    other = frn(*render[:-1], tmp_path / "grid.jpg", *options)
    assert (other.exit_code, "grid.jpg: the grid must end in .png" in other.stderr) == (1, True)
    assert not (tmp_path / "grid.jpg").exists()
    again = frn(*train)
    assert (again.exit_code, again.stderr.splitlines()[-1].startswith("error: ")) == (1, True)
