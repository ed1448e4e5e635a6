"""One self-contained HTML page: its frame, its style, its pictures.

Everything that comes from outside (names of files and classes) passes `escape` or an attribute of it. A policy in the
page itself forbids every request, so that a picture or script from elsewhere could not even be asked for.
"""

import base64
import hashlib
import html
import io
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from PIL import Image

from frn._version import __version__
from frn.images.transforms import Pixels
from frn.system.overwriting import MARK

SMALL = 64
"""Pixels below which an image is stored without loss: there a JPEG is not smaller, and its blur shows."""
LIBRARIES = ("torch", "onnxruntime-gpu", "onnxruntime", "numpy", "pillow")

SHARES = "".join(f".s{percent}{{--share:{percent}%}}" for percent in range(101)) + "\n"

escape = html.escape


def page(title: str, lead: str, sections: Iterable[str], *, script: str = "") -> str:
    """A whole page: a title in plain text, a lead and sections in HTML, a script of our own."""
    return "".join(page_pieces(title, lead, sections, script=script))


def page_pieces(title: str, lead: str, sections: Iterable[str], *, script: str = "") -> Iterator[str]:
    """The pieces of a page, one after the other; a section may come in several."""
    style = (files("frn.report") / "page.css").read_text(encoding="utf-8") + SHARES
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">\n'
        f'<meta name="generator" content="{MARK}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{MARK}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">Skip to the results</a>\n<header><h1>{escape(title)}</h1>{lead}</header>\n'
        '<main id="main">\n'
    )
    for piece in sections:
        yield f"{piece}\n"
    yield "</main>\n" + (f"<script>{script}</script>\n" if script else "") + "</body>\n</html>\n"


def policy(style: str, script: str) -> str:
    """Return the page's content policy: it allows the file's own content, this style and this script only."""
    scripts = _hashed(script) if script else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src {_hashed(style)}; script-src {scripts}; base-uri 'none'; "
        "form-action 'none'"
    )


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def share_class(share: float) -> str:
    """The class of the style that sets `--share` to a share from 0 to 1: the policy allows no style of an element."""
    return f"s{min(100, max(0, round(100 * share)))}"


def section(title: str, content: str, *, note: str = "", name: str = "") -> str:
    """A section of HTML content under a plain title; `note` explains it in plain text, `name` is its anchor."""
    anchor = f' id="{escape(name)}"' if name else ""
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section{anchor}><h2>{escape(title)}</h2>{told}{content}</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, label: str) -> str:
    """A table of HTML cells under plain heads, in a frame that scrolls by itself; numbers stand right."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>", label)


def scrolling(content: str, label: str) -> str:
    """Content that may be wider than the screen, in a frame that the keyboard can scroll."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{content}</div>'


def made_by(command: str, facts: Mapping[str, str]) -> str:
    """The section that says how to make the page again: the command, the versions, and what else counts."""
    rows = {**facts, "made": time.strftime("%Y-%m-%d %H:%M"), **versions()}
    lines = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows.items())
    return section("Made by", f'<pre tabindex="0">{escape(command)}</pre><dl>{lines}</dl>', name="made")


def versions() -> dict[str, str]:
    """Versions of the program and of what its numbers depend on."""
    found = {"frn": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def picture(pixels: Pixels | Image.Image, alt: str) -> str:
    """An image as an HTML element, its bytes inside; a small one is kept exactly, and enlarged in blocks."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    small, data = max(image.size) < SMALL, io.BytesIO()
    image.save(data, "PNG") if small else image.save(data, "JPEG", quality=82)
    kind, text = "png" if small else "jpeg", base64.b64encode(data.getvalue()).decode()
    blocks = ' class="blocks"' if small else ""
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img{blocks} {size} loading="lazy" alt="{escape(alt)}" src="data:image/{kind};base64,{text}">'


def figure(content: str, caption: str, kind: str) -> str:
    """HTML content over an HTML caption; `kind` is a class of the style."""
    return f'<figure class="{kind}">{content}<figcaption>{caption}</figcaption></figure>'
