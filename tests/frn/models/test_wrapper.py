"""FRN in third-party code: any backbone, any `Dataset`, any features, torch.hub."""

import os
import re
import subprocess
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torchvision.models import resnet18

import frn
from frn import FRN, EpisodeSampler, FewShotClassifier
from frn.backbones import build_backbone
from frn.errors import FrnError
from frn.heads import build_head
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from tests.commands import frn as run
from tests.drawings import MOTHS
from tests.runtimes.environments import packages_in, place_of

ROOT = Path(__file__).parents[3]


class Blobs(Dataset[tuple[Tensor, int]]):
    """Classes made of noise around one pattern per class."""

    def __init__(self, classes: int = 8, images: int = 12, transform: Any = None) -> None:
        generator = torch.Generator().manual_seed(0)
        self.targets = [c for c in range(classes) for _ in range(images)]
        patterns = torch.rand(classes, 3, 4, 4, generator=generator).repeat_interleave(8, 2).repeat_interleave(8, 3)
        noise = 0.3 * torch.randn(len(self.targets), 3, 32, 32, generator=generator)
        self.images, self.transform = patterns[self.targets] + noise, transform

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index]
        return (image if self.transform is None else self.transform(image)), self.targets[index]


def small_network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())


def test_documented_code_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loop in docs/guides/library.md and the first Python lines in the README run unchanged."""
    loop = code_of(ROOT / "docs" / "guides" / "library.md", "FRN(backbone)").replace("episodes=500", "episodes=2")
    monkeypatch.setattr("torchvision.models.resnet18", lambda weights: resnet18(weights=None))
    names: dict[str, Any] = {"dataset": Blobs(6, 15)}
    exec(loop, names)
    assert names["logits"].shape == (50, 5)
    assert names["model"].head.alpha.grad is not None

    monkeypatch.chdir(tmp_path)
    photos = sorted(MOTHS.rglob("*.jpg"))
    for name, photo in zip("abcdx", photos[::4], strict=False):
        (tmp_path / f"{name}.jpg").write_bytes(photo.read_bytes())
    exec(code_of(ROOT / "README.md", "partial_fit"), names)
    assert sorted(names["classifier"].classes_) == ["jay", "owl", "wren"]
    assert FewShotClassifier.load("birds.frn.json").predict(["a.jpg"]).tolist() == ["jay"]
    assert (tmp_path / "birds.onnx").stat().st_size > 1_000_000


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch runs by_class without compiling it
def test_documented_loop_with_torch_compile_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.compile", partial(torch.compile, backend="aot_eager"))  # inductor takes a minute
    dataset = Blobs(6, 15)
    model = FRN(small_network())
    sampler = EpisodeSampler(dataset, way=5, shot=2, queries=2, episodes=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    names = {"dataset": dataset, "model": model, "sampler": sampler, "optimizer": optimizer, "torch": torch}
    before = model.head.get_parameter("alpha").item()
    try:
        exec(
            code_of(ROOT / "docs" / "guides" / "library.md", "torch.compile("),
            names | {"torch": torch, "DataLoader": DataLoader},
        )
    finally:
        torch.compiler.reset()
    assert model.head.get_parameter("alpha").item() != before


@pytest.mark.runtimes
def test_documented_lightning_module_trains(tmp_path: Path) -> None:
    """Lightning is installed beside the packages of the tests, without its own torch."""
    packages = ("lightning", "pytorch-lightning", "lightning-utilities", "torchmetrics")
    folder = packages_in(place_of("lightning", tmp_path), *packages)
    program = "\n".join([LIGHTNING_SETTING, code_of(ROOT / "docs" / "guides" / "library.md", "import lightning")])
    program += "\nassert model.head.alpha.item() != 0\n"
    path = os.pathsep.join([str(ROOT), str(ROOT / "export"), folder])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


LIGHTNING_SETTING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from frn import FRN, EpisodeSampler

labels = torch.arange(6).repeat_interleave(15)
dataset = TensorDataset(torch.randn(90, 3, 32, 32), labels)
dataset.targets = labels.tolist()
sampler = EpisodeSampler(dataset, way=5, shot=2, queries=2, episodes=2)
model = FRN(torch.nn.Conv2d(3, 16, 3, 4))
"""


def code_of(page: Path, mark: str) -> str:
    """Return the Python block on a page that contains this text."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if mark in block)
    return str(found)


def test_processed_support_set_gives_the_same_logits() -> None:
    sampler = EpisodeSampler(Blobs(), way=4, shot=3, queries=2, episodes=1)
    images = torch.stack([Blobs()[index][0] for index in next(iter(sampler))])
    support, labels, query, _ = sampler.split(images)
    for head in (None, build_head("proto", 16)):
        model = FRN(small_network(), head).eval()
        at_once = model(support, labels, query)
        assert at_once.shape == (8, 4)
        torch.testing.assert_close(model.process_support_set(support, labels)(query), at_once)
        order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
        shuffled = model(support[order], 10 * labels[order], query)  # columns are in the order of the labels
        torch.testing.assert_close(shuffled, at_once, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["frn", "proto", "cosine", "mcl", "deepbdc", "proto-tdm"])
def test_classes_may_have_different_numbers_of_supports(name: str) -> None:
    model, maps = FRN(nn.Identity(), build_head(name, 16), scale=1).eval(), torch.randn(9, 4, 16)
    labels = torch.tensor([0, 1, 1, 1])
    repeated = torch.stack([maps[[0, 0, 0]], maps[1:4]])
    torch.testing.assert_close(model(maps[:4], labels, maps[4:]), model.head(repeated, maps[4:]))


def test_head_that_needs_equal_numbers_of_supports_says_so() -> None:
    model, maps = FRN(nn.Identity(), build_head("bifrn", 16)), torch.randn(9, 4, 16)
    with pytest.raises(ValueError, match="BiFRNHead needs the same number of supports for each class"):
        model(maps[:3], torch.tensor([0, 1, 1]), maps[4:])


def test_mismatched_weights_are_reported() -> None:
    model, image = FRN(small_network()), torch.zeros(2, 3, 32, 32)
    with pytest.raises(ValueError, match="after process_support_set"):
        model(image)
    with pytest.raises(ValueError, match="pass support, labels and query"):
        model(image, torch.arange(2))
    with pytest.raises(ValueError, match=r"2 images, but labels have shape \(3,\)"):
        model(image, torch.arange(3), image)
    assert FRN(nn.Flatten()).feature_maps(image).shape == (2, 1, 3072)
    with pytest.raises(ValueError, match=r"the backbone returns \(4,\)"):
        FRN(nn.Sequential(nn.Flatten(), nn.Linear(3072, 1), nn.Flatten(0)))(image, torch.arange(2), image)


def test_episodes_of_any_dataset_are_complete_and_reproducible() -> None:
    dataset: ConcatDataset[tuple[Tensor, int]] = ConcatDataset([Subset(Blobs(), range(3, 80)), Blobs(2, 12)])
    labels = np.array([Blobs().targets[i] for i in range(3, 80)] + Blobs(2, 12).targets)
    samplers = [EpisodeSampler(dataset, way=3, shot=2, queries=4, episodes=5, seed=7) for _ in range(2)]
    first, second = (list(sampler) for sampler in samplers)
    assert first == second
    assert len(samplers[0]) == len(first) == 5
    for episode in first:
        rows = labels[episode].reshape(3, 6)
        assert (rows == rows[:, :1]).all()
        assert len(set(rows[:, 0].tolist())) == 3
        assert len(set(episode)) == 18
    assert list(samplers[0]) != first  # draw the next epoch


def test_missing_labels_are_reported() -> None:
    bare = [torch.zeros(3, 8, 8)] * 6
    with pytest.raises(FrnError, match="list has no targets, labels or samples"):
        EpisodeSampler(bare, way=2, shot=1, queries=1, episodes=1)
    with pytest.raises(FrnError, match="has 6 images but 2 labels"):
        EpisodeSampler(bare, way=2, shot=1, queries=1, episodes=1, labels=[0, 1])
    with pytest.raises(FrnError, match=r"labels have shape \(6, 2\)"):
        EpisodeSampler(bare, way=2, shot=1, queries=1, episodes=1, labels=[(0, 1), (1, 0)] * 3)
    with pytest.raises(FrnError, match="class 'b' has 1 images"):
        EpisodeSampler(bare, way=2, shot=1, queries=1, episodes=1, labels=["a"] * 5 + ["b"])
    assert len(next(iter(EpisodeSampler(bare, way=2, shot=1, queries=1, episodes=1, labels=[0, 1] * 3)))) == 4


def features(noise: float, classes: int = 6) -> tuple[np.ndarray[Any, Any], list[str]]:
    generator = np.random.default_rng(0)
    centres = np.repeat(generator.standard_normal((classes, 24)), 10, axis=0)
    order = generator.permutation(10 * classes)
    vectors = (centres + noise * generator.standard_normal(centres.shape))[order]
    return vectors.astype(np.float32), [f"class {i}" for i in np.repeat(np.arange(classes), 10)[order]]


def test_external_features_are_evaluated() -> None:
    vectors, labels = features(0.05)
    options: dict[str, Any] = {"queries": 4, "episodes": 60}
    easy = frn.evaluate(vectors, labels, **options)
    assert [(result["shot"], result["accuracy"]) for result in easy] == [(1, 100.0), (5, 100.0)]
    hard, _ = features(3.0)
    chance = frn.evaluate(hard, labels, shot=1, method="proto", **options)[0]
    assert 20 < chance["accuracy"] < 90

    maps = hard.reshape(-1, 6, 2, 2)
    tuned = frn.evaluate(maps, labels, shot=5, validation=(maps, labels), **options)[0]
    assert tuned["head"].keys() == {"alpha", "beta", "gamma"}
    with pytest.raises(FrnError, match=r"not \(60, 1, 24\) with labels \(59,\)"):
        frn.evaluate(hard, labels[:-1])
    with pytest.raises(FrnError, match="has layers that need training"):
        frn.evaluate(hard, labels, method="ctx")


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a backbone from an external package."""
    entry = EntryPoint("mine", f"{__name__}:small_network", "frn.backbones")
    monkeypatch.setattr(type(entry), "load", lambda self: {"mine": small_network, "flat": nn.Flatten}[self.name])
    others = {name: EntryPoint(name, "x:y", "frn.backbones") for name in ("mine", "flat")}
    monkeypatch.setattr("frn.backbones.registered", lambda: others)
    return "mine"


def test_a_registered_backbone_can_be_saved_exported_and_used(mine: str, tmp_path: Path, moths: Path) -> None:
    config = ModelConfig(backbone=mine, method="frn", transform=EvaluationTransform(size=32))
    save_model(Model(config), tmp_path / "m.safetensors")
    model = load_model(tmp_path / "m.safetensors")
    assert (model.d, model.grid) == (16, (8, 8))

    result = run("export", "--model", tmp_path / "m.safetensors", "--out", tmp_path / "o")
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(tmp_path / "o" / "features.onnx", providers=["CPUExecutionProvider"])
    images = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        expected = model.feature_maps(images)
    (maps,) = session.run(None, {"images": images.numpy()})
    np.testing.assert_allclose(maps, expected.numpy(), atol=1e-4)

    members = {home.name: sorted(home.iterdir())[:3] for home in sorted((moths / "val").iterdir())[:3]}
    fitted = FewShotClassifier(tmp_path / "o" / "features.onnx", device="cpu").fit(members)
    assert fitted.predict_proba([paths[0] for paths in members.values()]).shape == (3, 3)


def test_a_registered_backbone_is_trained(mine: str, tmp_path: Path, moths: Path) -> None:
    words = ["train", "cifar-fs-conv4", "--backbone", mine, "--data", str(moths), "--out", str(tmp_path / "run")]
    result = run(*words, "--epochs", "1", "--way", "3", "--shot", "2", "--queries", "2", "--aux", "off")
    assert result.exit_code == 0, result.output
    assert load_model(tmp_path / "run").config.backbone == mine


def test_a_registered_backbone_without_maps_is_reported(mine: str) -> None:
    with pytest.raises(FrnError, match=r"backbone 'flat': returns a tensor of \(1, 3072\), not maps"):
        build_backbone("flat", size=32)
    with pytest.raises(FrnError, match=r"unknown backbone 'other'; choose one of: .*mine"):
        build_backbone("other")


def test_public_names_exist_and_are_documented() -> None:
    page = (ROOT / "docs" / "guides" / "library.md").read_text(encoding="utf-8")
    for name in frn.__all__:
        assert getattr(frn, name)
        assert re.search(rf"`{name}\b", page), name
    assert set(frn.__all__) <= set(dir(frn))
