"""The page that `frn export --web` writes, and its runtime."""

import io
import json
import math
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from frn_export.difference import Difference
from frn_export.web import write
from frn_export.web.runtime import BINARY, SCRIPT, Runtime, read_runtime
from frn_export.web.write import OF_REPORTS, SOURCES, write_page

from frn.errors import FrnError
from frn.estimator.loading import load_classifier, load_extractor
from frn.inference.classifier import Classifier
from frn.inference.unknown.rule import KnownRule
from tests.commands import frn
from tests.drawings import MOTHS, QUERIES


def package(name: str = "onnxruntime-web", version: str = "1.30.0", binary: bytes = b"\0asm rest") -> dict[str, bytes]:
    return {
        "package.json": json.dumps({"name": name, "version": version}).encode(),
        f"dist/{SCRIPT}": b"export {};",
        f"dist/{BINARY}": binary,
    }


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return pack(tmp_path / "onnxruntime-web-1.30.0.tgz", package())


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (package(binary=b"<html>"), "is not WebAssembly"),
        ({"package.json": b"{"}, f"has no package/dist/{SCRIPT}"),
        (package() | {"package.json": b"[]"}, "is not an archive of onnxruntime-web"),
    ],
)
def test_archive_that_is_not_the_runtime_is_refused(files: dict[str, bytes], reason: str, tmp_path: Path) -> None:
    with pytest.raises(FrnError, match=re.escape(reason)):
        read_runtime(pack(tmp_path / "x.tgz", files))


def test_a_file_that_is_too_large_for_a_runtime_is_not_read(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn_export.web.runtime.MAX_WEB_FILE_BYTES", max(map(len, package().values())))
    read_runtime(archive)
    monkeypatch.setattr("frn_export.web.runtime.MAX_WEB_FILE_BYTES", 12)
    with pytest.raises(FrnError, match=r"has no package/package\.json"):
        read_runtime(archive)


@pytest.mark.parametrize(("size", "reason"), [(1 << 30, "is not an archive"), ((1 << 30) + 1, "the limit is")])
def test_archive_of_more_than_a_gibibyte_is_not_opened(size: int, reason: str, tmp_path: Path) -> None:
    with (tmp_path / "x.tgz").open("wb") as file:
        file.truncate(size)  # it takes no space
    with pytest.raises(FrnError, match=reason):
        read_runtime(tmp_path / "x.tgz")


def test_a_page_without_a_runtime_is_written_and_a_later_export_adds_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("export", "--web", tmp_path / "my page", "--model", "conv4")
    done = frn(*words)
    assert (done.exit_code, done.stdout.count("http.server")) == (0, 0)
    assert f"Run `cd {tmp_path} && npm pack onnxruntime-web@1.30.0`, then export the page again" in done.stderr
    assert (tmp_path / "my page" / "page.js").exists()
    (archive := tmp_path / "onnxruntime-web-1.30.0.tgz").write_bytes(b"noise")
    assert "is not an archive of onnxruntime-web (not a gzip file)" in frn(*words).stderr
    pack(archive, package())
    for _ in range(2):  # the second export finds no archive and keeps the runtime
        assert "onnxruntime-web 1.30.0" in frn(*words).stdout
        assert (tmp_path / "my page" / "runtime" / BINARY).exists()
        archive.unlink(missing_ok=True)


def test_page_is_complete_and_requests_nothing_else(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "page"
    words = ("export", "--web", out, "--classes", MOTHS, "--model", "conv4")
    done = frn(*words, "--json")
    assert json.loads(done.stdout)["page_difference"] < 2e-3
    there = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    worker = (out / "sw.js").read_text(encoding="utf-8")
    kept = re.search(r"FILES = (\[.*?\]);", worker)
    assert kept
    assert set(json.loads(kept[1])) == (there - {"sw.js", "SHA256SUMS"}) | {"./"}
    for name in (*SOURCES, *OF_REPORTS, "sw.js"):
        text = (out / name).read_text(encoding="utf-8")
        assert "://" not in text, name
        for imported in re.findall(r'(?:from|src=|href=)\s*"\.?/?([\w./]+)"', text):
            assert imported in there, (name, imported)
    described = json.loads((out / "page.json").read_text(encoding="utf-8"))
    assert [entry["shots"] for entry in described["classes"]] == [5] * 6
    assert described["rule"].keys() >= {"weights", "bias", "gamma", "threshold"}
    r = described["grid"][0] * described["grid"][1]
    assert np.fromfile(out / "supports.bin", "<f4").size == 30 * r * described["channels"]
    frn(*words)
    assert (out / "sw.js").read_text(
        encoding="utf-8"
    ) == worker  # the same page has the same checksum, so browsers keep their cached copy


def test_page_without_classes_removes_earlier_classes(archive: Path, tmp_path: Path) -> None:
    out, rest = tmp_path / "page", ("--model", "conv4")
    assert frn("export", "--web", out, "--classes", MOTHS, *rest).exit_code == 0
    assert frn("export", "--web", out, *rest).exit_code == 0
    assert frn("export", "--web", tmp_path / "bare", *rest).exit_code == 0
    assert (tmp_path / "bare" / "sw.js").read_bytes() == (out / "sw.js").read_bytes()
    assert json.loads((out / "page.json").read_text(encoding="utf-8"))["classes"] == []
    assert not (out / "supports.bin").exists()
    assert not (out / "scores.onnx").exists()


def test_a_different_page_is_not_overwritten(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my home page")
    done = frn("export", "--web", tmp_path, "--model", "conv4")
    assert done.exit_code == 1
    assert "index.html: already exists" in done.stderr
    assert (tmp_path / "index.html").read_text() == "my home page"
    assert not (tmp_path / "page.js").exists()
    for name in (*SOURCES, *OF_REPORTS, "sw.js"):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "index.html").rename(tmp_path / "other" / name)
        refused = frn("export", "--web", tmp_path / "other", "--model", "conv4")
        assert f"{name}: already exists" in refused.stderr
        (tmp_path / "other" / name).rename(tmp_path / "index.html")


def test_exactly_one_of_out_and_web_is_required(tmp_path: Path) -> None:
    assert "pass either --out for ONNX files or --web for a web page" in frn("export").stderr
    assert "either --out for ONNX files or --web" in frn("export", "--out", tmp_path, "--web", tmp_path).stderr
    assert "uses the model as it is" in frn("export", "--web", tmp_path, "--precision", "fp16").stderr


RUNTIME = Runtime("1.30.0", b"export {};", b"\0asm")


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(MOTHS, "conv4", "cpu")[0]


def test_page_states_its_model_its_crop_and_its_rule(classifier: Classifier, tmp_path: Path) -> None:
    write_page(classifier, tmp_path / "page", RUNTIME, replace=False)
    told = json.loads((tmp_path / "page" / "page.json").read_text())
    assert told["channels"] == 64
    assert told["offset"] == 0
    assert told["crop"] == {"size": 32, "length": 35, "square": False, "own": True}
    assert KnownRule(**{**told["rule"], "weights": tuple(told["rule"]["weights"]), "offsets": ()}) == classifier.rule
    assert told["gamma"] == classifier.head.gamma
    assert re.search('"[0-9a-f]{16}"', (tmp_path / "page" / "sw.js").read_text())
    assert told["classes"][0]["photos"] == [f"{number}.jpg" for number in range(1, 6)]
    assert not (tmp_path / "page" / "examples").exists()
    empty = Classifier(load_extractor("conv4", "cpu"))
    write_page(empty, tmp_path / "empty", RUNTIME, replace=False)
    told = json.loads((tmp_path / "empty" / "page.json").read_text())
    assert (told["rule"]["weights"], told["classes"]) == ([], [])


def test_small_copies_of_examples_are_written_on_request(classifier: Classifier, tmp_path: Path) -> None:
    for thumbnails in (True, False):  # a later export without them removes them
        write_page(classifier, tmp_path / "page", RUNTIME, thumbnails=thumbnails, replace=False)
        shown = sorted((tmp_path / "page").glob("examples/*"))
        assert [path.name for path in shown] == sorted(f"{number}.jpg" for number in range(30 * thumbnails))
        assert all(len(path.read_bytes()) < 20_000 for path in shown)
        assert json.loads((tmp_path / "page" / "page.json").read_text())["thumbnails"] == thumbnails


def test_page_has_the_allowances_and_offsets_of_unequal_classes(tmp_path: Path) -> None:
    homes = sorted(MOTHS.iterdir())[:3]
    unequal = Classifier(load_extractor("conv4", "cpu"))
    unequal.enroll({home.name: sorted(home.iterdir())[: 1 + 2 * place] for place, home in enumerate(homes)})
    write_page(unequal, tmp_path / "page", RUNTIME, replace=False)
    page = json.loads((tmp_path / "page" / "page.json").read_text())
    shares, (usual, *_) = zip(*(one.allowance for one in unequal.classes.values()), strict=True)
    assert shares[2] > shares[0] == 0
    assert page["usual"] == usual > 0
    offsets = [page["offset"] * math.log(5 / entry["shots"]) for entry in page["classes"]]
    assert offsets == pytest.approx(unequal.rule.offsets)
    assert offsets[0] > 0
    assert [page["slope"] * math.log(entry["shots"]) for entry in page["classes"]] == pytest.approx(shares)


def test_corrections_are_stored_separately_for_pages_with_different_classes(
    classifier: Classifier, tmp_path: Path
) -> None:
    photos = sorted(MOTHS.glob("*/*"))

    def page_id(name: str, count: int) -> str:
        made = Classifier(classifier.extractor)
        made.enroll({name: photos[:count], "jay": photos[-1:]})
        write_page(made, tmp_path, RUNTIME, replace=False)
        return str(json.loads((tmp_path / "page.json").read_text())["id"])

    first = page_id("owl", 1)
    assert page_id("owl", 1) == first
    assert len({first, page_id("gull", 1), page_id("owl", 2)}) == 3
    assert "key()" in (tmp_path / "page.js").read_text()


def test_graphs_that_differ_write_nothing(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tta, reason in (("auto", "is the same for every photo"), ("views", "cannot classify with --tta views")):
        with pytest.raises(FrnError, match=reason):
            write_page(Classifier(load_extractor("conv4", "cpu", tta)), tmp_path, RUNTIME, replace=False)  # type: ignore[arg-type]
    odd = Classifier(classifier.extractor)
    odd.enroll({"\udcff": [next(QUERIES.iterdir())]})
    with pytest.raises(FrnError, match=r"its name is not valid text \(UTF-8\)\. Rename its folder"):
        write_page(odd, tmp_path, RUNTIME, replace=False)
    monkeypatch.setattr(write, "compare_answers", lambda *_: Difference("page", 1.0, 0.0, "energy"))
    with pytest.raises(FrnError, match="page differs from the original"):
        write_page(classifier, tmp_path, RUNTIME, replace=False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "index.html").write_text("mine")  # found before the graphs are compared
    with pytest.raises(FrnError, match=r"index\.html: already exists"):
        write_page(classifier, tmp_path, RUNTIME, replace=False)


def test_an_archive_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tgz", package())
    data = path.read_bytes()
    assert read_runtime(path).binary.startswith(b"\0asm")
    for place in range(20, len(data) - 1, max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(FrnError):
            read_runtime(path)
