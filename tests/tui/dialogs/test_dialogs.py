"""Text fields of dialogs."""

import asyncio

from frn_tui.dialogs.dialogs import Line
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import Input


class Form(App[None]):
    def compose(self) -> ComposeResult:
        yield Line()


def test_field_shows_the_end_of_a_long_pasted_path() -> None:
    async def pasted() -> str:
        app = Form()
        async with app.run_test(size=(40, 5)) as pilot:
            field = app.query_one(Input)
            field.focus()
            await pilot.pause()
            field.post_message(events.Paste("/photos/" + "deep/" * 20 + "jay.jpg"))
            await pilot.pause()
            await pilot.pause()
            return "".join(strip.text for strip in field.render_lines(Region(0, 0, 40, 3)))

    assert "jay.jpg" in asyncio.run(pasted())
