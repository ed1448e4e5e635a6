"""`infer.py` times the code that users run."""

import pytest
import torch
from frn_export.graphs.backbone import features_graph
from infer import enroll_moths, time_command

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


def test_processes_are_timed_alternately() -> None:
    extractor = Extractor.open(assets_folder() / "models" / "conv4.onnx", device="cpu", threads=1)
    assert set(time_command(extractor, photos=3, way=2, rounds=1)) == {"bare loop", "frn classify"}


def test_model_without_frn_head_exports_no_classifier() -> None:
    with pytest.raises(FrnError, match="trained as proto; a classifier needs an FRN head"):
        enroll_moths(small("proto")[1])
