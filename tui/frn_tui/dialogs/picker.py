"""File picker: folders, photos with a preview, multiple selection. The engine reads the disk."""

import os
from collections.abc import Container

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

from frn_tui.client.file_requests import Entry, FindFolders, Inside, ListFolder, Listing, LookInside, ScanPath
from frn_tui.client.protocol import Engine, EngineError
from frn_tui.client.rendering import render
from frn_tui.dialogs.dialogs import Choose, Dialog, Line
from frn_tui.dialogs.finding import narrowed
from frn_tui.settings.places import Places
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.paths import absolute, name_of, parse_paths, shortened
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.options import OneLine, Options
from frn_tui.widgets.preview import Preview

GLYPHS = {"folder": "▸", "image": "▫", "project": "◆", "bundle": "◈", "table": "▤", "model": "◇"}
BUTTONS = "[@click=screen.up]‹ up ›[/]  [@click=screen.accept]‹ choose ›[/]  [@click=screen.leave]‹ cancel ›[/]"
"""Buttons for the mouse."""
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
        Binding("ctrl+j,f2", "accept", "Choose", priority=True),
        Binding("ctrl+t", "go_to", "Go to", priority=True),
        Binding("ctrl+f", "jump", "Find a folder", priority=True),
        Binding("ctrl+b", "bookmark", "Bookmark", priority=True),
        Binding("tab", "to_list", "Go to the list", show=False, priority=True),
        *(
            Binding(key, f"by_letter('{action}')", show=False, priority=True)
            for key, action in (("h", "up"), ("j", "cursor_down"), ("k", "cursor_up"), ("l", "enter_folder"))
        ),
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

    def __init__(self, engine: Engine, title: str, mode: Mode, places: Places, *, start: str = ".") -> None:
        super().__init__()
        self.engine, self.dialog_title, self.places = engine, title, places
        self.folder = self.parent_folder = start
        self.everything: list[Entry] = []
        """All entries of the folder."""
        self.entries: list[Entry] = []
        """Listed entries."""
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
                    "f2: choose the marked or highlighted   enter: open a folder, choose a photo   space: mark   "
                    "ctrl+a: mark all photos   ← →: parent, open   tab: complete a path, or go to the list   "
                    "ctrl+t: bookmarks   ctrl+f: find a folder   ctrl+b: bookmark this folder   esc: back"
                ),
                classes="hint",
            )

    def begin(self) -> None:
        self.preview.can_focus = False
        self.open(self.folder, rising=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave spaces and arrows to the field while a path is typed."""
        text = self.query_one(Input).value if self.begun else ""
        if action == "by_letter":  # letters search unless the list has the focus
            return self.list.has_focus
        if action == "mark" and _is_path(text):
            return False
        if (action == "up" and text) or (action == "enter_folder" and _is_path(text)):
            return False
        return super().check_action(action, parameters)

    @work(exclusive=True, group="list")
    async def open(self, folder: str, then: str = "", *, rising: bool = False) -> None:
        """List a folder; if `rising`, the nearest readable parent, since folders may be deleted meanwhile."""
        box = self.query_one("#picker", Vertical)  # done now, since the screen may close before the answer
        try:
            found = await self._listed(folder, rising=rising)
        except EngineError as error:
            self.notify(display_name(str(error)), severity="error", markup=False)
            return
        self.folder, self.parent_folder, self.everything = found["path"], found["parent"], found["entries"]
        box.border_subtitle = Text(display_name(shortened(self.folder), 70))
        field = self.query_one(Input)
        if not self._is_first:
            with self.prevent(Input.Changed):
                field.value = ""
        self._is_first = False  # keep text typed before the first folder was listed
        self._list("" if _is_path(field.value) else field.value, then)

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
        self.entries = [HERE, *self.everything] if not wanted else narrowed(self.everything, wanted)
        self.list.set_options(Option(_Line(entry, self.path_of(entry["name"]), self.marked)) for entry in self.entries)
        names = [entry["name"] for entry in self.entries]
        first = 1 if not wanted and len(names) > 1 else 0
        self.list.highlighted = (names.index(then) if then in names else first) if names else None
        if not names:
            self.preview.empty_text = "no match in this folder"
            self.preview.show(None)

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
        self.preview.show(None)
        if entry["kind"] == "image":
            self.draw(self.path_of(entry["name"]))
        elif entry["kind"] == "folder":
            self.look_inside(self.path_of(entry["name"]))

    @work(exclusive=True, group="preview")
    async def draw(self, path: str) -> None:
        if request := self.preview.request(path):
            self.preview.show(await render(self.engine, request))

    @work(exclusive=True, group="preview")
    async def look_inside(self, path: str) -> None:
        try:
            inside = await self.engine.call(LookInside(path))
        except EngineError as error:
            self.preview.empty_text = display_name(str(error))
        else:
            self.preview.empty_text = told(inside)

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        if not _is_path(event.value):
            self._list(event.value)

    @on(Input.Submitted)
    def entered(self, event: Input.Submitted) -> None:
        """Return the typed paths, or act on the highlighted entry."""
        if _is_path(event.value):
            self.take(self._typed(event.value))
        else:
            self.choose()

    def _typed(self, text: str) -> list[str]:
        """Return the typed paths, relative to the shown folder."""
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

    def on_key(self, event: events.Key) -> None:
        """Search with other keys typed in the list."""
        if self.list.has_focus and event.is_printable and event.character:
            event.prevent_default()
            event.stop()
            field = self.query_one(Input)
            field.focus()
            field.insert_text_at_cursor(event.character)

    def action_to_list(self) -> None:
        """Complete a path that is being typed; otherwise switch between the field and the list, where letters move."""
        if _is_path(text := self.query_one(Input).value):
            self.complete(text)
        else:
            (self.query_one(Input) if self.list.has_focus else self.list).focus()

    @work(exclusive=True, group="complete")
    async def complete(self, text: str) -> None:
        """Extend the typed path as far as all matching names agree."""
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

    def action_by_letter(self, action: str) -> None:
        getattr(self if action in ("up", "enter_folder") else self.list, f"action_{action}")()

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
        self.open(self.parent_folder, then=name_of(self.folder), rising=True)

    def action_enter_folder(self) -> None:
        entry = self.current
        if entry is not None and entry["kind"] == "folder" and entry is not HERE:
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
                found = await self.engine.call(ScanPath(path))
            except EngineError:  # the receiver reports the reason
                break
            if found["kind"] == "nothing" and not await self._is_folder(path):  # an empty folder can be watched
                self.notify(display_name(found.get("reason", path)), severity="warning", markup=False)
                return
        if paths:
            self.dismiss(paths)

    async def _is_folder(self, path: str) -> bool:
        try:
            await self.engine.call(ListFolder(path))
        except EngineError:
            return False
        return True

    def action_go_to(self) -> None:
        """Choose among bookmarks and recently opened places."""
        known = self.places.known()
        if not known:
            self.notify("no bookmarks yet: ctrl+b bookmarks a folder")
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                path = known[index]
                self.dismiss([path]) if path.lower().endswith((".frn.json", ".zip")) else self.open(path)

        marks = ["★" if path in self.places.bookmarks else " " for path in known]
        options = [f"{mark} {shortened(path)}" for mark, path in zip(marks, known, strict=True)]
        self.app.push_screen(Choose("Go to", options), chosen)

    @work(exclusive=True, group="jump")
    async def action_jump(self) -> None:
        """Choose a folder below this one by a few letters of its path."""
        try:
            folders = await self.engine.call(FindFolders(self.folder))
        except EngineError as error:
            self.notify(display_name(str(error)), severity="error", markup=False)
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                self.open(self.path_of(folders[index]))

        if self.is_current:
            self.app.push_screen(Choose("Folders below", folders), chosen)

    def action_bookmark(self) -> None:
        is_one = self.places.toggle(self.folder)
        said = "is bookmarked; ctrl+t opens bookmarks" if is_one else "is no longer bookmarked"
        self.notify(f"{display_name(shortened(self.folder), 60)} {said}", markup=False)


def told(inside: Inside) -> str:
    """Describe a folder's contents."""
    if not inside["folders"] and not inside["photos"]:
        return "no photos or folders"
    counts = f"{count_of(inside['folders'], 'folder')}, {count_of(inside['photos'], 'photo')}"
    more = " or more" if inside["more"] else ""
    lines = [f"{display_name(name, 24)}  {photos:,}" for name, photos in inside["classes"]]
    return "\n".join([f"{counts}{more}", "", *lines])


def _is_path(text: str) -> bool:
    return any(character in text for character in "/~\\")
