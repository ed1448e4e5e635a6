"""Any head can classify, with the same labels and probabilities as the torch head."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from frn_export.parity import verified_head
from frn_export.web.write import write_page
from torch import Tensor

from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.estimator.loading import load_classifier, load_extractor
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import check_model, open_session, run_session
from frn.heads import HEADS, Head
from frn.heads.vectors.classical import CLASSICAL
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.scorers import OtherHead, as_shots
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from frn.projects.session import Support, build_state
from frn.ridge.unequal import by_content
from tests.commands import frn
from tests.frn.heads.test_baselines import needs_pot
from tests.models import small_model

NO_RUNTIME: Any = None
METHODS = [name for name in HEADS if name not in ("frn", "deepemd", *CLASSICAL)]
"""DeepEMD needs the solvers in the extra `emd`, and its SGD takes seconds per photo. `CLASSICAL` is for evaluation."""


def save(method: str, folder: Path) -> Path:
    save_model(small_model(method), folder / f"{method}.safetensors")
    return folder / f"{method}.safetensors"


@pytest.fixture(scope="module")
def classes(moths: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 2, 3 and 2 photos."""
    folder = tmp_path_factory.mktemp("classes")
    for home, count in zip(sorted((moths / "test").iterdir())[:3], (2, 3, 2), strict=True):
        (folder / home.name).mkdir()
        for photo in sorted(home.iterdir())[:count]:
            (folder / home.name / photo.name).write_bytes(photo.read_bytes())
    return folder


@pytest.fixture(scope="module")
def photo(moths: Path) -> Path:
    return sorted(sorted((moths / "test").iterdir())[0].iterdir())[-1]


def answer(classes: Path, model: Path, photo: Path) -> Prediction:
    classifier, skipped = load_classifier(classes, str(model))
    assert not skipped
    ((_, found),) = classifier.classify([photo])
    assert isinstance(found, Prediction)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_equal_those_of_the_torch_head(method: str, classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save(method, tmp_path)
    model, extractor = load_model(path), load_extractor(path)
    pools = [[outcome for _, outcome in extractor.read(sorted(home.iterdir()))] for home in sorted(classes.iterdir())]
    maps = [np.stack([each.maps for each in pool]) for pool in pools]  # type: ignore[union-attr]
    ((_, query),) = extractor.read([photo])
    repeated = 6 if model.head.unequal else 3
    support = np.stack([pool[by_content(pool)[np.arange(repeated) % len(pool)]] for pool in maps])
    with torch.no_grad():
        logits = model.head(torch.from_numpy(support), torch.from_numpy(query.maps[None]))  # type: ignore[union-attr]
    expected = logits.double().softmax(1)[0].numpy()
    found = answer(classes, path, photo)
    np.testing.assert_allclose(list(found.probabilities.values()), expected, rtol=1e-5, atol=1e-9)
    assert found.label == sorted(home.name for home in classes.iterdir())[expected.argmax()]


@needs_pot
def test_deepemd_classifies(classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save("deepemd", tmp_path)
    single = {home.name: sorted(home.iterdir())[:1] for home in sorted(classes.iterdir())}  # its SGD needs two shots
    classifier = Classifier(load_extractor(path))
    classifier.enroll(single)
    ((_, found),) = classifier.classify([photo])
    assert isinstance(found, Prediction)
    photos = [*(path for members in single.values() for path in members), photo]
    maps = [outcome.maps for _, outcome in load_extractor(path).read(photos)]  # type: ignore[union-attr]
    support, query = torch.from_numpy(np.stack(maps[:-1])[:, None]), torch.from_numpy(maps[-1][None])
    with torch.no_grad():
        expected = load_model(path).head(support, query).double().softmax(1)[0].tolist()
    assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-6)


def test_example_is_classified_by_leave_one_out(classes: Path, tmp_path: Path) -> None:
    path = save("proto", tmp_path)
    homes = {home.name: sorted(home.iterdir()) for home in sorted(classes.iterdir())}
    name, (example, *_) = next(iter(homes.items()))
    found = answer(classes, path, example)
    assert found.example_of == name
    rest = Classifier(load_extractor(path))
    rest.enroll({label: [p for p in photos if p != example] for label, photos in homes.items()})
    ((_, expected),) = rest.classify([example])
    assert isinstance(expected, Prediction)
    assert found.probabilities == pytest.approx(expected.probabilities)


def test_commands_accept_any_head(moths: Path, classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save("bifrn", tmp_path)
    told = json.loads(frn("classify", classes, photo, "--model", path, "--json").stdout)
    assert told["probabilities"] == pytest.approx(answer(classes, path, photo).probabilities, abs=1e-4)
    assert "accuracy" in frn("score", classes, moths / "test", "--model", path).stdout
    project = tmp_path / "moths.frn.json"
    assert frn("enroll", classes, "--model", path, "--out", project).exit_code == 0
    again = json.loads(frn("classify", project, photo, "--json").stdout)
    assert again["probabilities"] == told["probabilities"]
    shown = frn("explain", classes, photo, "--model", path, "--out", tmp_path / "map.png")
    assert "a bifrn model cannot say which parts decided" in shown.stderr


def test_library_accepts_any_head(classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save("simpleshot", tmp_path)
    homes = {home.name: sorted(home.iterdir()) for home in sorted(classes.iterdir())}
    classifier = FewShotClassifier(str(path)).fit(homes)
    expected = answer(classes, path, photo)
    assert classifier.predict([photo]) == [expected.label]
    classifier.export_onnx(tmp_path / "moths.onnx")
    assert in_onnxruntime(tmp_path / "moths.onnx", photo) == pytest.approx(expected.probabilities, abs=2e-3)


def in_onnxruntime(classifier: Path, photo: Path) -> dict[str, float]:
    """Return the probabilities of a `classifier.onnx` by class."""
    session = open_session(classifier.read_bytes(), "classifier.onnx")
    names = json.loads(session.get_modelmeta().custom_metadata_map["frn.classes"])
    (found,) = run_session(session, ["probability"], {"image": np.asarray(open_image(photo))})
    return dict(zip(names, found.tolist(), strict=True))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "lccrn"])
def test_head_exports_as_one_graph_for_any_episode(method: str, tmp_path: Path) -> None:
    graph, difference = verified_head(load_model(save(method, tmp_path)))
    assert difference.share < 1e-5
    check_model(graph, "head.onnx")  # it passes the checks for untrusted files


def test_head_that_is_fixed_to_one_size_is_refused(tmp_path: Path) -> None:
    class Fixed(Head):
        def forward(self, support: Tensor, query: Tensor) -> Tensor:
            return query.mean((1, 2))[:, None].expand(-1, len(support))  # the tracer treats `len` as a fixed number

    model = load_model(save("proto", tmp_path))
    model.head = Fixed()
    with pytest.raises(FrnError, match="cannot be exported as ONNX"):
        verified_head(model)


@pytest.fixture(scope="module")
def exported(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model file with a head without a closed form, and its export folder."""
    home = tmp_path_factory.mktemp("exported")
    path = save("srm", home)
    done = frn("export", "--model", path, "--classes", classes, "--out", home / "out")
    assert done.exit_code == 0, done.stderr
    return path, home / "out"


def test_exported_head_gives_the_same_answers(exported: tuple[Path, Path], classes: Path, photo: Path) -> None:
    path, out = exported
    expected = answer(classes, path, photo)
    found = answer(classes, out / "features.onnx", photo)
    assert found.probabilities == pytest.approx(expected.probabilities, abs=1e-5)
    assert found.known == pytest.approx(expected.known, abs=1e-4)
    assert in_onnxruntime(out / "classifier.onnx", photo) == pytest.approx(expected.probabilities, abs=2e-3)
    session = open_session((out / "classifier.onnx").read_bytes(), "classifier.onnx")
    asked = ["label", "class_error", "explained", "known"]
    label, errors, shares, known = run_session(session, asked, {"image": np.asarray(open_image(photo))})
    assert label == expected.label
    np.testing.assert_allclose(errors, list(expected.errors.values()), atol=5e-3)
    np.testing.assert_allclose(shares, list(expected.explained.values()), atol=5e-3)
    assert known == pytest.approx(expected.known, abs=2e-2)


def test_exported_head_classifies_without_torch(exported: tuple[Path, Path], classes: Path, photo: Path) -> None:
    program = """
import sys
from frn.cli.main import app
try:
    app(sys.argv[1:])
finally:
    assert "torch" not in sys.modules
"""
    words = ["classify", classes, photo, "--model", exported[1] / "features.onnx"]
    done = subprocess.run([sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["proto", "lccrn"])
def test_head_without_an_onnx_form_runs_in_torch(method: str, classes: Path, photo: Path, tmp_path: Path) -> None:
    path, out = save(method, tmp_path), tmp_path / "out"
    done = frn("export", "--model", path, "--out", out, "--weights")
    (out / "head.onnx").unlink(missing_ok=True)
    assert ("its sizes are fixed" in done.stderr) == (method == "lccrn")
    assert answer(classes, out / "features.onnx", photo) == answer(classes, path, photo)


def test_added_model_classifies_with_its_own_head(
    classes: Path, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRN_MODELS", str(tmp_path / "models"))
    path = save("proto", tmp_path)
    assert frn("models", "add", path, "--name", "mine").exit_code == 0
    found = answer(classes, Path("mine"), photo)
    assert found.probabilities == pytest.approx(answer(classes, path, photo).probabilities, abs=1e-5)
    assert (tmp_path / "models" / "mine" / "head.onnx").is_file()
    assert frn("models", "remove", "mine").exit_code == 0


def test_page_refuses_other_heads(classes: Path, tmp_path: Path) -> None:
    classifier, _ = load_classifier(classes, str(save("proto", tmp_path)))
    with pytest.raises(FrnError, match=r"a web page needs an FRN head, but this model has proto\. Use a model trained"):
        write_page(classifier, tmp_path / "page", NO_RUNTIME, replace=False)


def test_extractor_needs_the_head_it_was_exported_with(
    exported: tuple[Path, Path], classes: Path, photo: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "features.onnx"
    copied.write_bytes((exported[1] / "features.onnx").read_bytes())
    with pytest.raises(FrnError, match=r"its srm head must be in the same folder, as head\.onnx"):
        answer(classes, copied, photo)
    config = ModelConfig(backbone="conv4", method="srm", transform=EvaluationTransform(size=32))
    graph, _ = verified_head(Model(config).eval())
    (tmp_path / "head.onnx").write_bytes(graph)
    with pytest.raises(FrnError, match=r"head\.onnx next to it is not the head of this model"):
        answer(classes, copied, photo)


def by_distance(support: Maps, query: Maps) -> Maps:
    """A head whose logits are the negative distances to the mean support."""
    return -np.abs(query.mean((1, 2))[:, None] - support.mean((1, 2, 3)))


def on_a_line(**classes: list[float]) -> Classifier:
    """Enroll photos whose maps are single numbers; the number is also the content key."""
    photos = {name: [Support(Path(f"{x:g}"), f"{x:g}", 1, 1) for x in places] for name, places in classes.items()}
    extractor: Any = SimpleNamespace(shape=(1, 1), where="m.onnx", method="proto", head=None, closer=None)
    classifier = Classifier(extractor, other=OtherHead("proto", by_distance))
    maps = {f"{x:g}": np.full((1, 1), x) for places in classes.values() for x in places}
    classifier.adopt(build_state(photos.items())[0], maps)
    return classifier


def asked(classifier: Classifier, place: float, key: str | None = None) -> list[float]:
    return list(classifier.predict(np.full((1, 1), place), key).errors.values())


def test_error_is_the_negative_log_probability_of_each_class() -> None:
    classifier = on_a_line(a=[0, 2], b=[4, 5], c=[6, 10])  # the means are 1, 4.5 and 8
    rest = np.log(1 + np.exp(-3.5) + np.exp(-7))
    assert asked(classifier, 1) == pytest.approx([rest, rest + 3.5, rest + 7])
    found = classifier.predict(np.full((1, 1), 1.0))
    assert list(found.explained.values()) == pytest.approx([1 - rest, 0, 0])
    assert found.probabilities["a"] == pytest.approx(np.exp(-rest))
    for threshold, unknown in ((found.known, False), (np.nextafter(found.known, 1), True)):
        classifier.threshold_override = threshold
        assert classifier.predict(np.full((1, 1), 1.0)).unknown == unknown
    assert asked(classifier, 5000) == pytest.approx([rest + 7, rest + 3.5, rest])  # the logits are large


def test_an_example_is_compared_with_the_rest_of_its_class() -> None:
    classifier = on_a_line(a=[0, 2], b=[4.5], c=[6, 8, 10])
    rest = np.log(1 + np.exp(-2.5) + np.exp(-6))  # 0 is 2, 4.5 and 8 away from the others
    assert asked(classifier, 0, "0") == pytest.approx([rest, rest + 2.5, rest + 6])
    own = [1 - rest, 1 - np.log(1 + np.exp(-0.5) + np.exp(-4))]  # 2 is 2, 2.5 and 6 away
    assert classifier.leave_one_out["a"] == pytest.approx(own)
    assert list(classifier.leave_one_out) == ["a", "c"]
    assert len(classifier.calibration.known) == 5
    assert classifier.calibration.fitted.weights[4:] == (0, 0)  # there are no distances


@pytest.mark.parametrize(("place", "own"), [(4.5, 1.0), (5.5, np.log1p(np.exp(-2)) + 2)])
def test_the_only_example_of_a_class_has_at_least_the_error_one_and_the_largest(place: float, own: float) -> None:
    classifier = on_a_line(a=[0, 2], b=[place], c=[7, 9])  # 4.5 is 3.5 away from both means
    first, second, third = asked(classifier, place, f"{place:g}")
    gap = 2 * (place - 4.5)
    assert (first, third) == pytest.approx((np.log1p(np.exp(-gap)) + gap, np.log1p(np.exp(-gap))))
    assert second == pytest.approx(own)


@pytest.mark.parametrize(
    ("sizes", "unequal", "shots"),
    [((3, 4, 5), "repeat", 60), ((7, 9), "repeat", 9), ((3, 4, 5), "", 5), ((3, 4, 5), "mean", 1)],
)
def test_photos_are_repeated_to_the_least_common_multiple_of_up_to_six(
    sizes: tuple[int, ...], unequal: str, shots: int
) -> None:
    pools = [np.arange(size, dtype=np.float32)[:, None, None] for size in sizes]
    supports = as_shots(pools, unequal)
    assert supports.shape == (len(sizes), shots, 1, 1)
    for pool, support in zip(pools, supports[:, :, 0, 0], strict=True):
        expected = [pool.mean()] if unequal == "mean" else np.resize(pool, shots)
        assert support.tolist() == list(expected)


def test_a_single_class_explains_everything_but_its_only_example() -> None:
    assert asked(on_a_line(a=[0, 2]), 7) == [0]
    assert asked(on_a_line(a=[0, 2]), 0, "0") == [0]
    assert asked(on_a_line(a=[0]), 0, "0") == [1]
    with pytest.raises(FrnError, match="no classes yet: enroll some first"):
        asked(on_a_line(), 7)


def test_other_heads_have_neither_error_maps_nor_transduction() -> None:
    classifier = on_a_line(a=[0, 2], b=[4])
    with pytest.raises(FrnError, match=r"a proto model has no error maps\. Use one trained with --method frn\."):
        classifier.error_maps(np.zeros((1, 1), np.float32))
    with pytest.raises(FrnError, match="a proto model does not support transductive inference"):
        classifier.predict_all([np.zeros((1, 1), np.float32)], [None], transductive=True)
