"""All files that state facts about the package agree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from frn.models.zoo import shipped_models
from tests import processes

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "torchvision", "onnxruntime-gpu")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def requirements(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def package(requirement: str) -> str:
    found = re.match(r"[\w-]+", requirement)
    assert found
    return found[0]


def test_the_light_install_includes_everything_except_torch() -> None:
    """uv reads the same file as overrides, in which a package on the platform "never" is not installed."""
    needed = [line.partition(";")[0].strip() for line in PROJECT["dependencies"]]
    lines = requirements("docs/light.txt")
    assert sorted(n for n in lines if ";" not in n) == sorted(n for n in needed if package(n) not in HEAVY)
    assert [n for n in lines if ";" in n] == [f'{name}; sys_platform == "never"' for name in HEAVY]


@pytest.mark.parametrize(("words", "status"), [(["train", "demo", "--out", "x"], 1), (["models"], 0)])
def test_commands_without_torch_work_or_print_the_install_command(
    words: list[str], status: int, tmp_path: Path
) -> None:
    code = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'frn'; from frn.cli.main import run; run()"
    done = processes.run([sys.executable, "-c", code, *words], cwd=tmp_path)
    assert done.returncode == status, done.stderr
    if status:
        assert re.fullmatch(
            r"error: this command needs torch, .* install 'torch>=2.11' 'torchvision>=0.26'\n", done.stderr
        )


def test_package_description_has_no_dead_links() -> None:
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / hook["fragments"][0]["path"]).read_text(encoding="utf-8")
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert re.findall(r"\]\((?!https?:)", text) == []
    assert "5.9 GB with CUDA; install)" in text


def test_the_licence_file_lists_terms_for_every_shipped_model() -> None:
    listed = [ROOT / name for name in PROJECT["license-files"]]
    assert all(path.is_file() for path in listed)
    terms = (ROOT / "assets/models/LICENSE-WEIGHTS").read_text(encoding="utf-8")
    assert [name for name in shipped_models() if name not in terms] == []


def test_ci_actions_are_pinned_by_hash() -> None:
    text = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    assert [use for use in re.findall(r"uses: (\S+)", text) if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", use)] == []
    base = re.search(r"^FROM (\S+)", (ROOT / ".ci/Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert base
    assert re.fullmatch(r"python:[\w.-]+@sha256:[0-9a-f]{64}", base[1])


def test_every_source_file_is_packaged() -> None:
    """Hatch skips everything in .gitignore; `runs/` once removed frn/training/runs from the wheel."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    words = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""
    folders = {
        path.parent for root in ("frn", "export/frn_export", "tui/frn_tui") for path in (ROOT / root).rglob("*.py")
    }
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
