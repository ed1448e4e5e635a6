"""The one screen that is always there: classes, the photos of one class, and the query."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Static
from textual.worker import WorkerState

from frn_tui.keys import with_ids
from frn_tui.paths import parse_paths
from frn_tui.screens.look_actions import LookActions
from frn_tui.screens.project_actions import ProjectActions
from frn_tui.widgets.bars import Bars
from frn_tui.widgets.classes import ClassList
from frn_tui.widgets.gallery import Gallery
from frn_tui.widgets.jobs import JobLine
from frn_tui.widgets.preview import Preview

TINY = (40, 10)
"""Columns and rows below which only a line fits."""
COMPACT = 100
"""Columns below which the keys stand closer together, so that all fit at 80."""


class Workspace(ProjectActions, LookActions):
    """Shows the controller and turns keys into its methods."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-medium"), (120, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]

    BINDINGS: ClassVar[list[BindingType]] = with_ids(
        [
            Binding("question_mark,f1", "help", "Help"),  # first: the others may not all fit below
            Binding("n", "new_class", "New"),
            Binding("a", "add", "Add"),
            Binding("p", "ask", "Ask"),
            Binding("w", "watch", "Watch", show=False),
            Binding("y", "right", "Right"),
            Binding("x", "none_of_them", "None of them", show=False),
            Binding("m", "move", "Move", show=False),
            Binding("r", "rename", "Rename", show=False),
            Binding("d,delete", "delete", "Delete", show=False),
            Binding("h", "heat", "Heat"),
            Binding("s", "smooth", "Smooth", show=False),
            Binding("left_square_bracket", "heat_class(-1)", "Map of the class before", show=False),
            Binding("right_square_bracket", "heat_class(1)", "Map of the next class", show=False),
            Binding("t", "numbers", "Numbers", show=False),
            Binding("comma,less_than_sign", "step(-1)", "Previous answer", show=False),
            Binding("full_stop,greater_than_sign", "step(1)", "Next answer", show=False),
            Binding("l", "results", "Results"),
            Binding("f", "fit", "Sort by fit", show=False),
            Binding("g", "view", "Grid or list", show=False),
            Binding("slash", "filter", "Filter", show=False),
            Binding("k", "confusion", "Hide and test", show=False),
            Binding("minus", "threshold(-0.01)", "Threshold down", show=False),
            Binding("plus,equals_sign", "threshold(0.01)", "Threshold up", show=False),
            Binding("0", "calibrate", "Calibrate", show=False),
            Binding("u", "undo", "Undo"),
            Binding("ctrl+r", "redo", "Redo", show=False),
            Binding("ctrl+s", "save", "Save"),
            Binding("ctrl+o", "open", "Open", show=False),
            Binding("e", "export", "Export"),
            Binding("z", "zoom", "Zoom", show=False),
            Binding("c", "copy", "Copy", show=False),
            Binding("o", "viewer", "Open in a viewer", show=False),
            Binding("b", "problems", "Problems", show=False),
            Binding("i", "images_mode", "Picture mode", show=False),
            Binding("f2", "app.settings", "Settings", show=False),
            Binding("escape", "cancel", "Cancel", show=False),
            Binding("tab", "pane(1)", "Next pane", show=False, priority=True),
            Binding("shift+tab", "pane(-1)", "Previous pane", show=False, priority=True),
            *(Binding(str(n), f"number({n})", f"Class {n}", show=False) for n in range(1, 10)),
        ]
    )

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Horizontal(id="panes"):
            with Vertical(id="classes-pane", classes="pane"):
                yield ClassList(id="classes")
                yield Static(id="teach")
            with Vertical(id="images-pane", classes="pane"):
                yield Gallery(id="gallery")
            with Vertical(id="query-pane", classes="pane"):
                yield Preview(id="preview")
                yield Static(id="caption")
                yield Bars(id="bars")
                yield Static(id="history")
        yield JobLine(id="jobs")
        yield Static("window too small: make it larger, or ctrl+q quits", id="too-small")
        yield Footer()

    def on_mount(self) -> None:
        self._thumbs = {}
        self.controller.listener = self.refresh_all
        self.preview.mode = self.gallery.mode = self.mode
        self.preview.empty_text = "p asks about a photo"
        self.refresh_all()
        self.class_list.focus()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < TINY[0] or event.size.height < TINY[1], "-tiny")
        footer, close = self.query_one(Footer), event.size.width < COMPACT
        footer.compact, footer.show_command_palette = close, not close
        self.show_title()

    def action_cancel(self) -> None:
        """The large picture, then a filter, then what is running."""
        if self.has_class("-zoomed"):
            self.remove_class("-zoomed")
        elif self.wanted_name:
            self.wanted_name = ""
            self.refresh_all()
        else:
            self.watched = None
            for worker in self.workers:
                if worker.group in ("job", "watch") and worker.state == WorkerState.RUNNING:
                    worker.cancel()

    def on_paste(self, event: events.Paste) -> None:
        """Dropped files arrive as pasted text: in the query pane they are asked about, elsewhere added."""
        event.stop()
        paths = parse_paths(event.text)
        if not paths:
            return
        if self.query_one("#query-pane").has_focus_within:
            self.ask(paths)
        else:
            self.add_paths(paths)


def bindings() -> list[Binding]:
    """All keys of the workspace, as they are without the user's own."""
    return [binding for binding in Workspace.BINDINGS if isinstance(binding, Binding)]
