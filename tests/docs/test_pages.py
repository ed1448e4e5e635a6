"""Links, names and language of the documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from frn.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/**/*.md")])
BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:frn|export|tui|tests|docs|assets)/[\w./-]*)")

pages = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings."""
    titles = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pages
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pages
def test_mentioned_files_exist(page: Path) -> None:
    for name in FILE.findall(page.read_text(encoding="utf-8")):
        assert "NAME" in name or (ROOT / name).exists(), name


def test_every_name_in_the_maps_of_the_code_exists() -> None:
    """A name in a row of `docs/CONTRIBUTING.md` stands in one of the files of that row."""
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line.split(" | ", 1)[1] for line in page.splitlines() if line.startswith("| ") and FILE.search(line)]
    assert len(rows) >= 18
    for row in rows:
        words = re.findall(r"`([^`]+)`", row)
        paths = [ROOT / word for word in words if FILE.match(f"`{word}")]
        text = "".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
        for word in (word for word in words if not FILE.match(f"`{word}")):
            assert re.search(rf"\b{word.rpartition('.')[2]}\b", text), (word, row)


def test_every_folder_of_the_package_is_in_the_map() -> None:
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("| folder | content |\n")[2].partition("\n\n")[0]
    listed = {name for line in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert listed == {path.parent.name for path in ROOT.glob("frn/*/__init__.py")}


def test_readme_starts_with_the_two_commands() -> None:
    """`.ci/run` recognises the test command by its form."""
    first, second = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[:2]
    assert re.fullmatch(r"python3 -m venv .*docs/light.txt .*frn classify .*\n", first)
    assert re.fullmatch(r"python3 -m venv .*pytest.*\n", second)


def test_paper_citation_is_the_same_everywhere() -> None:
    (bibtex,) = re.findall(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    fields = {name: " ".join(value.split()) for name, value in re.findall(r"(\w+)\s*=\s*\{(.*?)\}", bibtex, re.DOTALL)}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").partition("references:")[2]
    said = dict(re.findall(r"^ +(title|year|start|end|collection-title): \"?(.*?)\"?$", citation, re.MULTILINE))
    assert fields["title"] == said["title"]
    assert fields["booktitle"] == said["collection-title"]
    assert fields["year"] == said["year"]
    assert fields["pages"] == f"{said['start']}-{said['end']}"
    names = zip(re.findall(r"family-names: (\w+)", citation), re.findall(r"given-names: (\w+)", citation), strict=True)
    assert fields["author"] == " and ".join(f"{family}, {given}" for family, given in names)


PATTERNS = {
    "is told": r"\b(?:is|are|was|were|be|been) (?:told|begun)\b",
    "is no": r"(?<!there )\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more than))",
    "anew": r"\banew\b",
    ", too": r", too(?=[.,;:)]|$)",
    "where it is": r"\bwhere (?:it|they|one|there|nothing|none) "
    r"(?:is|are|was|were|has|have|can|lies?|answers|stands?)\b(?![.,;:)])",
    "What ... is": r"(?:^|[.:;] )What (?!to\b)[^.?:;|]* (?:is|are|has|have|does|do|was|were)\b(?![^.:;|]*\?)",
    "goes on": r"\b(?:go|goes|went|gone) on\b",
    "Of a ...": r"^(?:Of|As what|In what)\b",
    "95 %": r"\d %",
    "left out": r"\b(?:left out|leaves out|rebuil(?:d|ds|t)|strangers?)\b",
}
"""Names of the patterns and their regular expressions. The project's style says what to write instead."""
BUDGET = {"docs": 8, "help": 8, "docstrings": 8}  # allowed matches in 10,000 words of each kind

Text = tuple[str, str]  # a place, and a paragraph there as one line


def paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-|#] ?|\d\. )", text):
        if line := " ".join(paragraph.split()):
            yield line.lstrip("-|# ")


def docs() -> Iterator[Text]:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/models/*.md")]
    for page in sorted(page for page in pages if "lab" not in page.relative_to(ROOT).parts):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield from ((str(page.relative_to(ROOT)), text) for text in paragraphs(prose))


def help_texts(command: Any = None, name: str = "frn") -> Iterator[Text]:
    command = command or typer.main.get_command(app)
    for text in (command.help, *(getattr(parameter, "help", "") for parameter in command.params)):
        yield from ((f"{name} --help", paragraph) for paragraph in paragraphs(text or ""))
    for child, below in getattr(command, "commands", {}).items():
        yield from help_texts(below, f"{name} {child}")


def docstrings() -> Iterator[Text]:
    """Return the docstrings of modules, classes, functions and attributes."""
    for file in sorted(
        file for tree in ("frn", "export/frn_export", "tui/frn_tui") for file in ROOT.glob(f"{tree}/**/*.py")
    ):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            below = getattr(node, "body", [])
            for child in below if isinstance(below, list) else []:
                match child:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        place = f"{file.relative_to(ROOT)}:{child.lineno}"
                        yield from ((place, paragraph) for paragraph in paragraphs(text))


@pytest.mark.parametrize(("kind", "texts"), [("docs", docs), ("help", help_texts), ("docstrings", docstrings)])
def test_odd_english_is_rare(kind: str, texts: Any) -> None:
    found, words = [], 0
    for place, text in texts():
        words += len(text.split())
        for name, pattern in PATTERNS.items():
            hits = re.finditer(pattern, text)
            found += [f"{place}: {name!r}: {text[max(0, hit.start() - 40) : hit.end() + 40]}" for hit in hits]
    rate = 10_000 * len(found) / words
    assert rate <= BUDGET[kind], f"{rate:.1f} in 10,000 words of {kind}:\n" + "\n".join(found)
