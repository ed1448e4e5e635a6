"""Texts for `frn help TOPIC`, read from `topics.md`; `docs/reference/command-line.md` repeats them."""

import re
from pathlib import Path
from typing import NamedTuple


class Topic(NamedTuple):
    """A help page."""

    title: str
    text: str


def _read() -> dict[str, Topic]:
    text = Path(__file__).with_name("topics.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# ([\w-]+): (.+)\n\n", text, flags=re.MULTILINE)
    return {name: Topic(title, body.strip()) for name, title, body in zip(*[iter(parts)] * 3, strict=True)}


TOPICS = _read()
