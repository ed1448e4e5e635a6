"""The shipped model with weights in half precision."""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
<<<<<<< HEAD:tests/export/test_quantise.py
from frn_export.quantise import half, int8
from onnx import TensorProto, numpy_helper
=======
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.half import half
from onnx import TensorProto
>>>>>>> c660f220 (Export without int8):tests/export/test_half.py

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


<<<<<<< HEAD:tests/export/test_quantise.py
def test_full_temporary_folder_gives_a_one_line_error(
    features: bytes, pixels: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(FrnError, match=r"temporary files for int8 cannot be written .* set TMPDIR"):
        int8(features, pixels)
=======
def test_matrices_are_weights_but_vectors_and_other_constants_are_not() -> None:
    graph = GraphBuilder()
    matrix, vector = graph.constant(np.ones((4, 4), np.float32)), graph.constant(np.ones(4, np.float32))
    whole = graph.constant(np.ones((4, 4), np.float32))
    product = graph.node("MatMul", graph.node("Add", "images", whole), matrix)
    graph.node("MatMul", product, vector, output="out")
    model = graph.model({"images": (FLOAT, ("n", 4))}, {"out": (FLOAT, ("n",))}, {}, "small", kind="small")
    smaller = onnx.load_model_from_string(half(model.SerializeToString()))
    kinds = {tensor.name: tensor.data_type for tensor in smaller.graph.initializer}
    assert kinds == {f"{matrix}_half": TensorProto.FLOAT16, vector: TensorProto.FLOAT, whole: TensorProto.FLOAT}
    (cast,) = [node for node in smaller.graph.node if node.op_type == "Cast"]
    assert (list(cast.input), list(cast.output), cast.name) == ([f"{matrix}_half"], [matrix], f"Cast_{matrix}")
>>>>>>> c660f220 (Export without int8):tests/export/test_half.py
