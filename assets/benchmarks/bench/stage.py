"""The app with extra keys for measurements.

f5 shows a whole folder in the gallery, so that no class with so many photos is needed. f6 reports the longest delay of
the event loop since f6 was last pressed.
"""

import asyncio
import sys
from pathlib import Path
from time import perf_counter
from typing import Literal

import frn_tui.app
from frn_tui.app import FrnApp
from frn_tui.terminal.modes import Mode
from frn_tui.widgets.gallery import GalleryItem
from textual import work
from textual.binding import Binding

from frn.models.zoo import DEFAULT_MODEL

BEAT = 0.005
"""Seconds between two measurements of the delay."""


class Stage(FrnApp):
    """Shows a folder in the gallery, and reports delays of the event loop."""

    CSS_PATH = str(Path(frn_tui.app.__file__).with_name("app.tcss"))
    BINDINGS = [*FrnApp.BINDINGS, Binding("f5", "fill", "Fill"), Binding("f6", "gap", "Gap")]

    _gap, _told = 0.0, 0

    def __init__(self, folder: str, images: Mode | Literal["auto"] = "auto") -> None:
        super().__init__(folder, images=images)
        self.items = [GalleryItem(str(path), path.name, None, "", "") for path in sorted(Path(folder).iterdir())]

    async def _start(self) -> None:
        self._beat()
        await self.engine.start()
        await self.controller.open_model(DEFAULT_MODEL)

    @work
    async def _beat(self) -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(BEAT)
            self._gap = max(self._gap, perf_counter() - began - BEAT)

    def action_gap(self) -> None:
        self._told += 1
        self.workspace.context.say(f"longest gap ({self._told}) {1000 * self._gap:.1f} ms")
        self._gap = 0.0

    def action_fill(self) -> None:
        self.workspace.photos_pane.gallery.set_items(self.items)
        self.workspace.photos_pane.gallery.focus()


if __name__ == "__main__":
    Stage(*sys.argv[1:]).run()  # type: ignore[arg-type]
