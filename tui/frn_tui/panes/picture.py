"""The queried photo, and the parts of it that a class does not explain."""

from collections.abc import Sequence
from typing import get_args

from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from frn.images.ramp import RAMP
from frn_tui.client.protocol import Answer, Heat, Look, RenderPreview
from frn_tui.panes.context import Context
from frn_tui.terminal.modes import COLOURED
from frn_tui.terminal.text import display_name
from frn_tui.widgets.preview import Preview

LOOKS: tuple[Look, ...] = get_args(Look)
USUAL = 4 / 3
"""Aspect ratio of a photo for the layout before one is shown."""
WORTH, WORTH_LARGE = 0.7, 0.95
"""The map is beside the photo if that keeps this fraction of its height; the second applies when zoomed."""


class PicturePane(Vertical):
    """Part of the query pane that only shows the photo and does not change classes."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="picture")
        self.controller = context.controller
        self.preview = Preview(mode=context.mode, empty_text="p classifies a photo", id="preview")
        self.map = Preview(mode=context.mode, id="map")
        self.map.can_focus = False
        self.look: Look = "photo"
        self.smooth, self.numbers = True, False
        self.heat_class: int | None = None
        """Id of the class whose error map is shown; None for the most likely one."""
        self._path = ""
        self._wanted: dict[Preview, RenderPreview] = {}
        self._rendered: dict[Preview, RenderPreview | None] = {}
        """Requests of the images that are shown or loading."""

    def compose(self) -> ComposeResult:
        with Container(id="pictures"):
            yield self.preview
            yield self.map
        yield Static(id="caption")

    def show(self) -> None:
        answer = self.controller.query.answer
        self.set_class(answer is None or "maps" not in answer, "-no-map")
        self._tell(answer)
        self.draw()

    def _tell(self, answer: Answer | None) -> None:
        self.query_one("#caption", Static).update(self._caption(answer))

    @property
    def mode(self) -> str:
        return self.preview.mode

    def set_mode(self, mode: str) -> None:
        self.preview.mode = self.map.mode = mode  # type: ignore[assignment]

    def on_resize(self, event: events.Resize) -> None:
        """Place the map beside or below the photo if the photo then stays nearly as large as alone."""
        columns, rows = event.size.width, max(event.size.height - 2, 1)

        def height(columns: float, rows: float) -> float:
            return min(rows, columns / 2 / USUAL)

        alone = (WORTH_LARGE if self.screen.has_class("-zoomed") else WORTH) * height(columns, rows)
        beside, below = height(columns / 2, rows), height(columns, rows / 2)
        self.set_class(beside >= max(alone, below), "-beside")
        self.set_class(below >= alone and below > beside, "-below")
        self.show()

    @property
    def has_map(self) -> bool:
        """Return whether the map is beside or below the photo."""
        return (self.has_class("-beside") or self.has_class("-below")) and not self.has_class("-no-map")

    def _caption(self, answer: Answer | None) -> Text:
        """Return a description of the view, including the meaning of its colours."""
        if answer is None:
            return Text("")
        if "scores" not in answer:
            return Text(display_name(answer.get("reason", "")), style="bold")
        shown = self._shown_class(answer)
        if shown is None:
            return Text("the whole photo")
        name = display_name(self.controller.names[shown], max(self.size.width - 32, 6))
        if self.look == "photo" and not self.has_map:
            return Text(f"frame: the part that the network sees\nH: error map of ‹ {name} ›")
        text = Text(f"error map of ‹ {name} ›  [ ] other class\n")
        if self.mode not in COLOURED:
            return text.append("higher digits, more ink: less explained")
        if self.look == "blend" and not self.has_map:
            text.append("clear: explained ")
            ramp: Sequence[tuple[int, int, int]] = RAMP[1:]
        else:
            text.append("dark: explained ")
            ramp = RAMP
        for red, green, blue in ramp:
            text.append("  ", style=f"on rgb({red},{green},{blue})")
        following = LOOKS[(LOOKS.index(self.look) + 1) % len(LOOKS)]
        return text.append(f" light: not   H: {following}")

    def _mapped(self, answer: Answer) -> list[int]:
        """Return ids of classes with a map, most likely first; deleted classes are skipped."""
        maps, names = answer.get("maps", {}), self.controller.names
        return [s["id"] for s in answer.get("scores", []) if str(s["id"]) in maps and s["id"] in names]

    def _shown_class(self, answer: Answer) -> int | None:
        ids = self._mapped(answer)
        return self.heat_class if self.heat_class in ids else next(iter(ids), None)

    @on(Preview.Wanted)
    def draw(self) -> None:
        """Request the images, unless they are already shown."""
        answer = self.controller.query.answer
        if answer is not None and self._path != answer["path"]:
            self._path = answer["path"]
            self.preview.look_at(1.0)
        heat = heat_of(answer, self._shown_class(answer), smooth=self.smooth) if answer is not None else None
        self.map.zoom, self.map.centre = self.preview.zoom, self.preview.centre  # same part in both
        for preview, look in ((self.preview, self.look), (self.map, "map")):
            is_map = look != "photo" and heat is not None
            with_numbers = heat is not None and (self.numbers or (is_map and preview.mode == "ascii"))
            preview.framed = heat is not None
            preview.show_numbers(heat["map"] if heat is not None and with_numbers else None)
            request = None
            if answer is not None and "reason" not in answer and (preview is self.preview or (self.has_map and heat)):
                shown = heat if is_map else None
                request = preview.request(answer["path"], look=look, heat=shown)
            if request is None:
                self._wanted.pop(preview, None)
                preview.show(None)
            elif request != self._rendered.get(preview):
                self._wanted[preview] = request
            self._rendered[preview] = request
        if self._wanted:
            self._fetch()

    @work(group="draw", exclusive=True, exit_on_error=False)
    async def _fetch(self) -> None:
        while self._wanted:
            preview, request = next(iter(self._wanted.items()))
            picture = await self.controller.engine.render(request)
            if self._wanted.get(preview) is request:
                del self._wanted[preview]
            preview.show(picture)

    def show_class(self, class_id: int) -> None:
        """Show the map of a class, if the photo has one."""
        answer = self.controller.query.answer
        if answer is not None and class_id in self._mapped(answer):
            self._show_map_of(class_id)

    def action_look(self) -> None:
        """Switch between the photo, the photo with the map, and the map."""
        self.look = LOOKS[(LOOKS.index(self.look) + 1) % len(LOOKS)]
        self.show()

    def action_texture(self) -> None:
        """Draw the map smooth, then in the network's blocks, then in blocks with numbers."""
        self.smooth, self.numbers = self.numbers, not self.smooth and not self.numbers
        self.show()

    def action_heat_class(self, step: int) -> None:
        answer = self.controller.query.answer
        if answer is not None and (shown := self._shown_class(answer)) is not None:
            ids = self._mapped(answer)
            self._show_map_of(ids[(ids.index(shown) + step) % len(ids)])

    def _show_map_of(self, class_id: int) -> None:
        self.heat_class = class_id
        if self.look == "photo" and not self.has_map:
            self.look = "blend"
        self.show()


def heat_of(answer: Answer, class_id: int | None, *, smooth: bool) -> Heat | None:
    """Return the error map of a class, on a common scale for all maps of the photo."""
    maps = answer.get("maps", {})
    if str(class_id) not in maps:
        return None
    values = [value for grid in maps.values() for row in grid for value in row]
    return {"map": maps[str(class_id)], "low": min(values), "high": max(values), "smooth": smooth}
