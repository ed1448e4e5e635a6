"""One answer, enlarged: the photo, the parts that the class does not explain, and the most similar example."""

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from frn_tui.client.protocol import Answer, RenderPreview
from frn_tui.panes.context import Context
from frn_tui.panes.picture import heat_of
from frn_tui.terminal.text import display_name
from frn_tui.widgets.preview import Preview


class LargeView(Horizontal):
    """Shows an answer; the screen that contains it defines its keys."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="large")
        self.controller = context.controller
        self.photo, self.map, self.near = (
            Preview(mode=context.mode, empty_text=text, id=name)
            for name, text in (("large-photo", ""), ("large-map", "…"), ("large-near", "no other example"))
        )
        self._answer: Answer | None = None
        self._nearest = ""
        self._rendered: dict[Preview, RenderPreview] = {}

    def compose(self) -> ComposeResult:
        yield self.photo
        with Vertical(id="large-beside"):
            yield Static(id="large-map-title", markup=False)
            yield self.map
            yield Static(id="large-near-title", markup=False)
            yield self.near
        for preview in (self.photo, self.map, self.near):
            preview.can_focus = False

    def show(self, answer: Answer | None, nearest: str) -> None:
        """Show an answer and its most similar example, given by path."""
        self._answer, self._nearest = answer, nearest
        scores = answer.get("scores") if answer else None
        best = self.controller.names.get(scores[0]["id"], "?") if scores else ""
        titles = {
            "map": f"error map of {best}" if best else "",
            "near": f"nearest: {'/'.join(nearest.split('/')[-2:])}",
        }
        for name, title in titles.items():
            text = Text(display_name(title, 60), no_wrap=True, overflow="ellipsis")
            self.query_one(f"#large-{name}-title", Static).update(text)
        self.draw()

    @on(Preview.Wanted)
    def draw(self) -> None:
        """Request the images, unless they are already shown."""
        wanted = {preview: request for preview, request in self._requests().items() if request is not None}
        for preview in (self.photo, self.map, self.near):
            if preview not in wanted:
                preview.show(None)
        if wanted != self._rendered:
            self._rendered = wanted
            self._fetch(wanted)

    def _requests(self) -> dict[Preview, RenderPreview | None]:
        answer = self._answer
        if answer is None or "scores" not in answer:
            return {}
        requests = {self.photo: self.photo.request(answer["path"])}
        if (heat := heat_of(answer, answer["scores"][0]["id"], smooth=True)) is not None:
            requests[self.map] = self.map.request(answer["path"], look="blend", heat=heat)
        if self._nearest:
            requests[self.near] = self.near.request(self._nearest)
        return requests

    @work(group="large", exclusive=True, exit_on_error=False)
    async def _fetch(self, wanted: dict[Preview, RenderPreview]) -> None:
        for preview, request in wanted.items():
            preview.show(await self.controller.engine.render(request))
