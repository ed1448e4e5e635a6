"""The app with a gallery of a whole folder: f5 fills it. No class of that many photos is needed to scroll them."""

import sys
from pathlib import Path

from textual.binding import Binding

from frn.shipped import DEFAULT_MODEL
from frn_tui.app import FrnApp
from frn_tui.widgets.gallery import GalleryItem


class Stage(FrnApp):
    """Shows a folder in the gallery."""

    CSS_PATH = "../app.tcss"
    BINDINGS = [*FrnApp.BINDINGS, Binding("f5", "fill", "Fill")]

    async def _start(self) -> None:
        await self.engine.start()
        await self.bench.open_model(DEFAULT_MODEL)

    def action_fill(self) -> None:
        assert self.place is not None
        items = [GalleryItem(str(path), path.name, None, "", "") for path in sorted(Path(self.place).iterdir())]
        self.workspace.gallery.set_items(items)
        self.workspace.gallery.focus()


if __name__ == "__main__":
    Stage(sys.argv[1]).run()
