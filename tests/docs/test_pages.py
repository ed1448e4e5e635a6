"""All links and files in README, CONTRIBUTING and docs/ exist. test_commands.py tests the commands."""

import re
from pathlib import Path

import pytest

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
