"""Hints give an install command that works."""

import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from frn.system.extras import EXTRAS, install_command
from tests.commands import frn

ROOT = Path(__file__).parents[3]


def test_extras_need_the_packages_listed_in_pyproject() -> None:
    published = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: list(needs) for name, needs in EXTRAS.items()} == {
        name: needs for name, needs in published.items() if name not in ("test", "docs", "dev", "samples")
    }


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_is_a_command_of_the_running_python_that_needs_no_published_package(extra: str) -> None:
    python, *words = shlex.split(install_command(extra))
    assert python == sys.executable
    assert words[:3] == ["-m", "pip", "install"]
    assert not any("frn" in word for word in words)


def test_missing_timm_gives_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("timm", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    for more in ([], ["--weights", __file__]):
        result = frn("models", "add", "timm:vit_tiny_patch16_224", *more)
        assert result.exit_code == 1
        assert (
            result.stderr.splitlines()[-1]
            == f"error: timm: networks need timm, which is not installed: {install_command('timm')}"
        )
