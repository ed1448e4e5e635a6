"""Any head can classify, with the labels and probabilities of the torch head."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.estimator.loading import load_classifier, load_extractor
from frn.estimator.other_heads import classifier_over
from frn.heads import HEADS
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Prediction
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model

METHODS = [name for name in HEADS if name not in ("frn", "deepemd")]
"""DeepEMD needs the solvers of the extra `emd`, and its SGD takes seconds per photo."""


def save(method: str, folder: Path) -> Path:
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method=method, last_pool=False, transform=EvaluationTransform(size=32))
    save_model(Model(config).eval(), folder / f"{method}.safetensors")
    return folder / f"{method}.safetensors"


@pytest.fixture(scope="module")
def classes(moths: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 2, 4 and 2 photos."""
    folder = tmp_path_factory.mktemp("classes")
    for home, count in zip(sorted((moths / "test").iterdir())[:3], (2, 4, 2), strict=True):
        (folder / home.name).mkdir()
        for photo in sorted(home.iterdir())[:count]:
            (folder / home.name / photo.name).write_bytes(photo.read_bytes())
    return folder


@pytest.fixture(scope="module")
def photo(moths: Path) -> Path:
    return sorted(sorted((moths / "test").iterdir())[0].iterdir())[-1]


def frn(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


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
    support = np.stack([pool if len(pool) == 4 else np.concatenate([pool, pool]) for pool in maps])
    with torch.no_grad():
        logits = model.head(torch.from_numpy(support), torch.from_numpy(query.maps[None]))  # type: ignore[union-attr]
    expected = logits.double().softmax(1)[0].numpy()
    found = answer(classes, path, photo)
    np.testing.assert_allclose(list(found.probabilities.values()), expected, rtol=1e-5, atol=1e-9)
    assert found.label == sorted(home.name for home in classes.iterdir())[expected.argmax()]


def test_example_is_classified_without_itself(classes: Path, tmp_path: Path) -> None:
    path = save("proto", tmp_path)
    homes = {home.name: sorted(home.iterdir()) for home in sorted(classes.iterdir())}
    name, (example, *_) = next(iter(homes.items()))
    found = answer(classes, path, example)
    assert found.example_of == name
    rest = classifier_over(load_extractor(path))
    rest.enroll({label: [p for p in photos if p != example] for label, photos in homes.items()})
    ((_, expected),) = rest.classify([example])
    assert isinstance(expected, Prediction)
    assert found.probabilities == pytest.approx(expected.probabilities)


def test_a_classs_only_example_is_not_recognised(classes: Path, tmp_path: Path) -> None:
    classifier = classifier_over(load_extractor(save("proto", tmp_path)))
    first, second, _ = (sorted(home.iterdir()) for home in sorted(classes.iterdir()))
    classifier.enroll({"one": first[:1], "other": second})
    ((_, found),) = classifier.classify(first[:1])
    assert isinstance(found, Prediction)
    assert found.label == "other"


def test_commands_accept_any_head(moths: Path, classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save("bifrn", tmp_path)
    told = json.loads(frn("classify", classes, photo, "--model", path, "--format", "json").stdout)
    assert told["probabilities"] == pytest.approx(answer(classes, path, photo).probabilities, abs=1e-4)
    assert "bifrn, as trained" in frn("score", classes, moths / "test", "--model", path).stdout
    project = tmp_path / "moths.frn.json"
    assert frn("enroll", classes, "--model", path, "--out", project).exit_code == 0
    again = json.loads(frn("classify", project, photo, "--format", "json").stdout)
    assert again["probabilities"] == told["probabilities"]
    shown = frn("explain", classes, photo, "--model", path, "--out", tmp_path / "map.png")
    assert "a bifrn model has no error maps" in shown.stderr
    refused = frn("export", "--model", path, "--classes", classes, "--out", tmp_path / "o")
    assert "Use one trained with --method frn" in refused.stderr


def test_library_accepts_any_head(classes: Path, photo: Path, tmp_path: Path) -> None:
    path = save("simpleshot", tmp_path)
    homes = {home.name: sorted(home.iterdir()) for home in sorted(classes.iterdir())}
    classifier = FewShotClassifier(str(path)).fit(homes)
    expected = answer(classes, path, photo)
    assert classifier.predict([photo]) == [expected.label]
    with pytest.raises(FrnError, match="a classifier needs an FRN head"):
        classifier.export_onnx(tmp_path / "moths.onnx")


def test_exported_model_of_another_head_says_which_file_to_use(classes: Path, photo: Path, tmp_path: Path) -> None:
    assert frn("export", "--model", save("proto", tmp_path), "--out", tmp_path / "out").exit_code == 0
    with pytest.raises(
        FrnError, match=r"features\.onnx: contains no proto head\. Use the model file or the run folder"
    ):
        answer(classes, tmp_path / "out" / "features.onnx", photo)
