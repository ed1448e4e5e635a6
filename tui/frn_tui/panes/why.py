"""Why a photo got its answer: a cursor over its cells, and the example parts that the cell was rebuilt from."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, Vertical
from textual.widgets import Static

from frn_tui.client.protocol import ExplainPhoto, Rebuilt, Why
from frn_tui.dialogs.dialogs import Dialog
from frn_tui.panes.context import Context
from frn_tui.terminal.text import display_name, percent
from frn_tui.widgets.preview import Mark, Preview

SHOWN = 6  # number of examples of a class that are shown
KEYS = "arrows, mouse: other cell   1-5: part   tab: other class   enter: go to the example   esc: back"


class WhyScreen(Dialog[str]):
    """A photo beside the examples of a class; returns the path of an example to go to.

    Only frames and text change when the cursor moves, so a move sends few bytes.
    """

    DEFAULT_CSS = """
    WhyScreen {
        #why { height: 1fr; }
        #why-photo { width: 1fr; height: 1fr; }
        #why-examples { width: 1fr; height: 1fr; margin-left: 1; grid-size: 3; grid-gutter: 0 1; }
        .why-example { height: 1fr; }
        .why-example Static { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        .why-example Preview { height: 1fr; }
        .why-line { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
        #why-sentence { height: auto; max-height: 2; text-wrap: wrap; color: $text; text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,W", "leave", "Back"),
        Binding("left,h", "move(-1, 0)", "Left"),
        Binding("right,l", "move(1, 0)", "Right"),
        Binding("up,k", "move(0, -1)", "Up"),
        Binding("down,j", "move(0, 1)", "Down"),
        Binding("tab,shift+tab", "turn", "Other class"),
        Binding("enter", "go", "Go to the example"),
        *(Binding(str(number), f"part({number})", f"Part {number}") for number in range(1, 6)),
    ]

    def __init__(self, context: Context, path: str, why: Why) -> None:
        super().__init__()
        self.names, self.path, self.why = dict(context.controller.names), path, why
        self.side, self.x, self.y = 0, 0, 0  # the class that is shown, 0 or 1, and the column and row of the cursor
        self.photo = Preview(mode=context.mode, id="why-photo")
        self.examples = [Preview(mode=context.mode) for _ in range(SHOWN)]
        self.titles = [Static(markup=False) for _ in range(SHOWN)]
        for preview in (self.photo, *self.examples):
            preview.can_focus = False

    def compose(self) -> ComposeResult:
        yield Static(id="why-sentence", classes="why-line", markup=False)
        with Horizontal(id="why"):
            yield self.photo
            with Grid(id="why-examples"):
                for title, preview in zip(self.titles, self.examples, strict=True):
                    with Vertical(classes="why-example"):
                        yield title
                        yield preview
        yield Static(id="why-cell", classes="why-line", markup=False)
        yield Static(KEYS, classes="why-line", markup=False)

    def begin(self) -> None:
        self.query_one("#why-sentence", Static).update(display_name(self.why["sentence"], 400))
        self.photo.show(self.path, framed=True, views=self.why["views"])
        self.action_part(1)
        self._turned()

    @property
    def rebuilt(self) -> Rebuilt:
        return self.why["classes"][self.side]

    def _turned(self) -> None:
        for number, preview in enumerate(self.examples):
            paths = self.rebuilt["examples"]
            preview.show(paths[number] if number < len(paths) else "", views=self.why["views"])
        self.follow()

    def follow(self) -> None:
        """Frame the cell under the cursor, and the example parts that it was rebuilt from."""
        h, w = self.why["grid"]
        at = self.y * w + self.x
        frames = [
            Mark(part["box"], str(number), "faint", is_whole=False) for number, part in enumerate(self.why["parts"], 1)
        ]
        self.photo.mark([*frames, Mark((self.x / w, self.y / h, 1 / w, 1 / h))])
        sources = {source["path"]: source for source in self.rebuilt["sources"][at]}
        first = next(iter(sources), "")
        for path, preview, title in zip(
            [*self.rebuilt["examples"], *[""] * SHOWN], self.examples, self.titles, strict=False
        ):
            source = sources.get(path)
            kind = "mark" if path == first else "faint"
            share = percent(source["share"]) if source else ""
            preview.mark([Mark(source["box"], share, kind, is_whole=False)] if source else [])  # type: ignore[arg-type]
            name = display_name(path.rpartition("/")[2], 24)
            title.update(Text(f"{share} {name}".lstrip(), style="bold" if path and path == first else ""))
        name = display_name(self.names.get(self.rebuilt["id"], "?"), 40)
        explained = percent(self.rebuilt["explained"][at])
        text = f"this cell decides {percent(self.why['shares'][at], 1)}; {name} explains {explained} of it"
        self.query_one("#why-cell", Static).update(text)

    def action_move(self, x: int, y: int) -> None:
        h, w = self.why["grid"]
        self.x, self.y = min(max(self.x + x, 0), w - 1), min(max(self.y + y, 0), h - 1)
        self.follow()

    def action_part(self, number: int) -> None:
        """Move the cursor to the cell of a part with the largest share."""
        if number <= len(self.why["parts"]):
            h, w = self.why["grid"]
            x, y, width, height = self.why["parts"][number - 1]["box"]
            cells = [
                (round(y * h) + down, round(x * w) + across)
                for down in range(round(height * h))
                for across in range(round(width * w))
            ]
            self.y, self.x = max(cells, key=lambda cell: abs(self.why["shares"][cell[0] * w + cell[1]]))
            self.follow()

    def action_turn(self) -> None:
        if len(self.why["classes"]) > 1:
            self.side = 1 - self.side
            self._turned()

    def action_go(self) -> None:
        if sources := self.rebuilt["sources"][self.y * self.why["grid"][1] + self.x]:
            self.dismiss(sources[0]["path"])

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.begun and (at := self.photo.fraction_at(event.screen_offset)) is not None:
            h, w = self.why["grid"]
            self.x, self.y = int(at[0] * w), int(at[1] * h)
            self.follow()

    def on_click(self, event: events.Click) -> None:
        for path, preview in zip(self.rebuilt["examples"], self.examples, strict=False):
            if preview.region.contains_point(event.screen_offset):
                self.dismiss(path)


async def show_why(context: Context, path: str) -> None:
    """Explain an answer on a screen of its own."""
    await context.controller.sync()
    why = await context.controller.engine.call(ExplainPhoto(path, SHOWN))

    def chosen(example: str | None) -> None:
        if example:  # when this screen is gone
            context.screen.app.call_later(context.show_example, example)

    context.screen.app.push_screen(WhyScreen(context, path, why), chosen)
