"""`infer.py` times the code that users run."""

import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import classifier_graph
from infer import enroll_moths, time_classifier, time_command, time_extractor

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.models.zoo import assets_folder


def small(method: str = "frn") -> tuple[Model, Extractor]:
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="conv4", method=method, transform=EvaluationTransform(size=32))).eval()
    return model, Extractor(features_graph(model).SerializeToString(), "small", device="cpu", threads=1)


def test_extractor_and_torch_are_timed_alternately() -> None:
    model, extractor = small()
    milliseconds = time_extractor(model, extractor, batch=2, rounds=1)
    assert set(milliseconds) == {"torch", "onnxruntime"}
    assert min(milliseconds.values()) > 0


def test_classifier_and_its_parts_are_timed_alternately() -> None:
    _, extractor = small()
    classes = enroll_moths(extractor)
    assert len(classes) == 5
    classifier = classifier_graph(extractor.data, classes).SerializeToString()
    milliseconds = time_classifier(extractor, classifier, classes, height=40, width=50, rounds=1)
    assert set(milliseconds) == {"extractor", "library", "classifier"}


def test_processes_are_timed_alternately() -> None:
    extractor = Extractor.open(assets_folder() / "models" / "conv4.onnx", device="cpu", threads=1)
    assert set(time_command(extractor, photos=3, way=2, rounds=1)) == {"bare loop", "frn classify"}


def test_model_without_frn_head_exports_no_classifier() -> None:
    with pytest.raises(FrnError, match="trained as proto; a classifier needs an FRN head"):
        enroll_moths(small("proto")[1])
