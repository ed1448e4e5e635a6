"""Hooks for mkdocs, which add pages from outside docs/ to the site and write the page of all commands."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
JOINED = ("*.md", "assets/models/*.md", "assets/benchmarks/*.md", "assets/screenshots/*.[ps][nv]g", "tests/golden/*.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def address(path: Path) -> str:
    """Return the path at which the site shows a file of the repository."""
    name = path.relative_to(ROOT).as_posix()
    if name.endswith(".ipynb"):
        name = f"{name.removesuffix('.ipynb')}.md"
    # otherwise README.md would be the first page
    return "readme.md" if name == "README.md" else name.removeprefix("docs/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that the site also shows."""
    for path in (found for pattern in JOINED for found in sorted(ROOT.glob(pattern))):
        files.append(File.generated(config, address(path), abs_src_path=str(path)))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    files.append(File.generated(config, "reference/json.md", content=schemas()))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        for name, content in notebook(path).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links for the repository to the same file on the site, or replace them with their text."""
    written = page.file.abs_src_path
    if written is None:  # made here
        return markdown
    home = Path(written).parent
    own = Path(address(Path(written))).parent

    def led(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in path:
            return link[0]
        there = (home / path).resolve()
        uri = address(there) if there.is_relative_to(ROOT) else ""
        if files.get_file_from_path(uri) is None:
            return words
        up = "../" * len(own.parts)
        return f"{picture}[{words}]({up}{uri}{mark}{anchor})"

    return LINK.sub(led, markdown)


def notebook(path: Path) -> dict[str, str | bytes]:
    """Convert an executed notebook to a page and its images."""
    from nbconvert import MarkdownExporter

    page, made = MarkdownExporter().from_filename(str(path))
    pictures = {f"{path.stem}-{name}": content for name, content in made["outputs"].items()}
    for name in made["outputs"]:
        page = page.replace(f"({name})", f"({path.stem}-{name})")
    return {f"{path.stem}.md": page, **pictures}


def commands() -> str:
    """Return every command with its arguments and options, as in `--help`."""
    import typer
    from typer.cli import get_docs_for_click

    from frn.cli.main import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="frn", title="Commands")
    return re.sub(r"\[/?bold\]", "**", text)


def schemas() -> str:
    """Return the JSON Schema of each command that prints JSON, as `frn help json COMMAND` prints it."""
    import json

    from typer.testing import CliRunner

    from frn.cli.main import app

    section = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    named = section.partition("JSON Schema of these commands:")[2].partition(".")[0]
    page = "# JSON schemas\n\n`frn help json COMMAND` prints the schema of what `COMMAND --json` prints.\n"
    for name in (" ".join(words.split()) for words in named.split(",")):
        schema = json.loads(CliRunner().invoke(app, ["help", "json", *name.split()]).stdout)
        page += f"\n## frn {name}\n\n```json\n{json.dumps(schema, indent=1, ensure_ascii=False)}\n```\n"
    return page
