"""File picker: folders, photos with a preview, multiple selection. The engine reads the disk."""

import os
from collections import Counter
from collections.abc import Container, Sequence
from contextlib import suppress

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import Entry, FindFolders, ListFolder, Listing, ScanPath
from frn_tui.client.protocol import EngineError
from frn_tui.dialogs.dialogs import Choose, Dialog, Line, matching
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.paths import absolute, name_of, parse_paths, shortened
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.lists import OneLine, Options
from frn_tui.widgets.preview import Preview

GLYPHS = {"folder": "▸", "image": "▫", "project": "◆", "bundle": "◈", "table": "▤", "model": "◇"}
BUTTONS = "[@click=screen.up]‹ up ›[/]  [@click=screen.accept]‹ choose ›[/]  [@click=screen.leave]‹ cancel ›[/]"
HERE: Entry = {"name": ".", "kind": "folder"}
"""The folder itself, listed as its first entry."""


class _Line(OneLine):
    """An entry of a folder, which may have ten thousand."""

    def __init__(self, entry: Entry, path: str, marked: Container[str]) -> None:
        self.entry, self.path, self.marked = entry, path, marked

    def segment(self, width: int, style: Style) -> Segment:
        mark = "✓" if self.path in self.marked else " "
        name = "this folder" if self.entry is HERE else self.entry["name"]
        text = f"{mark}{GLYPHS[self.entry['kind']]} {display_name(name, max(width - 3, 0))}"
        return Segment(
            set_cell_size(text, width), style + Style(bold=True) if self.entry["kind"] == "folder" else style
        )


class _Finder(Line):
    """Field for search letters or a path; spaces are text only in a path."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return (key != "space" or _is_path(self.value)) and super().check_consume_key(key, character)


class Picker(Dialog[list[str] | None]):
    """Dialog to choose photos, a folder or a project; typing filters the list or enters a path."""

    BINDINGS = [
        Binding("escape", "leave", "Back", priority=True),
        Binding("ctrl+a", "all", "All", priority=True),
        Binding("space", "mark", "Mark", show=False, priority=True),
        Binding("left", "up", "Up", show=False, priority=True),
        Binding("backspace", "up", "Up", show=False, priority=True),
        Binding("right", "enter_folder", "Open", show=False, priority=True),
        Binding("ctrl+down", "open_sibling(1)", "Next folder", show=False, priority=True),
        Binding("ctrl+up", "open_sibling(-1)", "Previous folder", show=False, priority=True),
        Binding("ctrl+j,f2", "accept", "Choose", priority=True),
        Binding("ctrl+f,ctrl+t", "jump", "Find a folder", priority=True),
        Binding("tab", "complete", "Complete a path", show=False, priority=True),
        *(
            Binding(key, f"in_list('{action}')", show=False, priority=True)
            for key, action in (
                ("down", "cursor_down"),
                ("up", "cursor_up"),
                ("pagedown", "page_down"),
                ("pageup", "page_up"),
                ("home", "first"),
                ("end", "last"),
            )
        ),
    ]

    def __init__(self, engine: EngineClient, title: str, mode: Mode, places: Sequence[str], start: str) -> None:
        """Start in a folder; `places` were used before."""
        super().__init__()
        self.engine, self.dialog_title, self.places = engine, title, places
        self._jumped = ""
        """Path that `ctrl+f` found last."""
        self.folder = start
        self.everything: list[Entry] = []
        self.entries: list[Entry] = []
        """All entries of the folder, and those that are listed."""
        self.marked: dict[str, None] = {}
        """Marked paths, in the order of marking; they stay marked when other folders are shown."""
        self._is_first = True
        self.list, self.preview = Options(id="picker-list"), Preview(id="picker-preview", mode=mode)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="picker") as box:
            box.border_title = Text(self.dialog_title)
            yield _Finder(placeholder="type to search; or type, paste or drop one or more paths")
            with Horizontal(id="picker-body"):
                yield self.list
                yield self.preview
            yield Static(id="picker-marks")
            yield Static(BUTTONS, id="picker-buttons")
            yield Static(
                Text(
                    "f2: choose the marked or highlighted entries   enter: open a folder, choose a photo   "
                    "space: mark   ctrl+a: mark all photos   ← →: parent, open   ctrl+↑ ↓: previous, next folder   "
                    "tab: complete a path   ctrl+f: find a folder that was used, or any below   esc: back"
                ),
                classes="hint",
            )

    def begin(self) -> None:
        self.list.can_focus = self.preview.can_focus = False
        self.open(self.folder, rising=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave spaces and arrows to the field while a path is typed."""
        text = self.query_one(Input).value if self.begun else ""
        if action == "mark" and _is_path(text):
            return False
        if (action == "up" and text) or (action == "enter_folder" and _is_path(text)):
            return False
        return super().check_action(action, parameters)

    @work(exclusive=True, group="list")
    async def open(self, folder: str, then: str = "", *, rising: bool = False) -> None:
        """List a folder; if `rising`, the nearest readable parent, since folders may be deleted meanwhile."""
        if not self.query(Input):  # the screen was closed before it began
            return
        box, field = self.query_one("#picker", Vertical), self.query_one(Input)  # now: the screen may close later
        try:
            listing = await self._listed(folder, rising=rising)
        except EngineError as error:
            self.notify(display_name(str(error)), severity="error", markup=False)
            return
        self.folder, self.everything = listing["path"], listing["entries"]
        box.border_subtitle = Text(display_name(shortened(self.folder), 70))
        if not self._is_first:
            with self.prevent(Input.Changed):
                field.value = ""
        has_folders = any(entry["kind"] == "folder" for entry in self.everything)
        then = HERE["name"] if self._is_first and has_folders else then  # the folder that someone started in
        self._is_first = False  # keep text typed before the first folder was listed
        self._list("" if _is_path(field.value) else field.value, then)

    @work(exclusive=True, group="sibling")
    async def action_open_sibling(self, step: int) -> None:
        with suppress(EngineError):
            parent = await self.engine.call(ListFolder(os.path.dirname(self.folder)))  # noqa: PTH120
            folders = [
                f"{parent['path'].rstrip('/')}/{each['name']}" for each in parent["entries"] if each["kind"] == "folder"
            ]
            if self.folder in folders and 0 <= (place := folders.index(self.folder) + step) < len(folders):
                self.open(folders[place])

    async def _listed(self, folder: str, *, rising: bool) -> Listing:
        while True:
            try:
                return await self.engine.call(ListFolder(folder))
            except EngineError:
                above = absolute(f"{absolute(folder)}/..")
                if not rising or above == absolute(folder):
                    raise
                folder = above

    def _list(self, wanted: str, then: str = "") -> None:
        """List the entries that match the letters; highlight the first one, or the one named `then`."""
        entries = [self.everything[place] for place in matching([entry["name"] for entry in self.everything], wanted)]
        self.entries = entries if wanted else [HERE, *entries]
        self.list.set_options(Option(_Line(entry, self.path_of(entry["name"]), self.marked)) for entry in self.entries)
        names = [entry["name"] for entry in self.entries]
        first = 1 if not wanted and len(names) > 1 else 0
        self.list.highlighted = (names.index(then) if then in names else first) if names else None
        if not names:
            self.preview.empty_text = "no match in this folder"
            self.preview.show("")

    def _refresh(self) -> None:
        """Draw the marks again and list them."""
        names = ", ".join(display_name(name_of(path), 20) for path in list(self.marked)[-8:])
        more = "…, " if len(self.marked) > 8 else ""
        marks = f"{len(self.marked)} marked: {more}{names}   f2: choose   esc: unmark all"
        self.query_one("#picker-marks", Static).update(Text(marks if self.marked else "", no_wrap=True))
        if (at := self.list.highlighted) is not None:
            self.list.replace_option_prompt_at_index(at, self.list.options[at].prompt)

    @property
    def current(self) -> Entry | None:
        at = self.list.highlighted
        return self.entries[at] if at is not None and at < len(self.entries) else None

    def path_of(self, name: str) -> str:
        return self.folder if name == HERE["name"] else f"{self.folder.rstrip('/')}/{name}"

    @on(OptionList.OptionHighlighted)
    def preview_current(self) -> None:
        entry = self.current
        if entry is None:
            return
        self.preview.empty_text = ""
        self.preview.show("")
        if entry["kind"] == "image":
            self.preview.show(self.path_of(entry["name"]))
        elif entry["kind"] == "folder":
            self.look_inside(self.path_of(entry["name"]))

    @work(exclusive=True, group="preview")
    async def look_inside(self, folder: str) -> None:
        with suppress(EngineError):
            kinds = Counter(entry["kind"] for entry in (await self.engine.call(ListFolder(folder)))["entries"])
            inside = f"{count_of(kinds['folder'], 'folder')}, {count_of(kinds['image'], 'photo')}"
            self.preview.empty_text = inside if kinds else "empty"

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        if not _is_path(event.value):
            self._list(event.value)

    @on(Input.Submitted)
    def entered(self, event: Input.Submitted) -> None:
        if _is_path(event.value):
            self.take(self._typed(event.value))
        else:
            self.choose()

    def _typed(self, text: str) -> list[str]:
        typed = parse_paths(text)
        return [absolute(path if path.startswith(("/", "~")) else f"{self.folder}/{path}") for path in typed]

    @on(OptionList.OptionSelected)
    def choose(self) -> None:
        entry = self.current
        if entry is None:
            return
        if self.marked or entry["kind"] != "folder" or entry is HERE:
            self.action_accept()
        else:
            self.action_enter_folder()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if paths := parse_paths(event.text):
            self.dismiss(paths)

    def action_leave(self) -> None:
        """Undo step by step: the typed text, then the marks; without either, close the picker."""
        if self.begun and (field := self.query_one(Input)).value:
            field.value = ""
        elif self.marked:
            self.marked.clear()
            self._refresh()
        else:
            self.dismiss(None)

    @work(exclusive=True, group="complete")
    async def action_complete(self) -> None:
        """Extend a typed path as far as all matching names agree."""
        if not _is_path(text := self.query_one(Input).value):
            return
        before, _, begun = text.rpartition("/")
        paths = self._typed(f"{before}/")
        try:
            entries = (await self.engine.call(ListFolder(paths[0])))["entries"] if len(paths) == 1 else []
        except EngineError:
            return
        names = [e["name"] + "/" * (e["kind"] == "folder") for e in entries if e["name"].startswith(begun)]
        if len(common := os.path.commonprefix(names)) > len(begun):  # noqa: RUF071  # of letters
            field = self.query_one(Input)
            field.value = f"{before}/{common}"
            field.cursor_position = len(field.value)
        elif len(names) > 1:
            self.notify(display_name("  ".join(names[:20]), 200), markup=False, timeout=3)

    def action_in_list(self, action: str) -> None:
        getattr(self.list, f"action_{action}")()

    def action_mark(self) -> None:
        entry = self.current
        if entry is not None and entry is not HERE:
            path = self.path_of(entry["name"])
            if path in self.marked:
                del self.marked[path]
            else:
                self.marked[path] = None
            self._refresh()
            if entry is not self.entries[-1]:  # otherwise the cursor would wrap around at the last entry
                self.list.action_cursor_down()

    def action_all(self) -> None:
        images = [self.path_of(entry["name"]) for entry in self.entries if entry["kind"] == "image"]
        if all(path in self.marked for path in images):
            for path in images:
                del self.marked[path]
        else:
            self.marked |= dict.fromkeys(images)
        self._refresh()

    def action_up(self) -> None:
        self.open(os.path.dirname(self.folder), then=name_of(self.folder), rising=True)  # noqa: PTH120

    def action_enter_folder(self) -> None:
        entry = next(iter(self.entries[1:]), None) if self.current is HERE else self.current
        if entry is not None and entry["kind"] == "folder":
            self.open(self.path_of(entry["name"]))

    def action_accept(self) -> None:
        """Return a typed path, otherwise the marked entries, otherwise the highlighted one."""
        if _is_path(text := self.query_one(Input).value):
            self.take(self._typed(text))
        elif self.marked:
            self.dismiss(list(self.marked))
        elif self.current is not None:
            self.dismiss([self.path_of(self.current["name"])])

    @work(exclusive=True, group="take")
    async def take(self, paths: list[str]) -> None:
        """Accept typed paths; if one does not exist, show a message and keep the text so that it can be corrected."""
        for path in paths:
            try:
                scanned = await self.engine.call(ScanPath(path))
            except EngineError:  # the receiver reports the reason
                break
            try:
                if scanned["kind"] == "nothing":  # an empty folder can be watched
                    await self.engine.call(ListFolder(path))
            except EngineError:
                self.notify(display_name(scanned.get("reason", path)), severity="warning", markup=False)
                return
        if paths:
            self.dismiss(paths)

    @work(exclusive=True, group="jump")
    async def action_jump(self) -> None:
        """Find a place that was used before, or a folder below the one just found, below this one, or at home."""
        paths = dict.fromkeys(self.places)
        there = self.path_of(self.current["name"]) if self.current is not None else ""
        for root in dict.fromkeys((there if there == self._jumped else self.folder, absolute("~"))):
            with suppress(EngineError):
                below = await self.engine.call(FindFolders(root))
                paths |= dict.fromkeys(f"{root.rstrip('/')}/{name}" for name in below)

        def chosen(index: int | None) -> None:
            if index is not None:
                self._jumped = path = list(paths)[index]
                is_file = path.lower().endswith((".frn.json", ".zip", ".csv", ".tsv"))
                self.dismiss([path]) if is_file else self.open(os.path.dirname(path), then=name_of(path))  # noqa: PTH120

        if self.is_current:
            self.app.push_screen(Choose("Go to", [shortened(path) for path in paths]), chosen)


def _is_path(text: str) -> bool:
    return any(character in text for character in "/~\\")
