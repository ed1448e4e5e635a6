"""Pretrained and own backbones."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import normalize
from torchvision import models

from frn.backbones import build_backbone
from frn.backbones.backbone import Backbone
from frn.backbones.folding import folded
from frn.backbones.pretrained import Pretrained, find_weights, packaged_weights, recipe
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig, header
from frn.models.model import Model, Weightless, import_pretrained, load_model, model_file, save_model
from tests import processes


def weights_of(name: str, folder: Path, suffix: str = ".pth", **options: Any) -> Path:
    """Write a file with random weights, including BatchNorm's statistics."""
    state = models.get_model(name, weights=None, **options).state_dict()
    path = folder / f"{name}{suffix}"
    if suffix == ".pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    return path


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_pretrained_maps_are_taken_before_pooling(tmp_path: Path, suffix: str) -> None:
    file = weights_of("resnet18", tmp_path, suffix)
    model = import_pretrained("torchvision:resnet18", file, size=96)
    whole = models.resnet18()
    whole.load_state_dict(torch.load(file) if suffix == ".pth" else load_file(file))
    whole.fc = torch.nn.Identity()
    images = torch.rand(2, 3, 96, 96)
    expected = whole.eval()((images - model.mean) / model.std)
    maps = model.feature_maps(images)
    assert maps.shape == (2, 9, 512)
    assert model.grid == (3, 3)
    torch.testing.assert_close(maps.square().sum(-1).mean(1), torch.ones(2))
    torch.testing.assert_close(normalize(maps.mean(1)), normalize(expected).detach(), rtol=1e-4, atol=1e-5)


def test_head_with_two_networks_refuses_a_pretrained_backbone(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="method 'lccrn' trains 2 networks"):
        import_pretrained("torchvision:resnet18", weights_of("resnet18", tmp_path), size=64, method="lccrn")
    for method, reason in (("ctx", "has layers that need training"), ("simpleshot", "subtracts the mean of training")):
        with pytest.raises(FrnError, match=f"method '{method}' {reason}"):
            import_pretrained("torchvision:resnet18", tmp_path / "resnet18.pth", size=64, method=method)


def test_model_file_stores_the_weights_and_their_source(tmp_path: Path) -> None:
    file = weights_of("resnet18", tmp_path)
    model = import_pretrained("torchvision:resnet18", file, size=64)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    images = torch.rand(1, 3, 64, 64)
    assert torch.equal(again.feature_maps(images), model.feature_maps(images))
    assert "resnet18.pth" in str(again.record["data"])
    assert again.config.untrained_head


def test_pretrained_backbone_stays_frozen(tmp_path: Path) -> None:
    model = import_pretrained("torchvision:resnet18", weights_of("resnet18", tmp_path), size=64).train()
    assert not any(parameter.requires_grad for parameter in model.backbone.parameters())
    assert not any(module.training for module in model.backbone.modules())


def test_images_are_preprocessed_as_the_weights_expect() -> None:
    first, second = (recipe("torchvision:resnet50", Path(f"resnet50-{name}.pth")) for name in ("0676ba61", "11ad3fa6"))
    assert (first.size, first.resize(224), first.mean) == (224, 256, (0.485, 0.456, 0.406))
    assert (second.resize(224), second.resize(112)) == (232, 116)


def test_weights_for_a_different_network_are_refused(tmp_path: Path) -> None:
    file = weights_of("resnet34", tmp_path)  # contains all weights of a ResNet-18, and more
    with pytest.raises(FrnError, match=r'does not match this network: Unexpected.* "layer1\.2'):
        import_pretrained("torchvision:resnet18", file)
    torch.save({"conv1.weight": torch.zeros(64, 3, 7, 7)}, tmp_path / "part.pth")
    with pytest.raises(FrnError, match=r'Missing key.*"bn1\.weight"'):
        import_pretrained("torchvision:resnet18", tmp_path / "part.pth")


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pth")
    with pytest.raises(FrnError, match="contains more than weights and is refused"):
        import_pretrained("torchvision:resnet18", tmp_path / "whole.pth")


def test_message_about_missing_weights_names_the_searched_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(FrnError, match=r"no weights found.*--weights FILE"):
        find_weights("torchvision:resnet18", None)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    expected = weights_of("resnet18", tmp_path).rename(folder / "resnet18-f37072fd.pth")
    assert find_weights("torchvision:resnet18", None) == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torchvision:resnet19", "torchvision has no such classification network"),
        ("torchvision:googlenet", "not supported.*For other networks, use timm:NAME"),
        ("torchvision:", "a pretrained backbone is named"),
        ("torchvision:resnet18@2", "only its last map is supported"),
        ("torchvision:resnet18@0", "not a positive number"),
    ],
)
@pytest.mark.filterwarnings("ignore:The default weight initialization")
def test_a_backbone_without_maps_is_refused(name: str, reason: str) -> None:
    with pytest.raises(FrnError, match=reason):
        Pretrained(name, 40)


@pytest.mark.parametrize(("name", "side", "grid"), [("resnet18", 64, (2, 2)), ("vit_small_patch14_dinov2", 56, (4, 4))])
def test_timm_networks_return_maps(name: str, side: int, grid: tuple[int, int], tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    whole = timm.create_model(name, pretrained=False).eval()
    torch.save(whole.state_dict(), tmp_path / "weights.pth")
    model = import_pretrained(f"timm:{name}", tmp_path / "weights.pth", size=side)
    assert model.grid == grid
    assert model.config.mean == tuple(timm.get_pretrained_cfg(name).mean)
    if name == "resnet18":  # the transformer's positions are resampled, so there is nothing to compare
        images = torch.rand(2, 3, side, side)
        expected = whole.forward_features((images - model.mean) / model.std).flatten(2).mT.detach()
        levelled = expected / expected.square().mean((1, 2), keepdim=True).sqrt()
        torch.testing.assert_close(model.feature_maps(images) * model.d**0.5, levelled, rtol=1e-4, atol=1e-5)


def test_earlier_stage_of_a_timm_network_gives_its_map(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    whole = timm.create_model("resnet18", pretrained=False).eval()
    torch.save(whole.state_dict(), tmp_path / "weights.pth")
    model = import_pretrained("timm:resnet18@2", tmp_path / "weights.pth", size=64)
    save_model(model, tmp_path / "model.safetensors")
    images = torch.rand(2, 3, 64, 64)
    maps = whole.layer3(whole.layer2(whole.layer1(whole.maxpool(whole.act1(whole.bn1(whole.conv1(
        (images - model.mean) / model.std
    )))))))  # fmt: skip
    expected = normalize(maps.flatten(1)).unflatten(1, (256, 16)).mT.detach()
    found = load_model(tmp_path / "model.safetensors").feature_maps(images)
    torch.testing.assert_close(found / 16**0.5, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(FrnError, match=r"resnet18@9: returns no feature map.*--layer"):
        Pretrained("timm:resnet18@9", 64)


@pytest.mark.nightly
def test_small_file_naming_a_huge_network_is_refused_cheaply(tmp_path: Path) -> None:
    """The named network has 644 million weights, but the file contains none."""
    config = ModelConfig(backbone="torchvision:regnet_y_128gf", method="frn", transform=EvaluationTransform(size=384))
    path, bare = tmp_path / "huge.safetensors", tmp_path / "one.safetensors"
    path.write_bytes(model_file({}, header(config, {})))
    save_file({"a": torch.zeros(3)}, bare)
    assert path.stat().st_size < 500
    code = (
        "import pathlib, resource, time, torchvision\nfrom frn.errors import FrnError\n"
        "from frn.models.model import import_pretrained, load_model\n"
        "peak, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()\n"
        f"try: load_model({str(path)!r})\nexcept FrnError as error: print(error)\n"
        f"try: import_pretrained('torchvision:regnet_y_128gf', pathlib.Path({str(bare)!r}))\n"
        "except FrnError as error: print(error)\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak\n"
        "print(time.process_time() - began, grown)\n"
    )
    done = processes.run([sys.executable, "-c", code])
    reason, other, told = done.stdout.splitlines()
    assert f"{bare}: does not match this network: Missing key(s)" in other
    assert "its weights do not fit a frn model on torchvision:regnet_y_128gf (Missing key(s)" in reason
    seconds, grown = map(float, told.split())
    assert grown < 300 << 10  # in KiB; the network takes 3.3 GB with its weights
    assert seconds < 20  # processor seconds: one on an idle machine, 55 with the weights


@pytest.mark.parametrize("name", ["resnet18", "regnet_x_400mf", "swin_t", "convnext_tiny", "efficientnet_b0"])
def test_network_built_without_weights_has_the_same_tensors(name: str) -> None:
    config = ModelConfig(backbone=f"torchvision:{name}", method="frn", transform=EvaluationTransform(size=64))
    with Weightless():
        bare = Model(config).state_dict()
    assert {key: value.shape for key, value in bare.items()} == {
        key: value.shape for key, value in Model(config).state_dict().items()
    }
    assert all(value.is_meta for key, value in bare.items() if key.endswith("weight"))


def lite_weights(folder: Path, network: str = "tf_efficientnet_lite0") -> Path:
    """Random weights of a timm network under the names of the `efficientnet_lite_pytorch` package."""
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    torch.manual_seed(0)
    state = timm.create_model(network).state_dict()
    names = {"conv_stem.weight": "_conv_stem.weight", "classifier.weight": "_fc.weight"}
    file = folder / "lite.pth"
    torch.save({names.get(name, f"_other.{name}"): value for name, value in state.items()}, file)
    return file


def test_efficientnet_package_weights_are_matched_by_order(tmp_path: Path) -> None:
    file = lite_weights(tmp_path)
    model = import_pretrained("timm:tf_efficientnet_lite0", file, size=64)
    assert isinstance(model.backbone, Pretrained)
    own, theirs = model.backbone.maps.net.state_dict(), list(torch.load(file).values())
    assert all(torch.equal(value, theirs[i]) for i, value in enumerate(own.values()))


def test_weights_for_a_different_efficientnet_lite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="does not match this network"):
        import_pretrained("timm:tf_efficientnet_lite0", lite_weights(tmp_path, "tf_efficientnet_lite1"), size=64)


def test_weights_are_found_inside_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_weights"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('a package of weights is not imported')\n")
    (package / "models" / "net.pth").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    assert packaged_weights("some_weights") == package / "models" / "net.pth"
    assert packaged_weights("other_weights") is None


def trained(backbone: Backbone) -> Backbone:
    """Give every normalisation layer statistics and scales as after training."""
    torch.manual_seed(1)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 3)
            module.weight.data.normal_(1, 0.5)
            module.bias.data.normal_()
    return backbone.eval()


def norms(network: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@pytest.mark.parametrize("name", ["conv4", "resnet12-small", "litenet"])
def test_folding_keeps_maps_and_removes_normalisations(name: str) -> None:
    backbone = trained(build_backbone(name, last_pool=True, size=32)).double()
    lean = folded(backbone, 32)
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(lean(images), backbone(images), rtol=1e-9, atol=1e-9)
    assert norms(lean) == 0 < norms(backbone)


def test_folding_does_not_increase_the_bf16_error() -> None:
    backbone = trained(build_backbone("resnet12-small", last_pool=True, size=32))
    lean, images = folded(backbone, 32), torch.randn(16, 3, 32, 32)
    with torch.no_grad():
        exact = backbone(images)
        with torch.autocast("cpu", torch.bfloat16):
            errors = [float((network(images).float() - exact).square().mean()) for network in (backbone, lean)]
    assert 0 < errors[1] < 1.2 * errors[0]


class Crossed(Backbone):
    """These modules are adjacent in the listing but not in the computation."""

    d, stride = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.conv(images)
        return maps + self.norm(maps)


def test_network_that_uses_its_layers_differently_is_not_folded() -> None:
    backbone = trained(Crossed())
    assert folded(backbone, 8) is backbone


@pytest.mark.parametrize(("size", "last_pool", "side"), [(160, True, 5), (150, True, 4), (96, True, 3), (96, False, 6)])
def test_grid_is_that_of_the_map(size: int, last_pool: bool, side: int) -> None:
    backbone = build_backbone("litenet", last_pool=last_pool, size=size).eval()
    with torch.inference_mode():
        maps = backbone(torch.randn(2, 3, size, size))
    assert maps.shape == (2, backbone.d, *backbone.grid(size)) == (2, 320, side, side)


def test_every_map_has_a_mean_square_of_one_even_if_it_is_black() -> None:
    torch.manual_seed(0)
    backbone = build_backbone("litenet", size=64)
    images = torch.cat([torch.randn(3, 3, 64, 64), torch.zeros(1, 3, 64, 64)])
    maps = backbone(images)  # in training mode, so that the statistics are those of these images
    torch.testing.assert_close(maps.square().mean((1, 2, 3)), torch.ones(4), rtol=1e-3, atol=0)
