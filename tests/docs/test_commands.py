"""Every command in README and docs/ is run here, or only parsed if running it takes too long."""

import argparse
import ast
import importlib
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from frn_tui.main import build_parser

from tests.commands import COMMAND, frn
from tests.drawings import DRAWINGS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/**/*.md")])
BLOCK = re.compile(r"```(sh|console)\n(.*?)```", re.DOTALL)
ONLY_READ = {
    "train": "trains: tests/frn/cli/test_commands.py",
    "finetune": "enrolls eight times: tests/frn/evaluation/test_finetuning.py",
    "eval": "thousands of episodes of a data set: tests/frn/cli/test_commands.py",
    "reproduce ": "trains: tests/frn/reproduce/test_reproduce.py",
    "data": "reads the archives of a benchmark: tests/frn/data/test_benchmarks.py",
    "models add": "fetches weights: tests/frn/cli/test_models.py",
    "models remove": "removes what was added: tests/frn/cli/test_models.py",
    "export --web": "needs onnxruntime-web: tests/export/web",
    "--classes birds.frn.json": "ten seconds; the same with a folder is run",
    "export --model": "needs a run of `frn finetune`",
    "--model runs/mine": "needs a run of `frn finetune`",
    "--model resnet18": "needs a network of others",
}
"""Commands that are not run here, each with the reason and the page."""
ELSEWHERE = {
    r"python3 -m venv .*pytest": ".ci/run",
    r"python3 -m venv .*docs/light.txt.*": ".ci/light",
    r"python3 -m venv .*(frn-tui|'\.\[dev\]')": ".ci/run and .ci/light, by parts",
    r"\.venv/bin/(ruff|pip install pre-commit|pytest).*": ".ci/run",
    r"docker (build|run) .*": ".github/workflows/tests.yml",
    r"(uv tool|pipx) install .*": ".github/workflows/tests.yml",
    r"assets/benchmarks/gpu\.sh .*": "tests/frn/training/test_device.py",
    r"(g\+\+|rustc|node|\./classify) .*": "tests/test_runtimes.py",
    r'pip install "(ray|dask)\[\w+\]"': "tests/runtimes/test_clusters.py",
    r"npm (pack|install) .*": ".github/workflows/tests.yml",
    r"python -m http\.server --directory page": "tests/browser/conftest.py serves the same way",
    r"pip install '\.\[\w+\]'.*": "test_mentioned_extras_exist",
    r"python assets/benchmarks/\w+\.py.*": "tests/benchmarks/test_scripts.py",
    r"curl --data-binary .*": "tests/docs/test_web_service.py",
    r"curl -LO https://.*": "none, because tests use no network; `frn data prepare` compares the checksum",
    r"python assets/decoder/visualize\.py.*": "tests/decoder",
    r"python assets/teaching/\w+\.py.*": "tests/teaching",
    r"(FRN_\w+=\S+ )*(python|pytest) .*": "test_mentioned_files_exist of tests/test_docs.py",
}
"""Shell lines that do not start `frn`, and the test that runs them."""
STAND_INS = {"DIR": "birds", "PRESET": "demo", "PHOTO": "new.jpg", "NAME": "proto"}
SMALLER = {"export": ["--model", "conv4"]}  # options that make a command finish in seconds


def lines(page: Path) -> Iterator[tuple[str, str]]:
    """Return each shell line of a page with the output that the page shows."""
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield line, shown
        else:
            whole = block.replace("\\\n", " ")  # a command may continue on the next line
            yield from ((line, "") for line in whole.splitlines() if line.strip())


def frn_words(line: str) -> list[str]:
    """Return the arguments of a line from `frn` on, without launchers and pipes; empty if it does not start `frn`."""
    for part in re.split(r" \| (?![^']*' *$)", line):
        words = shlex.split(re.sub(r"^([A-Z_]+=\S* )+", "", part), comments=True)
        if words and words[0] == "torchrun":
            words = words[words.index("frn") :]
        if words and words[0] == "frn":
            return words
    return []


def commands() -> dict[str, tuple[list[str], str]]:
    """Return every distinct `frn` command of a block with its displayed output."""
    found: dict[str, tuple[list[str], str]] = {}
    for page in PAGES:
        for line, shown in lines(page):
            if words := frn_words(line)[1:]:
                before = found.get(shlex.join(words), (words, ""))[1]
                found[shlex.join(words)] = (words, shown or before)
    return found


def why_not_run(words: list[str]) -> str:
    text = shlex.join(words)
    return next((why for what, why in ONLY_READ.items() if text.startswith(what) or f" {what}" in text), "")


COMMANDS = commands()
RUN = {text: found for text, found in COMMANDS.items() if not why_not_run(found[0])}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, embedded: Path) -> Path:
    """A folder that contains every file mentioned on the pages."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(embedded, folder / "cache")
    samples = DRAWINGS
    moths = [sorted(home.iterdir()) for home in sorted((samples / "moths").iterdir())[:2]]
    for name, first, count in (("birds", 0, 3), ("labelled-birds", 3, 2), ("photos", 3, 2)):
        for label, photos in zip(("jay", "wren"), moths, strict=True):
            (folder / name / label).mkdir(parents=True)
            for photo in photos[first : first + count]:
                shutil.copy(photo, folder / name / label)
    shutil.copytree(folder / "photos" / "jay", folder / "more-photos")
    shutil.copytree(folder / "more-photos", folder / "photos", dirs_exist_ok=True)
    shutil.copytree(folder / "photos" / "wren", folder / "archive" / "2026")
    shutil.copy(moths[0][0], folder / "new.jpg")
    for name in ("data/cifar-fs", "data/cub", "data/mine", "cifar-fs/val", "cub", "tiny-imagenet"):
        (folder / name).mkdir(parents=True)
    for name in ("runs/frn", "runs/proto", "runs/demo"):
        (folder / name).mkdir(parents=True)
    for name in ("resnet18.pth", "model_ResNet-12.pth", "CUB_200_2011.tgz", "onnxruntime-web-1.30.0.tgz"):
        (folder / name).touch()
    (folder / "exported").mkdir()
    shutil.copy(ROOT / "assets/models/conv4.onnx", folder / "exported/features.onnx")
    (folder / "assets").symlink_to(ROOT / "assets")
    return folder


@pytest.fixture(autouse=True)
def _at_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("FRN_CACHE", str(place / "cache"))


def read(words: list[str], *, whole: bool) -> None:
    """Parse the arguments with the command's own parser: options, values, ranges and required files.

    A mention in a sentence may be incomplete.
    """
    command = COMMAND
    words = [STAND_INS.get(word.removesuffix("..."), word) for word in words]
    while (known := getattr(command, "commands", {})) and words and not words[0].startswith("-"):
        assert words[0] in known, words
        command = known[words.pop(0)]
    try:
        command.make_context("frn", words)
    except Exception as error:
        if type(error).__name__ not in ("Exit", "MissingParameter", "NoArgsIsHelpError") or (
            whole and type(error).__name__ == "MissingParameter"
        ):
            raise AssertionError(f"{words}: {error}") from error


@pytest.mark.parametrize("text", COMMANDS)
def test_documented_command_parses(text: str) -> None:
    read(list(COMMANDS[text][0]), whole=True)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands_in_sentences_parse(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for mention in re.findall(r"`(frn [^`]+)`", prose):
        words = shlex.split(mention)[1:]
        options = [word for word in words if word.startswith("--")]
        last_takes_a_value = len(words) > 1 and words[-1] in options  # `frn classify --report` is only mentioned
        if last_takes_a_value or "--install-completion" in words or "--show-completion" in words:
            continue
        read(words, whole=False)


@pytest.mark.parametrize("text", RUN)
def test_a_command_runs_and_prints_the_documented_output(text: str, place: Path) -> None:
    words, shown = RUN[text]
    for earlier in RUN:  # another worker may have run the command that writes the project
        project = earlier.rpartition(" --out ")[2].split()[0]
        if earlier.startswith("enroll ") and project in words and words[0] != "enroll" and not Path(project).exists():
            frn(*RUN[earlier][0])
    done = frn(*words + SMALLER.get(words[0], []), stdin=f"{place}/new.jpg\n")
    assert done.exit_code == 0, done.stderr
    if shown:
        assert_shown(done.stdout, shown)


def assert_shown(printed: str, shown: str) -> None:
    """Compare word by word, numbers approximately; `…` matches anything, and lines may break elsewhere."""
    number = r"\d+(?:\.\d+)?(?:e-?\d+)?"
    words = re.split(f"({number}|…)", " ".join(shown.split()))
    pattern = "".join(
        ".*?" if word == "…" else f"({number})" if re.fullmatch(number, word) else re.escape(word) for word in words
    )
    found = re.match(pattern, " ".join(printed.split()))
    assert found, printed
    wanted = [float(word) for word in words if re.fullmatch(number, word)]
    assert [float(value) for value in found.groups()] == pytest.approx(wanted, abs=0.11, rel=0.01)


def test_every_skip_reason_names_an_existing_command() -> None:
    for what, why in ONLY_READ.items():
        assert any(why_not_run(words) == why for words, _ in COMMANDS.values()), what
        for path in re.findall(r"tests/[\w/.]+", why):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_other_shell_lines_have_their_own_tests(page: Path) -> None:
    for line, _ in lines(page):
        words = shlex.split(line, comments=True)
        if frn_words(line):
            continue
        if words[0] == "frn-tui":
            assert isinstance(build_parser().parse_args(words[1:]), argparse.Namespace)
            continue
        assert any(re.fullmatch(pattern, shlex.join(words)) or re.match(pattern, line) for pattern in ELSEWHERE), line


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_mentioned_extras_exist(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"'\.\[([\w,]+)\]'", page.read_text(encoding="utf-8"))
    assert {extra for names in named for extra in names.split(",")} <= set(extras)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_documented_code_parses_and_its_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        tomllib.loads(block)
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ("frn", "frn_export"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def test_the_readme_shows_the_numbers_of_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = frn("classify", "assets/samples/shells", "assets/samples/queries/nautilus 7.jpg", "--json")
    answer, readme = json.loads(result.stdout), Path("README.md").read_text(encoding="utf-8")
    for field in ("probability", "known", "explained"):
        assert float(re.findall(rf'"{field}": ([\d.]+)', readme)[0]) == pytest.approx(answer[field], abs=2e-4)
