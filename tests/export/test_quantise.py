"""Half precision and int8: sizes, similarity, and the accuracy that they cost."""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from frn_export.int8_accuracy import Cost, Sample, draw_sample, measure_cost
from frn_export.quantise import half, int8
from onnx import TensorProto, numpy_helper
from PIL import Image

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import check_model
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, Pixels
from frn.models.model import Model, load_model
from frn.models.zoo import shipped_extractors
from tests import processes


@pytest.fixture(scope="module")
def features() -> bytes:
    return shipped_extractors()["conv4"].read_bytes()


@pytest.fixture(scope="module")
def pixels(features: bytes, moths: Path) -> Pixels:
    transform = Extractor(features, "conv4").transform
    return np.stack([transform(open_image(path)) for path in sorted(moths.glob("val/*/*.png"))[::3]])


@pytest.fixture(scope="module")
def quantised(features: bytes, pixels: Pixels) -> bytes:
    return int8(features, pixels)


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


def test_int8_quarters_the_file_size_and_keeps_features_similar(
    features: bytes, quantised: bytes, pixels: Pixels
) -> None:
    assert len(quantised) <= 0.3 * len(features)
    assert cosine_distance(features, quantised, pixels) <= 7e-3


def test_int8_weights_have_a_scale_per_channel_and_seven_bits(quantised: bytes) -> None:
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load_model_from_string(quantised).graph.initializer}
    weights = {name: array for name, array in tensors.items() if array.dtype == np.int8 and array.ndim == 4}
    assert len(weights) == 4
    for name, array in weights.items():
        stem = name.removesuffix("_quantized")
        assert tensors[f"{stem}_scale"].shape == (64,)
        assert not tensors[f"{stem}_zero_point"].any()
        assert np.abs(array.astype(int)).max() <= 64


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_quantising_keeps_names_shapes_and_metadata(features: bytes, quantised: bytes, precision: str) -> None:
    smaller = half(features) if precision == "fp16" else quantised
    assert check_model(smaller, "smaller") == check_model(features, "before")
    before, after = onnx.load_model_from_string(features), onnx.load_model_from_string(smaller)
    onnx.checker.check_model(after, full_check=True)
    assert [(opset.domain, opset.version) for opset in after.opset_import] == [("", 18)]
    assert after.producer_name == "frn"
    assert (after.graph.input, after.graph.output) == (before.graph.input, before.graph.output)
    for text in (str(Path.home()), tempfile.gettempdir(), "site-packages", "onnxruntime"):
        assert text.encode() not in smaller


def test_prepared_images_set_the_range_of_the_activations(features: bytes) -> None:
    pixels = np.full((3, 32, 32, 3), 128, np.uint8)
    pixels[0, 0, 0], pixels[0, 1, 1] = 0, 255
    graph = onnx.load_model_from_string(int8(features, pixels)).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = {
        kind: next(node for node in graph.node if node.op_type == kind) for kind in ("Sub", "Div", "QuantizeLinear")
    }
    mean, std = tensors[nodes["Sub"].input[1]], tensors[nodes["Div"].input[1]]
    expected = ((1 - mean) / std).max() - (-mean / std).min()
    assert 255 * tensors[nodes["QuantizeLinear"].input[1]] == pytest.approx(expected, rel=1e-3)


def test_int8_prints_nothing_and_leaves_no_files(
    features: bytes, pixels: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    int8(features, pixels[:3])
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_separate_process_writes_the_same_bytes_without_torch(
    features: bytes, quantised: bytes, pixels: Pixels, tmp_path: Path
) -> None:
    code = (
        "import hashlib, sys; import numpy as np; from frn_export.quantise import half, int8\n"
        "data, pixels = open(sys.argv[1], 'rb').read(), np.load(sys.argv[2])\n"
        "print(*(hashlib.sha256(d).hexdigest() for d in (half(data), int8(data, pixels))), 'torch' in sys.modules)"
    )
    (tmp_path / "features.onnx").write_bytes(features)
    np.save(tmp_path / "pixels.npy", pixels)
    words = [sys.executable, "-c", code, str(tmp_path / "features.onnx"), str(tmp_path / "pixels.npy")]
    result = processes.run(words, check=True)
    expected = [hashlib.sha256(data).hexdigest() for data in (half(features), quantised)]
    assert result.stdout.split() == [*expected, "False"]
    assert result.stderr == ""


def test_full_temporary_folder_gives_a_one_line_error(
    features: bytes, pixels: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(FrnError, match=r"none: temporary files for int8 cannot be written .* set TMPDIR"):
        int8(features, pixels)


TRANSFORM = EvaluationTransform(size=32)


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
