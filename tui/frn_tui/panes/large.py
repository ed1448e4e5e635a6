"""One answer, enlarged: the photo, the parts that the class does not explain, and the most similar example."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from frn_tui.client.protocol import Answer
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
        scores = answer.get("scores") if answer else None
        best = self.controller.names.get(scores[0]["id"], "?") if scores else ""
        heat = heat_of(answer, scores[0]["id"], smooth=True) if answer and scores else None
        self.photo.show(answer["path"] if answer and scores else "")
        self.map.show(answer["path"] if answer and heat else "", "blend", heat)
        self.near.show(nearest if scores else "")
        titles = {
            "map": f"error map of {best}" if best else "",
            "near": f"nearest: {'/'.join(nearest.split('/')[-2:])}",
        }
        for name, title in titles.items():
            text = Text(display_name(title, 60), no_wrap=True, overflow="ellipsis")
            self.query_one(f"#large-{name}-title", Static).update(text)
