"""Model files."""

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models import checkpoint_check
from frn.models.header import ModelConfig, read_header
from frn.models.model import Model, import_reference, load_model, read_weights, save_model, serialise
from frn.models.zoo import assets_folder
from tests import processes
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
