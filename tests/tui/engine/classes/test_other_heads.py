"""Models with a head other than FRN's in the engine: the same answers as the library, without error maps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.parity import verified_head
from frn_tui.client.protocol import parse
from frn_tui.engine.classes import enrolled_classes
from frn_tui.engine.worker_queues import Job, serve

from frn.estimator.loading import load_classifier, load_extractor
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import open_session, run_session
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.scorers import Comparison
from frn.models.header import ModelConfig
from frn.models.model import Model, save_model
from frn.ridge.enrolment import Array
from tests.models import small_model
from tests.tui.engine.conftest import Engine, first

Photos = dict[str, list[Path]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Extractor of an untrained SRM model; its head is next to it."""
    torch.manual_seed(0)
    transform = EvaluationTransform(size=32)
    model = Model(ModelConfig(backbone="conv4", method="srm", last_pool=False, transform=transform)).eval()
    folder = tmp_path_factory.mktemp("srm")
    (folder / "features.onnx").write_bytes(features_graph(model).SerializeToString())
    (folder / "head.onnx").write_bytes(verified_head(model)[0])
    return folder / "features.onnx"


@pytest.fixture
def few(members: Photos) -> Photos:
    return first(dict(list(members.items())[:3]), 3)


@pytest.fixture
def srm(bare: Engine, exported: Path) -> Engine:
    bare.done("open_model", model=str(exported))
    return bare


def asked(engine: Engine, *paths: Path, **options: Any) -> list[dict[str, Any]]:
    return engine.ask("query", paths=list(map(str, paths)), **options).told("answer")


@pytest.mark.parametrize("method", ["srm", "lccrn"])  # the second has no ONNX form and runs in torch
def test_answers_and_ranks_are_those_of_the_library_without_maps(
    method: str, bare: Engine, few: Photos, members: Photos, exported: Path, tmp_path: Path
) -> None:
    if method == "lccrn":
        model = small_model("lccrn")
        save_model(model, tmp_path / "model.safetensors")
        exported = tmp_path / "features.onnx"
        exported.write_bytes(features_graph(model).SerializeToString())
    opened = bare.done("open_model", model=str(exported))
    assert (opened["head"], opened["has_maps"]) == (method, False)
    state = bare.state(few)
    while (done := bare.done("classes", state=state))["unranked"]:  # a busy machine needs several calls
        pass
    library = Classifier(load_extractor(exported))
    library.enroll(few)
    assert done["threshold"] == pytest.approx(library.threshold, abs=1e-6)
    for report, shares in zip(done["reports"], library.leave_one_out.values(), strict=True):
        assert list(report["explained"].values()) == pytest.approx(shares.tolist(), abs=1e-6)
    assert library.left_out is not None
    errors, labels, *_ = library.left_out
    ranks = (errors < errors[np.arange(len(labels)), labels][:, None]).sum(1)
    assert [rank for report in done["reports"] for rank in report["rank"].values()] == ranks.tolist()
    query = members[next(iter(few))][9]
    (answer,) = asked(bare, query)
    ((_, expected),) = library.classify([query])
    assert isinstance(expected, Prediction)
    names = list(few)
    told = {names[score["id"] - 1]: score["probability"] for score in answer["scores"]}
    assert told == pytest.approx(expected.probabilities, abs=1e-5)
    assert (answer["unknown"], answer["maps"]) == (expected.unknown, {})
    assert answer["nearest"] == ""  # only FRN's head rebuilds photos from examples
    assert "does not support transductive" in bare.ask("query", paths=[str(query), str(query)], jointly=True).reason


def test_examples_that_take_too_long_are_compared_by_the_next_call(
    srm: Engine, few: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = srm.state(few)
    expected = srm.done("classes", state=state)
    srm.done("classes", state={**state, "classes": state["classes"][:2]})
    monkeypatch.setattr(enrolled_classes, "SECONDS", 0.0)
    first_call = srm.done("classes", state=state)
    assert first_call["unranked"] == 9
    assert [report["explained"] for report in first_call["reports"]] == [{}, {}, {}]
    assert first_call["threshold"] == 0
    monkeypatch.setattr(enrolled_classes, "SECONDS", 100.0)
    assert srm.done("classes", state=state) == expected


def test_request_stops_between_two_examples_once_it_is_cancelled(
    srm: Engine, few: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, sent = [], list[Any]()
    job = Job(1, parse({"op": "classes", "state": srm.state(few)}), sent.append)

    def errors_without(scorer: Comparison, maps: Maps, key: str) -> Array:
        seen.append(key)
        job.cancelled.set()
        return np.zeros(3)

    monkeypatch.setattr(Comparison, "errors_without", errors_without)
    serve(srm.handlers["classes"], job)
    assert (len(seen), sent) == (1, [{"id": 1, "end": "cancelled"}])


def test_exports_contain_the_head(srm: Engine, few: Photos, tmp_path: Path) -> None:
    srm.done("classes", state=srm.state(few))
    photo = next(iter(few.values()))[0]
    srm.done("export", path=str(tmp_path / "srm.onnx"), what="classifier")
    session = open_session((tmp_path / "srm.onnx").read_bytes(), "srm.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["frn.classes"]) == list(few)
    (probability,) = run_session(session, ["probability"], {"image": np.asarray(open_image(photo))})
    assert probability.argmax() == 0


def test_bundle_and_project_open_with_the_head(srm: Engine, few: Photos, tmp_path: Path) -> None:
    state = srm.state(few)
    srm.done("classes", state=state)
    srm.done("save", path=str(tmp_path / "srm.frn.json"), state=state)
    assert "head" not in json.loads((tmp_path / "srm.frn.json").read_text())
    srm.done("bundle", path=str(tmp_path / "packed.zip"), state=state)
    project = srm.done("unpack", path=str(tmp_path / "packed.zip"), folder=str(tmp_path / "unpacked"))
    photo = next(iter(few.values()))[0]
    answers = []
    for path in (tmp_path / "srm.frn.json", Path(project)):
        ((_, found),) = load_classifier(path)[0].classify([photo])
        assert isinstance(found, Prediction)
        answers.append(found.probabilities)
    assert answers[0] == pytest.approx(answers[1])
