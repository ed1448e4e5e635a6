"""Teaching: stored teacher outputs, losses, and a run that can be resumed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lessons.lesson import start, teach, views
from lessons.matching import SOFTENED, Whitening, neighbour_divergence, seen_through
from lessons.teacher_answers import record_answers
from lessons.teaching_recipe import TeachingRecipe, read_recipe
from PIL import Image
from torch import Tensor, nn

from frn.data.augmentation import Augmentation
from frn.data.batch_augmentation import crop_and_resize
from frn.data.pixel_cache import ConcatImages
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model
from frn.training.losses import distillation_loss
from frn.training.runs.run import RunResult, RunSettings
from tests.benchmarks.scripts import invoke
from tests.frn.training.tiny import sampled, weights

RECIPE = TeachingRecipe(
    size=24, evaluation_size=24, evaluation_resize=24, way=3, per_class=3, batch=8, episode_shares=(1.0,),
    photo_shares=(0.4,), own_sets=1, epochs=2, steps=3,
)  # fmt: skip
IMAGES = ConcatImages((sampled(4, 0, 32), sampled(4, 1, 32)))


class Teacher(nn.Module):
    """A teacher: mean colours of the four quarters, and a linear classifier on them."""

    def __init__(self) -> None:
        super().__init__()
        self.classify = nn.Linear(3, 5)
        self.asked = 0

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        self.asked += len(images)
        maps = nn.functional.adaptive_avg_pool2d(images, 2).flatten(2).mT
        return maps, maps.mean(1)


def model(size: int = 16) -> Model:
    torch.manual_seed(0)
    config = ModelConfig(
        backbone="resnet9-patch4-wide", method="frn", last_pool=False, transform=EvaluationTransform(size=size)
    )
    return Model(config).eval()


def run(out: Path, recipe: TeachingRecipe = RECIPE, *, steps: int | None = None, resume: bool = False) -> RunResult:
    torch.manual_seed(0)
    taken: list[int] = []
    return teach(
        recipe, IMAGES, 1, Teacher(), model(), model(), out, RunSettings(resume=resume),  # type: ignore[arg-type]
        report=lambda step, losses: taken.append(step), stop=lambda: steps is not None and len(taken) >= steps,
    )  # fmt: skip


def test_stopped_teaching_resumes_with_bit_identical_results(tmp_path: Path) -> None:
    assert run(tmp_path / "whole").finished
    assert not run(tmp_path / "parts", steps=4).finished
    assert run(tmp_path / "parts", resume=True).finished
    ours, theirs = (weights(tmp_path / name / "best.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_student_learns_to_agree_with_its_teachers(tmp_path: Path) -> None:
    assert run(tmp_path, replace(RECIPE, epochs=1, steps=40)).finished
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    losses = [float(line.partition('"loss": ')[2].partition(",")[0]) for line in lines]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_the_result_contains_a_share_of_the_initial_weights(tmp_path: Path) -> None:
    name = "backbone.blocks.1.conv1.0.weight"
    began = model().state_dict()[name]
    moved = []
    for kept in (0.0, 0.5):
        run(tmp_path / str(kept), replace(RECIPE, kept=kept))
        moved.append(weights(tmp_path / str(kept) / "best.safetensors")[name] - began)
    torch.testing.assert_close(moved[1], moved[0] / 2)


def test_a_student_of_the_same_backbone_starts_from_its_weights() -> None:
    size = EvaluationTransform(size=64)
    init = Model(ModelConfig(backbone="litenet", method="frn", transform=size, mean=(0.5,) * 3, std=(0.5,) * 3)).eval()
    recipe = replace(RECIPE, backbone="litenet", evaluation_size=64, evaluation_resize=70)
    student, images = start(recipe, init).eval(), torch.rand(2, 3, 64, 64)
    assert student.config == replace(init.config, transform=EvaluationTransform(size=64, resize=70))
    assert torch.equal(student.feature_maps(images), init.feature_maps(images))
    with pytest.raises(FrnError, match="litenet cannot be the start of resnet9-patch6-wide"):
        start(RECIPE, init)


def test_teacher_outputs_are_computed_once_per_photo(tmp_path: Path) -> None:
    teacher = Teacher()
    first = record_answers(teacher, IMAGES, len(IMAGES), tmp_path, lambda done, total: None)
    again = record_answers(teacher, IMAGES, len(IMAGES), tmp_path, lambda done, total: None)
    assert teacher.asked == len(IMAGES)
    assert np.array_equal(first.maps, again.maps)
    assert first.maps.shape == (len(IMAGES), 4, 3)


def test_a_view_of_a_map_is_the_map_of_the_view() -> None:
    ramp = torch.linspace(0, 255, 64).expand(3, 64, 64).clone()
    ramp[1] = ramp[0].T
    extents = np.full((8, 2), 64)
    draw = Augmentation(size=16, crop="resized", scale=(0.3, 0.9)).draw(extents, np.random.default_rng(0))
    images = ramp.byte().expand(8, 3, 64, 64)
    expected = crop_and_resize(images, extents, draw, 16)
    maps = (images.float() / 255).flatten(2).mT
    seen = seen_through(maps, views(draw, extents), 16).mT.unflatten(2, (16, 16))
    assert (seen - expected).abs().max() < 0.03


def test_student_equal_to_its_teacher_has_zero_loss() -> None:
    features, logits = torch.randn(6, 4), torch.randn(6, 5)
    assert neighbour_divergence(features, 3 * features).item() == pytest.approx(0, abs=1e-5)
    assert distillation_loss(logits, logits, SOFTENED).item() == pytest.approx(0, abs=1e-6)
    assert neighbour_divergence(features, torch.randn(6, 4)).item() > 0.1


def test_whitening_takes_the_square_root_of_the_spread() -> None:
    torch.manual_seed(0)
    sample = torch.randn(20000, 2) * torch.tensor([4.0, 1.0]) + 7
    whitened = Whitening(sample)(sample)
    assert whitened.mean(0).abs().max() < 0.01
    assert (whitened.std(0)[0] / whitened.std(0)[1]).item() == pytest.approx(2, rel=0.05)


def test_recipe_for_different_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="the recipe is for 5 labelled data sets, not 1"):
        run(tmp_path, TeachingRecipe())
    (tmp_path / "recipe.toml").write_text("way = 1\n")
    with pytest.raises(FrnError, match="two classes"):
        read_recipe(tmp_path / "recipe.toml")


def test_a_student_is_taught_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "cache"))
    torch.save(timm.create_model("tf_efficientnet_lite0").state_dict(), tmp_path / "teacher.pth")
    for name, part in zip(("named/train", "other"), IMAGES.parts, strict=True):
        for i, image in enumerate(part.images()[:32]):
            file = tmp_path / name / f"kind {i // 8}" / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(file)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "size = 24\nevaluation_size = 24\nevaluation_resize = 24\n"
        "teacher_size = 32\nway = 3\nper_class = 3\nbatch = 4\nepochs = 1\nsteps = 2\n"
        "own_sets = 1\nepisode_shares = [1.0]\nphoto_shares = [0.5]\n"
    )
    words = [recipe, "--data", tmp_path / "named", "--photos", tmp_path / "other", "--out", tmp_path / "run"]
    result = invoke("teach", *words, "--weights", tmp_path / "teacher.pth")
    assert result.exit_code == 0, result.stderr
    taught = load_model(tmp_path / "run")
    assert taught.feature_maps(torch.rand(1, 3, 24, 24)).shape == (1, 1, 384)
    assert taught.record["teacher"] == "timm:tf_efficientnet_lite0"


def test_missing_recipe_data_is_reported() -> None:
    result = invoke("teach", "--photos", "x")
    assert result.exit_code == 1
    assert "teaching takes --photos, and --data 5 times" in " ".join(result.stderr.split())
