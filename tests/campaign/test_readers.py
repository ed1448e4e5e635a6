"""Well-formed documents and archives with arbitrary content (hypothesis).

`FRN_CAMPAIGN` sets the share of the examples, and `FRN_SEED` selects different ones.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frn.errors import FrnError
from frn.training.runs.run import RunFolder, TrainState
from tests.campaign import archives, files
from tests.campaign.campaign import Part, require_line
from tests.campaign.test_campaign import SEED, SHARE

hypothesis = pytest.importorskip("hypothesis", reason="needs hypothesis: pip install '.[test]'")
st = hypothesis.strategies

pytestmark = pytest.mark.campaign

EXAMPLES = max(1, round(1000 * SHARE))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(st.characters(codec=None))
KNOWN = """
format version classes images model id sha256 preprocess size resize square threshold next_id name path path_b64 key
mtime_ns theme keys recent state supports process born time project adding
"""
NAMES = st.sampled_from(KNOWN.split())
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(NAMES | st.text(), inner), max_leaves=20)


def examples(*strategies: Any) -> Callable[[Callable[..., None]], Any]:
    """Run a test for `EXAMPLES` draws of each strategy."""

    def decorate(test: Callable[..., None]) -> Any:
        checks = [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow]
        usual = hypothesis.settings(max_examples=EXAMPLES, deadline=10_000, database=None, suppress_health_check=checks)
        return hypothesis.seed(SEED)(usual(hypothesis.given(*strategies)(test)))

    return decorate


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FRN_STATE", str(tmp_path))
    return tmp_path


def through(part: Part, data: bytes, folder: Path) -> None:
    """Require a result or a refusal with a one-line error."""
    for left in folder.iterdir():
        if left.is_file():
            left.unlink()
    try:
        part.door(data, folder)
    except FrnError as error:
        require_line(error)


@pytest.mark.parametrize(("kind", "good"), [("projects", "frn-project"), ("settings", ""), ("journals", "frn-journal")])
def test_arbitrary_documents_never_crash_the_reader(kind: str, good: str, state: Path) -> None:
    part = {"projects": files.projects, "settings": files.settings, "journals": files.journals}[kind]()

    @examples(st.dictionaries(NAMES, JSON))
    def check(document: dict[str, object]) -> None:
        through(part, json.dumps({**document, **({"format": good, "version": 1} if good else {})}).encode(), state)

    check()


@examples(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), JSON))
def test_arbitrary_model_headers_are_accepted_or_refused(
    state: Path, metadata: dict[str, str], tensors: dict[str, object]
) -> None:
    header = json.dumps({"__metadata__": {**metadata, "frn.format": "frn-model"}, **tensors}).encode()
    through(files.safetensors(), len(header).to_bytes(8, "little") + header + bytes(64), state)


CONTENT = st.dictionaries(st.text(min_size=1), st.binary(max_size=99), max_size=5)


@examples(CONTENT, st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]))
def test_zips_with_arbitrary_names_are_accepted_or_refused(
    state: Path, content: dict[str, bytes], compression: int
) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    through(archives.zips(), file.getvalue(), state)


@examples(CONTENT, st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]), st.text())
def test_tars_with_arbitrary_names_and_links_are_accepted_or_refused(
    state: Path, content: dict[str, bytes], kind: int, link: str
) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for number, (name, data) in enumerate(content.items()):
            info = tarfile.TarInfo(name)
            info.size, info.linkname = len(data), link
            info.type = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)[number % 4]
            try:
                archive.addfile(info, io.BytesIO(data))
            except (ValueError, UnicodeError):  # a name that is invalid for this kind
                continue
    through(archives.tars(), file.getvalue(), state)


@examples(st.lists(st.dictionaries(st.sampled_from(["total_steps", "loss"]), JSON) | JSON))
def test_arbitrary_metrics_are_accepted_or_refused(state: Path, lines: list[object]) -> None:
    run = RunFolder(state)
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.rewind_metrics(TrainState(total_steps=3))
    assert all(json.loads(line)["total_steps"] <= 3 for line in run.metrics.read_text().splitlines())
