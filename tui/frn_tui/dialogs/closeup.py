"""Full-screen view of one photo among several."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from frn_tui.client.client import EngineClient
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.text import display_name
from frn_tui.widgets.preview import STEP, Preview


class Closeup(ModalScreen[int]):
    """Dialog that shows and zooms photos, one at a time; it returns the index of the last one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "leave", "Back"),
        Binding("z,plus", "zoom(1)", "Zoom in"),
        Binding("Z,minus", "zoom(-1)", "Zoom out"),
        Binding("left,up,h,k,pageup,comma", "step(-1)", "Previous photo"),
        Binding("right,down,l,j,pagedown,full_stop", "step(1)", "Next photo"),
    ]

    def __init__(self, engine: EngineClient, paths: Sequence[str], at: int, mode: Mode) -> None:
        super().__init__()
        self.engine, self.paths, self.at = engine, paths, at
        self.preview = Preview(mode=mode, id="closeup")

    def compose(self) -> ComposeResult:
        yield self.preview
        yield Static(id="closeup-caption")

    def on_mount(self) -> None:
        self.preview.focus()

    @on(Preview.Wanted)
    @work(exclusive=True, exit_on_error=False)
    async def draw(self) -> None:
        path = self.paths[self.at]
        place = f"{self.at + 1}/{len(self.paths)}  " if len(self.paths) > 1 else ""
        keys = "arrows: move   " if self.preview.zoom > 1 else "‹ › other photos   " if len(self.paths) > 1 else ""
        name = display_name(path.rpartition("/")[2], max(self.size.width - 60, 12))
        caption = f"{place}{name}   {keys}z Z: zoom in, out   esc: back"
        self.query_one("#closeup-caption", Static).update(Text(caption, no_wrap=True))
        if request := self.preview.request(path):
            self.preview.show(await self.engine.render(request))

    def action_zoom(self, step: int) -> None:
        self.preview.look_at(self.preview.zoom * STEP**step, self.preview.centre)

    def action_step(self, step: int) -> None:
        """Show the next or previous photo; when zoomed in, the arrows move the photo instead."""
        self.at = min(max(self.at + step, 0), len(self.paths) - 1)
        self.preview.look_at(1.0)
        self.draw()

    def action_leave(self) -> None:
        self.dismiss(self.at)
