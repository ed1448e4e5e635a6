"""The shipped model with weights in half precision."""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from frn_export.half import half
from onnx import TensorProto

from frn.features.extractor import Extractor
from frn.features.onnx_runtime import check_model
from frn.images.opening import open_image
from frn.images.transforms import Pixels
from frn.models.zoo import shipped_extractors
from tests import processes


@pytest.fixture(scope="module")
def features() -> bytes:
    return shipped_extractors()["conv4"].read_bytes()


@pytest.fixture(scope="module")
def pixels(features: bytes, moths: Path) -> Pixels:
    transform = Extractor(features, "conv4").transform
    return np.stack([transform(open_image(path)) for path in sorted(moths.glob("val/*/*.png"))[::3]])


def cosine_distance(before: bytes, after: bytes, pixels: Pixels) -> float:
    a, b = (Extractor(data, "m", threads=1).feature_maps(pixels).reshape(len(pixels), -1) for data in (before, after))
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((1 - (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).max())


def test_half_precision_halves_the_file_size_and_keeps_features_similar(features: bytes, pixels: Pixels) -> None:
    smaller = half(features)
    assert len(smaller) <= 0.51 * len(features)
    assert cosine_distance(features, smaller, pixels) <= 1e-5


def test_only_weights_are_stored_in_half_precision(features: bytes) -> None:
    tensors = onnx.load_model_from_string(half(features)).graph.initializer
    kinds = [(len(tensor.dims), tensor.data_type) for tensor in tensors]
    assert sorted(kinds).count((4, TensorProto.FLOAT16)) == 4
    assert kinds.count((4, TensorProto.FLOAT)) == 2  # mean and standard deviation of the normalisation
    assert kinds.count((1, TensorProto.FLOAT)) == 4  # biases


def test_half_precision_keeps_names_shapes_and_metadata(features: bytes) -> None:
    smaller = half(features)
    assert check_model(smaller, "smaller") == check_model(features, "before")
    before, after = onnx.load_model_from_string(features), onnx.load_model_from_string(smaller)
    onnx.checker.check_model(after, full_check=True)
    assert [(opset.domain, opset.version) for opset in after.opset_import] == [("", 18)]
    assert after.producer_name == "frn"
    assert (after.graph.input, after.graph.output) == (before.graph.input, before.graph.output)
    for text in (str(Path.home()), tempfile.gettempdir(), "site-packages", "onnxruntime"):
        assert text.encode() not in smaller


def test_a_separate_process_writes_the_same_bytes_without_torch(features: bytes, tmp_path: Path) -> None:
    code = (
        "import hashlib, sys; from frn_export.half import half\n"
        "print(hashlib.sha256(half(open(sys.argv[1], 'rb').read())).hexdigest(), 'torch' in sys.modules)"
    )
    (tmp_path / "features.onnx").write_bytes(features)
    words = [sys.executable, "-c", code, str(tmp_path / "features.onnx")]
    result = processes.run(words, check=True)
    assert result.stdout.split() == [hashlib.sha256(half(features)).hexdigest(), "False"]
    assert result.stderr == ""
