"""The documented web service answers as `frn classify --json` does."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "web-service.md"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) < 100
    script = tmp_path_factory.mktemp("service") / "service.py"
    script.write_text(code, encoding="utf-8")
    words = [sys.executable, str(script), str(MOTHS), "0"]
    with processes.started(words, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        yield service.stdout.readline().strip()
        service.kill()


def test_service_answers_photos_as_the_command_does(address: str) -> None:
    with urllib.request.urlopen(address, PHOTO.read_bytes()) as response:
        answer = json.load(response)
    expected = json.loads(frn("classify", MOTHS, PHOTO, "--json").stdout)
    assert answer == {**expected, "image": "photo"}
    with urllib.request.urlopen(address) as response:
        assert json.load(response).keys() == expected["probabilities"].keys()


def test_service_says_why_it_cannot_answer(address: str) -> None:
    for body, headers, status, reason in (
        (b"no photo", {}, 400, "is not an image in a known format"),
        (b"", {"Content-Length": str(1 << 40)}, 413, "at most 64 MiB"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, body, headers))
        assert refused.value.code == status
        error = json.load(refused.value)["error"]
        assert reason in error
        assert not error.startswith("/")
