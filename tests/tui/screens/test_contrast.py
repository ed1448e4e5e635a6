"""Text and borders are readable under every theme that can be chosen."""

import re
from functools import cache
from typing import Any

import pytest
from frn_tui.app import FrnApp
from rich.color import Color
from rich.style import Style

from tests.tui.conftest import Drive, Driver

PICTURES = set("▀▄█▁▂▃▅▆▇▌▐▔▕▏┆⋮ ")
BORDERS = set("╭╮╰╯─│┌┐└┘┏┓┗┛━┃▔▕▎▊")
DAILY = ["textual-dark", "textual-light"]
OTHERS = sorted(name for name in FrnApp().available_themes if "ansi" not in name and name not in DAILY)


def luminance(color: Color) -> float:
    parts = [value / 255 for value in color.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@cache
def contrast(style: Style) -> float:
    assert style.color is not None
    assert style.bgcolor is not None
    lighter, darker = sorted((luminance(style.color), luminance(style.bgcolor)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(
    "themes", [DAILY, *(pytest.param(OTHERS[start::4], marks=pytest.mark.nightly) for start in range(4))], ids=" ".join
)
async def test_text_has_a_contrast_of_at_least_4_5_and_borders_of_at_least_3(
    themes: list[str], drive: Drive, lines: Any, styles: Any
) -> None:
    poor: dict[str, float] = {}

    def look(driver: Driver, theme: str) -> None:
        for y, line in enumerate(zip(lines(driver.app), styles(driver.app), strict=True)):
            for char, style in zip(*line, strict=False):
                if char in PICTURES or style.color is None or style.bgcolor is None:
                    continue
                least = 3.0 if char in BORDERS else 4.5
                if (found := contrast(style)) < least:
                    text = re.sub(r"  +", " ", line[0])[:60]
                    poor.setdefault(f"{theme} {y} {text} [{char}] {style.color.name} {style.bgcolor.name}", found)

    driver = await drive(size=(140, 40))
    await driver.app.workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    for theme in themes:
        driver.app.theme = theme
        for keys in ("", "tab", "tab", "question_mark", "escape p", "escape escape L", "g"):
            await driver.keys(*keys.split())
            look(driver, theme)
        await driver.keys("g", "escape")  # back to the start
    assert poor == {}
