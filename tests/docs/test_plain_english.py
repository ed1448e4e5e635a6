"""Ten patterns of odd English stay rare in docs, help and docstrings. Passing does not prove that a text is clear."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from frn.cli.main import app

ROOT = Path(__file__).parents[2]
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
