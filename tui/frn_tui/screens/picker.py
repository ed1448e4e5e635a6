"""The file picker: folders, photos with a preview, several at once. The disk is read by the engine."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style as RichStyle
from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from frn_tui.client import EngineError, render
from frn_tui.paths import parse_paths, shortened
from frn_tui.protocol import Engine, Entry, ListFolder, RenderPreview
from frn_tui.screens.dialogs import Dialog, Line
from frn_tui.text import display_name
from frn_tui.widgets.cells import Mode
from frn_tui.widgets.options import Options
from frn_tui.widgets.preview import Preview

GLYPHS = {"folder": "▸", "image": "▫", "project": "◆", "bundle": "◈", "model": "◇"}


class _Line(Visual):
    """An entry; only those on the screen are laid out, as a folder may have ten thousand."""

    def __init__(self, entry: Entry, marked: set[str]) -> None:
        self.entry, self.marked = entry, marked

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return cell_len(display_name(self.entry["name"])) + 3

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        mark = "✓" if self.entry["name"] in self.marked else " "
        text = f"{mark}{GLYPHS[self.entry['kind']]} {display_name(self.entry['name'], max(width - 3, 0))}"
        drawn = style.rich_style + RichStyle(bold=True) if self.entry["kind"] == "folder" else style.rich_style
        return [Strip([Segment(set_cell_size(text, width), drawn)])]


class Picker(Dialog[list[str] | None]):
    """Asks for photos, a folder of them, or a project."""

    BINDINGS = [
        Binding("escape", "leave", "Back", priority=True),
        Binding("ctrl+a", "all", "All", priority=True),
        Binding("space", "mark", "Mark", show=False),
        Binding("left,backspace", "up", "Up", show=False),
        Binding("right", "enter_folder", "Into", show=False),
        Binding("ctrl+j,f2", "accept", "Take", priority=True),
        Binding("slash", "type", "Type a path", show=False),
    ]

    def __init__(self, engine: Engine, title: str, mode: Mode, *, start: str = ".") -> None:
        super().__init__()
        self.engine, self.dialog_title = engine, title
        self.folder = self.parent_folder = start
        self.entries: list[Entry] = []
        self.marked: set[str] = set()
        self.list, self.preview = Options(id="picker-list"), Preview(id="picker-preview", mode=mode)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="picker") as box:
            box.border_title = Text(self.dialog_title)
            yield Line(placeholder="a path, or several: type, paste or drop it here")
            with Horizontal(id="picker-body"):
                yield self.list
                yield self.preview
            yield Static(
                Text(
                    "enter: open a folder, take a photo   space: mark   ctrl+a: all   f2: take the marked, or this "
                    "folder   ←: up   /: type a path   esc: back"
                ),
                classes="hint",
            )

    def begin(self) -> None:
        self.list.focus()
        self.open(self.folder)

    @work(exclusive=True, group="list")
    async def open(self, folder: str, then: str = "") -> None:
        box = self.query_one("#picker", Vertical)  # now: the screen may be going when the engine answers
        try:
            found = await self.engine.call(ListFolder(folder))
        except EngineError as error:
            self.notify(display_name(str(error)), severity="error", markup=False)
            return
        self.folder, self.parent_folder, self.entries = found["path"], found["parent"], found["entries"]
        self.marked.clear()
        self.list.set_options(Option(_Line(entry, self.marked)) for entry in self.entries)
        names = [entry["name"] for entry in self.entries]
        self.preview.empty_text = "" if names else "no folders or photos here"
        self.list.highlighted = (names.index(then) if then in names else 0) if names else None
        box.border_subtitle = Text(display_name(shortened(self.folder), 70))

    def _refresh(self) -> None:
        """Draw the marks anew."""
        if (at := self.list.highlighted) is not None:
            self.list.replace_option_prompt_at_index(at, self.list.options[at].prompt)

    @property
    def current(self) -> Entry | None:
        at = self.list.highlighted
        return self.entries[at] if at is not None and at < len(self.entries) else None

    def path_of(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"

    @on(OptionList.OptionHighlighted)
    def preview_current(self) -> None:
        entry = self.current
        if entry is not None and entry["kind"] == "image":
            self.draw(self.path_of(entry["name"]))
        else:
            self.preview.show(None)

    @work(exclusive=True, group="preview")
    async def draw(self, path: str) -> None:
        width, height = self.preview.pixel_size
        if width and height:
            self.preview.show(await render(self.engine, RenderPreview(path, width, height)))

    @on(OptionList.OptionSelected)
    def choose(self) -> None:
        self.action_enter_folder()
        if (entry := self.current) is not None and entry["kind"] != "folder":
            if self.marked:
                self.action_accept()
            else:
                self.dismiss([self.path_of(entry["name"])])

    @on(Input.Submitted)
    def typed(self, event: Input.Submitted) -> None:
        if paths := parse_paths(event.value):
            self.dismiss(paths)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if paths := parse_paths(event.text):
            self.dismiss(paths)

    def action_mark(self) -> None:
        entry = self.current
        if entry is not None and entry["kind"] != "folder":
            self.marked ^= {entry["name"]}
            self._refresh()
            if entry is not self.entries[-1]:  # from the last one the cursor would go round to the first
                self.list.action_cursor_down()

    def action_all(self) -> None:
        images = {entry["name"] for entry in self.entries if entry["kind"] == "image"}
        everything = self.marked == images
        self.marked.clear()
        self.marked.update(() if everything else images)
        self._refresh()

    def action_up(self) -> None:
        self.open(self.parent_folder, then=self.folder.rstrip("/").rpartition("/")[2])

    def action_enter_folder(self) -> None:
        entry = self.current
        if entry is not None and entry["kind"] == "folder":
            self.open(self.path_of(entry["name"]))

    def action_accept(self) -> None:
        names = [entry["name"] for entry in self.entries if entry["name"] in self.marked]
        self.dismiss([self.path_of(name) for name in names] or [self.folder])

    def action_type(self) -> None:
        self.query_one(Input).focus()
