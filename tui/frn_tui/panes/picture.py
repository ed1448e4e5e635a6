"""The photo that was asked about, with the error map of a class over it."""

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Static

from frn_tui.client import render
from frn_tui.panes.context import Context
from frn_tui.protocol import Answer, Heat, RenderPreview
from frn_tui.text import display_name
from frn_tui.widgets.preview import Preview


class PicturePane(Vertical):
    """A part of the query pane; nothing here changes the classes."""

    KEYS: ClassVar[tuple[Binding, ...]] = (
        Binding("h,H", "toggle('heat')", "Heat"),
        Binding("s", "toggle('smooth')", "Smooth", show=False),
        Binding("left_square_bracket", "heat_class(-1)", "Map of the class before", show=False),
        Binding("right_square_bracket", "heat_class(1)", "Map of the next class", show=False),
        Binding("t", "toggle('numbers')", "Numbers", show=False),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(id="picture")
        self.controller = context.controller
        self.preview = Preview(mode=context.mode, empty_text="p asks about a photo", id="preview")
        self.heat, self.smooth, self.numbers = True, False, False
        self.heat_class: int | None = None
        """Id of the class whose error map is shown; None: the likeliest."""
        self._drawn: object = None
        """What the picture on show was asked for with."""

    def compose(self) -> ComposeResult:
        yield self.preview
        yield Static(id="caption")

    def show(self) -> None:
        answer = self.controller.query.answer
        self.query_one("#caption", Static).update(self._caption(answer))
        self.draw()

    def _caption(self, answer: Answer | None) -> Text:
        if answer is None:
            return Text("")
        if "scores" not in answer:
            return Text(display_name(answer.get("reason", "")), style="bold")
        shown = self._shown_class(answer)
        if not self.heat or shown is None:
            return Text("as the network sees it   h: errors")
        return Text(f"error for ‹ {display_name(self.controller.names[shown], 20)} ›   [ ] other")

    def _mapped(self, answer: Answer) -> list[int]:
        """Ids of the classes that have a map, the likeliest first; a class may be gone meanwhile."""
        maps, names = answer.get("maps", {}), self.controller.names
        return [s["id"] for s in answer.get("scores", []) if str(s["id"]) in maps and s["id"] in names]

    def _shown_class(self, answer: Answer) -> int | None:
        ids = self._mapped(answer)
        return self.heat_class if self.heat_class in ids else next(iter(ids), None)

    @on(Preview.Wanted)
    def draw(self) -> None:
        """Ask for the picture, unless it is the one on show."""
        preview, answer = self.preview, self.controller.query.answer
        width, height = preview.pixel_size
        heat = self._heat(answer) if answer is not None else None
        with_numbers = heat is not None and (self.numbers or preview.mode == "ascii")
        preview.show_numbers(heat["map"] if heat is not None and with_numbers else None)
        wanted = (answer and (answer["path"], answer.get("reason")), width, height, repr(heat))
        if wanted == self._drawn:
            return
        self._drawn = wanted
        if answer is None or "reason" in answer or not width or not height:
            preview.show(None)
        else:
            self._fetch(RenderPreview(answer["path"], width, height, heat))

    def _heat(self, answer: Answer) -> Heat | None:
        """The map on show, on the scale of all maps of the photo."""
        shown = self._shown_class(answer)
        if not self.heat or shown is None:
            return None
        maps = answer["maps"]
        values = [value for grid in maps.values() for row in grid for value in row]
        return {"map": maps[str(shown)], "low": min(values), "high": max(values), "smooth": self.smooth}

    @work(group="draw", exclusive=True, exit_on_error=False)
    async def _fetch(self, request: RenderPreview) -> None:
        self.preview.show(await render(self.controller.engine, request))

    async def action_toggle(self, attribute_name: str) -> None:
        await super().action_toggle(attribute_name)
        self.show()

    def show_class(self, class_id: int) -> None:
        """Show the map of a class, if the photo has one."""
        answer = self.controller.query.answer
        if answer is not None and class_id in self._mapped(answer):
            self.heat, self.heat_class = True, class_id
            self.show()

    def action_heat_class(self, step: int) -> None:
        answer = self.controller.query.answer
        if answer is not None and (shown := self._shown_class(answer)) is not None:
            ids = self._mapped(answer)
            self.heat, self.heat_class = True, ids[(ids.index(shown) + step) % len(ids)]
            self.show()
