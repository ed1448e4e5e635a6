"""Catalogue of pretrained backbones by short name, with their licences, for `frn models add`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A pretrained backbone."""

    backbone: str
    """`torchvision:NAME` or `timm:NAME`."""
    about: str
    licence: str = "not in this list; ask its authors"
    size: int | None = None
    """Side of the images in pixels; None uses that of the weights' own recipe."""
    package: str | None = None
    """Installed package that contains the weights; None looks in the library's cache and on its hub."""
    sha256: str | None = None
    """Hash of the weight file; any other file is rejected."""


@cache
def catalogue() -> dict[str, Network]:
    """Return the pretrained backbones by short name."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return {name: Network(**entry) for name, entry in tomllib.loads(text).items()}
