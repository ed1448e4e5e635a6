"""The accuracy that int8 costs the shipped model, on rendered moths."""

import shutil
from pathlib import Path

import pytest
from frn_export.int8_accuracy import Cost, Sample, draw_sample, measure_cost
from frn_export.quantise import int8
from PIL import Image

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.images.transforms import EvaluationTransform
from frn.models.model import Model, load_model
from frn.models.zoo import shipped_extractors

TRANSFORM = EvaluationTransform(size=32)


@pytest.fixture(scope="module")
def features() -> bytes:
    return shipped_extractors()["conv4"].read_bytes()


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("conv4")


def copy_some(moths: Path, folder: Path, classes: int, images: int) -> Path:
    for home in sorted((moths / "train").iterdir())[:classes]:
        (folder / home.name).mkdir(parents=True)
        for path in sorted(home.iterdir())[:images]:
            shutil.copy(path, folder / home.name)
    return folder


@pytest.fixture
def sample(moths: Path, features: bytes) -> Sample:
    return draw_sample(moths / "val", Extractor(features, "conv4").transform)


@pytest.fixture
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score a hundred episodes instead of a thousand."""
    monkeypatch.setattr("frn_export.int8_accuracy.EPISODES", 100)


def test_every_sixth_image_is_used_for_calibration_and_not_for_testing(sample: Sample) -> None:
    assert sample.calibration.shape == (10, 32, 32, 3)
    assert sample.held_out.shape == (50, 32, 32, 3)
    assert sample.sizes == (10,) * 5
    assert not {image.tobytes() for image in sample.calibration} & {image.tobytes() for image in sample.held_out}


def test_int8_costs_the_shipped_model_little_accuracy(model: Model, features: bytes, sample: Sample) -> None:
    cost = measure_cost(model.head, features, int8(features, sample.calibration), sample)
    assert str(cost.shape) == "5-way 1-shot"
    assert cost.before > 60  # chance level is 20
    assert abs(cost.drop) <= 1
    cost.require(1)


def test_nan_accuracy_loss_is_refused() -> None:
    Cost(EpisodeShape(way=5, shot=1, queries=5), 50.0, 49.0, Path("x")).require(1)
    with pytest.raises(FrnError, match="Use --precision fp16"):
        Cost(EpisodeShape(way=5, shot=1, queries=5), 50.0, float("nan"), Path("x")).require(1)


@pytest.mark.parametrize(
    ("classes", "images", "reason"),
    [
        (1, 12, "has 1 class, but checking int8 needs at least 2 with 8 images each"),
        (3, 7, r"class 'moth 00' has 7 readable images, .* 8 images per class \(2 to calibrate, 6 for an episode\)"),
    ],
)
def test_too_few_classes_or_images_are_reported_with_the_required_number(
    moths: Path, tmp_path: Path, classes: int, images: int, reason: str
) -> None:
    few = copy_some(moths, tmp_path / "few", classes, images)
    with pytest.raises(FrnError, match=reason):
        draw_sample(few, TRANSFORM)


@pytest.mark.usefixtures("few_episodes")
@pytest.mark.parametrize(("classes", "way", "steps"), [(2, 2, (12, 24)), (6, 5, (16, 32, 36, 52, 68, 72))])
def test_eight_images_of_two_classes_are_enough(
    moths: Path, tmp_path: Path, model: Model, features: bytes, classes: int, way: int, steps: tuple[int, ...]
) -> None:
    sample = draw_sample(copy_some(moths, tmp_path / "few", classes, 8), TRANSFORM)
    assert sample.sizes == (6,) * classes
    seen: list[tuple[int, int]] = []
    cost = measure_cost(model.head, features, features, sample, progress=lambda *at: seen.append(at))
    assert str(cost.shape) == f"{way}-way 1-shot"
    assert seen == [(done, steps[-1]) for done in steps]


def test_more_than_sixty_images_are_subsampled_evenly(tmp_path: Path) -> None:
    for name, images in (("jay", 61), ("wren", 60)):
        (tmp_path / name).mkdir()
        for number in range(images):
            Image.new("RGB", (32, 32), (number, 0, 0)).save(tmp_path / name / f"{number:02}.png")
    sample = draw_sample(tmp_path, TRANSFORM)
    assert sample.sizes == (25, 50)
    assert len(sample.calibration) == 6 + 10
