"""Models, their files, and weights from elsewhere."""

import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from frn.backbones import build_backbone
from frn.errors import FrnError, FrnWarning
from frn.images.transforms import EvaluationTransform
from frn.models import checkpoint_check
from frn.models.header import ModelConfig, read_header
from frn.models.model import Model, import_reference, load_model, read_weights, save_model, serialise
from frn.models.zoo import assets_folder
from frn.training.presets import find_preset
from tests import processes
from tests.commands import frn
from tests.drawings import DRAWINGS


def small_model(**changes: object) -> Model:
    fields: dict[str, object] = {"backbone": "conv4", "method": "frn", "transform": EvaluationTransform(size=32)}
    return Model(ModelConfig(**{**fields, **changes})).eval()  # type: ignore[arg-type]


def test_saved_model_loads_unchanged(tmp_path: Path) -> None:
    model = small_model(last_pool=False)
    save_model(model, tmp_path / "m.safetensors", {"data": "moths", "validation": {"accuracy": 51.5}})
    loaded = load_model(tmp_path / "m.safetensors")
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded.feature_maps(images), model.feature_maps(images))
    assert loaded.config == model.config
    assert loaded.record == {"data": "moths", "validation": {"accuracy": 51.5}}
    assert read_header(tmp_path / "m.safetensors") == (model.config, loaded.record)
    assert not loaded.training


def test_a_file_that_is_not_a_model_is_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(small_model(), path)
    data = path.read_bytes()
    cases = {
        "short": (data[:100], "is not a readable .safetensors file"),
        "text": (b"hello", "is not a readable .safetensors file"),
        "version": (rewrite(data, version="9"), "has format version 9; this frn"),
        "damage": (data[:-1] + bytes([data[-1] ^ 1]), "is damaged: its checksum"),
        "settings": (data.replace(b"conv4", b"conv5"), "is damaged: its checksum"),
        "config": (rewrite(data, config="{}"), "its header is damaged"),
        "weights": (rewrite(data, config=json.loads(header_of(data)["config"]) | {"method": "proto"}), "do not fit"),
    }
    for name, (content, reason) in cases.items():
        bad = tmp_path / f"{name}.safetensors"
        bad.write_bytes(content)
        with pytest.raises(FrnError, match=reason):
            load_model(bad)
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(FrnError, match="but not an frn model"):
        load_model(tmp_path / "other.safetensors")


def header_of(data: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", data[:8])
    metadata: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return metadata


def rewrite(data: bytes, **changes: object) -> bytes:
    """Write the same file with another header and without a checksum, as version 0.1.0 did."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    del header["__metadata__"]["crc32"]
    header["__metadata__"] |= {k: v if isinstance(v, str) else json.dumps(v) for k, v in changes.items()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def test_model_replaces_a_model_with_a_longer_header(tmp_path: Path) -> None:
    """The first byte of a model file is part of the length of its header."""
    for data in ("moths", "moths" * 10, "moths" * 100):
        save_model(small_model(), tmp_path / "m.safetensors", {"data": data})
        assert load_model(tmp_path / "m.safetensors").record == {"data": data}


@pytest.mark.parametrize(
    "model", sorted((assets_folder() / "models").glob("*.safetensors")), ids=lambda path: path.stem
)
def test_changed_bit_in_a_shipped_model_is_found(model: Path, tmp_path: Path) -> None:
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    changed = tmp_path / model.name
    changed.write_bytes(data)
    with pytest.raises(FrnError, match="its checksum does not match"):
        load_model(changed)


def test_a_pickle_with_more_than_weights_is_refused(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (print, ("this must never run",))

    path = tmp_path / "evil.pth"
    torch.save({"w": Hostile()}, path)
    with pytest.raises(FrnError, match="contains more than weights and is refused"):
        load_model(path)
    path.write_bytes(pickle.dumps({"a": 1})[:-3])
    with pytest.raises(FrnError, match=r"is not a readable torch checkpoint|is refused"):
        load_model(path)
    torch.save({"a": 1}, path)
    with pytest.raises(FrnError, match="is not a state_dict of tensors"):
        load_model(path)
    torch.save({"conv.weight": torch.zeros(1)}, path)
    with pytest.raises(FrnError, match="its weights do not fit"):
        import_reference(path)


def test_model_file_is_reproducible(tmp_path: Path) -> None:
    """safetensors writes the header's fields in random order."""
    model = small_model()
    assert len({serialise(model, {"data": "moths"}) for _ in range(8)}) == 1
    (tmp_path / "m.safetensors").write_bytes(serialise(model, {"data": "mötten"}))
    assert read_header(tmp_path / "m.safetensors") == (model.config, {"data": "mötten"})


@pytest.mark.parametrize("kind", [AssertionError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError])
def test_any_error_in_the_torch_reader_gives_a_one_line_error(
    tmp_path: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise kind("two\nlines")

    torch.save({"a": torch.zeros(1)}, tmp_path / "x.pth")
    monkeypatch.setattr(torch, "load", stumble)
    with pytest.raises(FrnError, match=r"x\.pth: is not a readable torch checkpoint \(.*two.*lines.*\)$"):
        read_weights(tmp_path / "x.pth")


def test_checkpoint_that_needs_unbounded_time_or_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, wide, full = tmp_path / "slow.pth", tmp_path / "wide.pth", tmp_path / "full.pth"
    torch.save({}, tmp_path / "good.pth")
    pairs = b"G" + struct.pack(">d", 1.0) + b"q\x01h\x01\x86" * 60  # nested pairs: comparing two takes 2^60 steps
    hashed = b"\x80\x02}" + pairs + b"K\x01s" + pairs + b"K\x01s."
    with zipfile.ZipFile(tmp_path / "good.pth") as good, zipfile.ZipFile(slow, "w") as bad:
        for entry in good.namelist():
            bad.writestr(entry, hashed if entry.endswith("data.pkl") else good.read(entry))
    monkeypatch.setattr(checkpoint_check, "SECONDS", 0.5)
    with pytest.raises(FrnError, match=r"slow\.pth: is not a readable torch checkpoint: reading it took longer"):
        read_weights(slow)
    monkeypatch.setattr(checkpoint_check, "SECONDS", 20.0)
    torch.save({"a": torch.zeros(1).expand(1 << 20, 1 << 20)}, wide)  # this tensor takes four bytes and fits no model
    with pytest.raises(FrnError, match="its weights do not fit"):
        import_reference(wide)
    with zipfile.ZipFile(full, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1 << 20))
    with pytest.raises(FrnError, match=r"full\.pth: unpacks to 1,048,576 bytes, more than the file's size"):
        read_weights(full)


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [0.5]}, {"mean": ["a", "b", "c"]}, {"std": [1, 2, float("nan")]}, {"backbone": 5}, {"method": None},
        {"transform": {"size": 10**9}}, {"transform": {"size": 84.5}}, {"transform": 3}, {"more": 1},
    ],
)  # fmt: skip
def test_nonsense_header_gives_a_one_line_error(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "m.safetensors"
    save_model(small_model(), path)
    data = path.read_bytes()
    path.write_bytes(rewrite(data, config=json.loads(header_of(data)["config"]) | change))
    with pytest.raises(FrnError, match="its header is damaged") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    path.write_bytes(rewrite(data, record="[1]"))
    with pytest.raises(FrnError, match="its header is damaged"):
        load_model(path)


def run(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    settings = {**clean, "HOME": str(home), "FRN_CACHE": str(home / "ours"), **environment}
    return processes.run([sys.executable, *words], env=settings)


def test_classification_writes_only_the_cache(tmp_path: Path) -> None:
    samples = DRAWINGS
    query = samples / "queries" / "eyed footman 6.jpg"
    answer = run(tmp_path, "-m", "frn", "classify", str(samples / "moths"), str(query), "--json")
    assert answer.returncode == 0, answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


@pytest.mark.parametrize(("given", "kept"), [({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")])
def test_telemetry_is_off_before_onnxruntime_is_imported(tmp_path: Path, given: dict[str, str], kept: str) -> None:
    code = "import frn.features.onnx_runtime, os, sys; "
    code += "print(os.getenv('ORT_DISABLE_TELEMETRY'), 'onnxruntime' in sys.modules)"
    assert run(tmp_path, "-c", code, **given).stdout.split() == [kept, "False"]


@pytest.mark.parametrize(("backbone", "d"), [("conv4", 64), ("resnet12", 640), ("resnet12-small", 256)])
@pytest.mark.parametrize(("side", "last_pool", "grid"), [(84, True, 5), (32, True, 2), (32, False, 4), (50, False, 6)])
def test_map_size_follows_the_image_size(backbone: str, d: int, side: int, last_pool: bool, grid: int) -> None:
    model = Model(ModelConfig(backbone=backbone, method="frn", last_pool=last_pool)).eval()
    assert model.feature_maps(torch.rand(1, 3, side, side + 16)).shape == (1, grid * ((side + 16) // (side // grid)), d)


def test_patch_stem_uses_each_pixel_once() -> None:
    model = Model(ModelConfig(backbone="resnet9-patch4", method="frn", last_pool=False)).eval()
    images = torch.rand(1, 3, 84, 112, requires_grad=True)
    maps = model.feature_maps(images)
    assert maps.shape == (1, 5 * 7, 256)
    maps.sum().backward()
    assert images.grad is not None
    assert (images.grad[..., :80, :112] != 0).float().mean() > 0.99


def test_reconstruction_divides_resnet_maps_and_protonet_does_not() -> None:
    """SM, Hyperparameters: embeddings are downscaled by sqrt(640)."""
    torch.manual_seed(0)
    frn = Model(ModelConfig(backbone="resnet12", method="frn")).eval()
    proto = Model(ModelConfig(backbone="resnet12", method="proto")).eval()
    proto.backbone.load_state_dict(frn.backbone.state_dict())
    images = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(frn.feature_maps(images) * 640**0.5, proto.feature_maps(images))


def test_model_normalises_images_itself() -> None:
    model = Model(ModelConfig(backbone="conv4", method="frn")).eval()
    images = torch.rand(2, 3, 32, 32)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (model.config.mean, model.config.std))
    expected = model.backbone((images - mean) / std).flatten(2).mT
    torch.testing.assert_close(model.feature_maps(images), expected)


def test_bytes_are_refused_as_images() -> None:
    """Otherwise bytes would be normalised as if they were values in [0, 1]."""
    model = Model(ModelConfig(backbone="conv4", method="frn")).eval()
    with pytest.raises(ValueError, match=r"images have dtype torch\.uint8, .*: pass images\.float\(\) / 255"):
        model.feature_maps(torch.zeros(1, 3, 84, 84, dtype=torch.uint8))


def test_an_image_smaller_than_a_location_is_refused() -> None:
    with pytest.raises(FrnError, match=r"images of \(12, 40\) pixels are too small; the minimum is 16"):
        Model(ModelConfig(backbone="conv4", method="frn")).feature_maps(torch.rand(1, 3, 12, 40))


def test_error_about_an_unknown_backbone_lists_the_known_ones() -> None:
    with pytest.raises(
        FrnError, match="unknown backbone 'conv5'; choose one of: conv4, resnet12, resnet12-small, resnet9"
    ):
        build_backbone("conv5")


LAYERS = {"conv": "0", "norm": "1"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Make random weights under the names of the authors' code."""
    model = Model(ModelConfig(backbone="conv4", method="frn"))
    state = {"scale": torch.ones(1), "r": torch.zeros(2)}
    for key, value in model.backbone.state_dict().items():
        _, block, part, name = key.split(".")
        state[f"feature_extractor.layers.{3 * int(block)}.layers.{LAYERS[part]}.{name}"] = value
    torch.save(state, tmp_path / "model_Conv-4.pth")
    return tmp_path / "model_Conv-4.pth"


def photo(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def as_the_authors(image: Image.Image, *, square: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The authors' `test_pre`: resize to 92, then crop the central 84 x 84 pixels."""
    from torchvision.transforms import CenterCrop, Compose, Resize

    return np.asarray(Compose([Resize([92, 92] if square else 92), CenterCrop(84)])(image))


@pytest.mark.parametrize(
    ("preset", "square"), [("cub-cropped-resnet12", True), ("aircraft-conv4", True), ("mini-imagenet-resnet12", False)]
)
def test_preset_defines_the_preprocessing(checkpoint: Path, preset: str, square: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrnWarning)
        transform = load_model(checkpoint, transform=find_preset(preset).transform).config.transform
    image = photo(210, 120)
    right, wrong = (as_the_authors(image, square=kind).astype(int) for kind in (square, not square))
    assert np.abs(transform(image).astype(int) - right).max() <= 1
    assert np.abs(transform(image).astype(int) - wrong).max() > 20
    small = photo(84, 84)
    assert np.array_equal(transform(small), np.asarray(small))  # images of `test_pre` are left unchanged


def test_without_a_preset_a_message_says_that_photos_are_treated_as_uncropped(checkpoint: Path) -> None:
    with pytest.warns(FrnWarning, match=r"weights alone do not record .* --preset NAME"):
        transform = import_reference(checkpoint).config.transform
    image = photo(210, 120)
    assert np.abs(transform(image).astype(int) - as_the_authors(image, square=False)).max() <= 1
    assert np.array_equal(transform(photo(84, 84)), np.asarray(photo(84, 84)))


def test_added_checkpoint_can_be_named_in_every_command(checkpoint: Path) -> None:
    made = frn("models", "add", checkpoint, "--preset", "cub-cropped-conv4", "--name", "cub", "--json")
    assert made.exit_code == 0
    assert "warning" not in made.stderr
    out = Path(json.loads(made.stdout)["cub"]["path"])
    assert load_model("cub").grid == (5, 5)
    model, images = load_model(out), torch.rand(2, 3, 84, 84)
    assert model.config.transform.square
    theirs = load_model(checkpoint, transform=model.config.transform)
    assert torch.equal(model.feature_maps(images), theirs.feature_maps(images))
    with pytest.raises(FrnError, match="already contains its preprocessing"):
        load_model(out, transform=model.config.transform)


def test_commands_print_a_one_line_warning(checkpoint: Path, moths: Path) -> None:
    words = ("eval", checkpoint, "--data", moths, "--shot", 1, "--queries", 2, "--episodes", 2, "--json")
    plain = frn(*words)
    assert plain.exit_code == 0
    assert plain.stderr.startswith("warning: model_Conv-4.pth: weights alone do not record")
