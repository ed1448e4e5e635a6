"""Self-contained HTML pages rendered from templates: frame, style and images.

The templates escape all external text, such as file and class names. A content security policy in the page forbids all
requests, so a page cannot load images or scripts from elsewhere.
"""

import base64
import hashlib
import io
import platform
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from frn._version import __version__
from frn.images.transforms import Pixels
from frn.system.files import MARK, replacing

LIBRARIES = ("torch", "onnxruntime-gpu", "onnxruntime", "numpy", "pillow")


def render(template: str | Path, title: str, command: str, facts: Mapping[str, str], **values: object) -> Iterator[str]:
    """Render a page in chunks; it ends with the command, the versions and `facts`.

    The template is one of ours by name, or another file, which may use ours.
    """
    shown = {**facts, "made": time.strftime("%Y-%m-%d %H:%M"), **versions()}
    env = _templates()
    page = env.get_template(template) if isinstance(template, str) else env.from_string(template.read_text("utf-8"))
    return page.generate(title=title, command=command, facts=shown, **values)


def render_part(template: str, **values: object) -> str:
    """Fill in a template of a part of a page."""
    return _templates().get_template(template).render(values)


def write_page(path: Path, pieces: Iterator[str], *, replace: bool = False) -> None:
    """Write a page; file names may contain bytes that are not text. Raises FrnError as `replacing` does."""
    with replacing(path, replace=replace) as file:
        for piece in pieces:
            file.write(piece.encode(errors="backslashreplace"))


@cache
def _templates() -> Environment:
    env = Environment(
        loader=PackageLoader("frn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shares = "".join(f".s{percent}{{--share:{percent}%}}" for percent in range(101))
    env.globals |= {"x": x, "y": y, "picture": picture, "share_class": share_class, "policy": policy, "mark": MARK}
    env.globals["file_name"] = lambda path: Path(path).name
    env.globals["style"] = f"{own_file('page.css')}{own_file('parts.css')}{shares}\n"
    return env


def own_file(name: str) -> str:
    """Return the text of a file that is shipped beside the templates."""
    return (files("frn.report") / name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """Return the page's content policy, which allows only the file's own content, this style and this script."""
    scripts = _hashed(script) if script else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src {_hashed(style)}; script-src {scripts}; base-uri 'none'; "
        "form-action 'none'"
    )


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def share_class(share: float) -> str:
    """Return the CSS class that sets `--share` to a fraction from 0 to 1; the policy forbids inline styles."""
    return f"s{min(100, max(0, round(100 * share)))}"


def x(share: float) -> float:
    """Return the horizontal position of a fraction of the chart's width, in chart units."""
    return round(44 + 354 * float(share), 1)


def y(share: float) -> float:
    """Return the vertical position of a fraction of the chart's height, from the top."""
    return round(220 - 198 * float(share), 1)


def versions() -> dict[str, str]:
    """Return the versions of the program and of the libraries that its numbers depend on."""
    numbers = {"frn": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            numbers[library] = version(library)
        except PackageNotFoundError:
            continue
    return numbers


def picture(pixels: Pixels | Image.Image, alt: str) -> str:
    """Return an image as an HTML element with embedded bytes; a small one is lossless and scaled up in blocks."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    # Side in pixels below which an image is stored losslessly: a JPEG would be blurred and no smaller
    small, data = max(image.size) < 64, io.BytesIO()
    image.save(data, "PNG") if small else image.save(data, "JPEG", quality=82)
    kind, text = "png" if small else "jpeg", base64.b64encode(data.getvalue()).decode()
    blocks = ' class="blocks"' if small else ""
    size = f'width="{image.width}" height="{image.height}"'
    source = f"data:image/{kind};base64,{text}"
    return Markup(f'<img{blocks} {size} loading="lazy" alt="{{}}" src="{source}">').format(alt)
