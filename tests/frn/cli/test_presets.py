"""`frn presets` and `frn eval --method`."""

import json
from pathlib import Path

import pytest

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.evaluate_model import with_method
from frn.evaluation.features import TorchExtractor
from frn.models.model import save_model
from frn.training.presets import PRESETS
from tests.commands import frn
from tests.models import small_model


def test_presets_are_listed_by_data_set_with_published_figures() -> None:
    lines = frn("presets").stdout.splitlines()
    blocks = "\n".join(line.rstrip() for line in lines).split("\n\n")
    names = [[line.split()[0] for line in block.splitlines()] for block in blocks[:-1]]
    assert [name for block in names for name in block] == ["preset", *PRESETS]
    assert all(len({PRESETS[name].data.prepare for name in block if name != "preset"}) == 1 for block in names)
    row = next(line for line in lines if line.startswith("cub-raw-resnet12 "))
    assert row.split()[-6:] == ["1200", "83.55", "92.92", "CUB", "raw,", "FRN"]


def test_a_preset_is_shown_in_full() -> None:
    text = frn("presets", "aircraft-resnet12-1shot").stdout
    shown = json.loads(text)
    assert (shown["schedule"]["optimizer"], shown["schedule"]["weight_decay"]) == ("adam", 0.0)
    assert shown["published"]["accuracy"] == {"1": 69.4}
    assert json.loads(frn("presets", "meta-inat-conv4", "--json").stdout)["validation"]["split"] == "test"
    wrong = frn("presets", "meta-inat-conv5")
    assert wrong.exit_code == 1
    assert "Did you mean meta-inat-conv4" in wrong.stderr


def test_fine_tuning_requires_its_initial_model(moths: Path) -> None:
    result = frn("train", "cifar-fs-conv4-finetune", "--data", moths)
    assert result.exit_code == 1
    assert "starts from another run: run `frn train cifar-fs-conv4-pretrain --out RUN` first" in result.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(small_model("proto"), tmp_path / "small.safetensors")
    return tmp_path / "small.safetensors"


def test_frn_head_on_a_trained_backbone_is_tuned_on_the_validation_split(moths: Path, model: Path) -> None:
    words = ("eval", str(model), "--data", str(moths), "--shot", "1", "--queries", "4", "--episodes", "20", "--json")
    assert "head" not in json.loads(frn(*words).stdout)["results"][0]
    chosen = json.loads(frn(*words, "--method", "frn").stdout)["results"][0]["head"]
    assert (chosen["alpha"], chosen["beta"], chosen["gamma"]) != (0, 0, 1)


def test_simpleshot_on_a_trained_backbone_is_centred_on_the_training_images(moths: Path, model: Path) -> None:
    words = ("eval", model, "--data", moths, "--shot", 1, "--queries", 5, "--episodes", 50, "--json")
    answer = json.loads(frn(*words, "--method", "simpleshot").stdout)
    assert answer["method"] == "simpleshot"

    from frn.models.model import load_model

    other = with_method(load_model(model), "simpleshot")
    transform = other.config.transform
    train, test = (load_images(scan(moths / split), transform) for split in ("train", "test"))
    centre = TorchExtractor(other).extract(train).mean((0, 1))
    other.head.get_buffer("centre").copy_(centre)
    shape = EpisodeShape(way=5, shot=1, queries=5)
    maps = TorchExtractor(other).extract(test)
    expected = episode_accuracies(other.head, maps, test.sizes, shape, episodes=range(50), seed=0)
    assert answer["results"][0]["accuracy"] == pytest.approx(100 * expected.mean())
    assert "layers that need training" in frn(*words, "--method", "ctx").stderr
