"""The main screen: classes, the photos of one class, and the query."""

from collections.abc import Sequence
from functools import partial

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import OptionList, Static
from textual.worker import WorkerState

from frn.images.boxes import Box, box_name, split_box
from frn_tui.dialogs.dialogs import Closeup
from frn_tui.document.controller import SEARCHED, Controller
from frn_tui.panes.classes import ClassesPane
from frn_tui.panes.context import Context
from frn_tui.panes.exports import Exports
from frn_tui.panes.photos import PhotosPane
from frn_tui.panes.project import PANES, ProjectBar
from frn_tui.panes.query import QueryPane
from frn_tui.panes.verdicts import called
from frn_tui.settings.keys import TABLE, KeyedScreen, shown_key
from frn_tui.settings.settings import Settings
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.paths import parse_paths
from frn_tui.terminal.text import class_keys
from frn_tui.widgets.gallery import Gallery
from frn_tui.widgets.preview import STEP, Preview

TINY = (40, 10)  # columns and rows below which only a one-line notice is shown
MEDIUM = 100  # columns from which the classes are beside another pane; below, only one pane is visible
FOOTERS = {
    name: f"help {names} undo save".split()
    for name, names in {
        "classes": "add new-class rename remove sort find next-outlier",
        "photos": "select move remove filter sort misfits next-outlier",
        "query": "ask right none-of-these move map review next-answer",
    }.items()
}
"""Keys at the bottom, by the pane in focus."""


class Workspace(KeyedScreen[None]):
    """Composes the panes, and handles what depends on the focus."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MEDIUM, "-medium"), (120, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]

    def __init__(self, controller: Controller, settings: Settings, mode: Mode) -> None:
        super().__init__()
        self.controller = controller
        self.context = Context(self, controller, settings, mode)
        self.project_bar = ProjectBar(self.context)
        self.classes_pane, self.photos_pane = ClassesPane(self.context), PhotosPane(self.context, self.show_found)
        self.query_pane = QueryPane(self.context)
        self.panes = {"classes": self.classes_pane, "photos": self.photos_pane, "query": self.query_pane}
        threshold = self.query_pane.threshold
        exports = Exports(self.context, self.query_pane.arranged, lambda: self.project_bar.file_name)
        self.services: list[object] = [self.query_pane.picture, threshold, exports, self.project_bar]
        self.query_pane.services = [exports, threshold, self.project_bar, self]
        self.focused_pane = "classes"
        self.context.show_example = self.show_example

    def compose(self) -> ComposeResult:
        self.add_class(f"-show-{self._first_pane}")  # now, because a later change would style all widgets again
        yield self.project_bar
        with Horizontal(id="panes"):
            yield self.classes_pane
            yield self.photos_pane
            yield self.query_pane
        yield self.context.jobs
        yield Static("window too small: make it larger, or ctrl+q quits", id="too-small")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.photos_pane.gallery.tile_width = max(self.context.settings.tile_width, 0)
        self.controller.listener = self.refresh_all
        self.refresh_all()
        # After layout: a temporarily hidden pane loses the focus.
        self.call_after_refresh(self.focus_pane, self._first_pane)

    @property
    def _first_pane(self) -> str:
        return "query" if self.app.size.width < MEDIUM else "classes"

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < TINY[0] or event.size.height < TINY[1], "-tiny")
        if self.focused is None and not self.has_class("-tiny"):
            self.call_after_refresh(self.focus_pane, self.focused_pane)
        self.project_bar.show()

    async def action_do(self, name: str) -> None:
        if not self.has_class("-tiny"):  # a key acts on what is visible
            await super().action_do(name)

    def refresh_all(self) -> None:
        if self.is_attached:
            self.project_bar.show()
            self.classes_pane.show()
            self.photos_pane.show(self.classes_pane.entry)
            self.query_pane.show()
            self.show_keys()
            ranking = any(worker.group == "rank" for worker in self.workers)
            if self.controller.unranked and not self.controller.coming and not ranking:
                self.context.start(self.controller.rank, group="rank")
            for watcher in tuple(self.context.watchers):
                watcher()

    # Messages between panes

    @on(OptionList.OptionHighlighted, "#classes")
    def show_photos(self) -> None:
        if self.photos_pane.entry is not self.classes_pane.entry:
            before, now = self.photos_pane.entry, self.classes_pane.entry
            if before is not None and now is not None and before.id != now.id:
                self.photos_pane.open_with_piles(False)
            self.photos_pane.show(self.classes_pane.entry)

    @on(OptionList.OptionSelected, "#classes")
    def open_class(self) -> None:
        self.focus_pane("photos")

    def show_found(self, class_id: int, path: str) -> None:
        self.classes_pane.chosen = class_id
        self.classes_pane.list.choose(class_id)
        self.photos_pane.entry = self.classes_pane.entry
        self.photos_pane.show_everywhere("")
        self.focus_pane("photos")
        self.photos_pane.gallery.cursor = self.photos_pane.gallery.paths.index(path)

    def show_example(self, path: str) -> None:
        """Go to an example, above whatever screen."""
        for key, (entry, support) in self.controller.session.state.holders().items():
            name, box = str(support.path), self.controller.box_in(key)
            if path == name or (box and path == box_name(name, Box(*box))):
                while self.app.screen is not self:
                    self.app.pop_screen()
                self.show_found(entry.id, name)
                return

    @on(Gallery.Opened)
    def ask_about_example(self, event: Gallery.Opened) -> None:
        self.ask([event.item.path])

    def action_ask(self) -> None:
        self.context.pick("Classify photos or a folder", self.ask)

    def ask(self, paths: Sequence[str]) -> None:
        self.remove_class("-everywhere")
        if not (self.app.screen is self and self.in_focus == "photos" and self.has_class("-wide")):
            self.focus_pane("query")  # otherwise keep browsing photos
        self.context.start(self.query_pane.ask_now, paths)

    def on_paste(self, event: events.Paste) -> None:
        """Handle dropped files, which arrive as pasted text: query them in the query pane, add them elsewhere."""
        event.stop()
        if paths := parse_paths(event.text):
            (self.ask if self.query_pane.has_focus_within else self.classes_pane.add)(paths)

    # Focus

    def on_descendant_focus(self) -> None:
        """Show the pane with the focus, however it got it: at every size, it is the visible one."""
        self.focused_pane = shown = self.in_focus
        for name in PANES:
            self.set_class(name == shown, f"-show-{name}")
        if shown != "classes":  # they are beside the last one of the others
            self.set_class(shown == "photos", "-beside-photos")
        if shown != "photos":
            self.remove_class("-everywhere")
        if shown != "query":
            self.remove_class("-zoomed")
        self.project_bar.show()
        self.show_keys()

    def action_pane(self, step: int) -> None:
        self.focus_pane(PANES[(PANES.index(self.in_focus) + step) % len(PANES)])

    def focus_pane(self, name: str) -> None:
        """Move the focus immediately, because the next key acts on the pane."""
        if name == "photos":
            self.photos_pane.open_with_piles(False)
        self.set_focus(next(widget for widget in self.panes[name].query("*") if widget.can_focus))
        self.on_descendant_focus()

    # Keys

    def handlers(self) -> list[object]:
        """Return the objects with actions: the focused pane, then the others, the query before the photos."""
        others = (self.query_pane, self.photos_pane, self.classes_pane)
        focused = self.panes[self.in_focus]
        panes = [focused, *(pane for pane in others if pane is not focused)]
        return [self, *panes, *self.services, self.photos_pane.gallery]

    def elsewhere(self, name: str) -> None:
        self.context.say(f"{TABLE[name].meaning}: only in the review   {shown_key('review')}: go there")

    @property
    def in_focus(self) -> str:
        """Return the pane with the focus, or the last one while the window is too small for any."""
        return next((name for name, pane in self.panes.items() if pane.has_focus_within), self.focused_pane)

    def needed(self) -> dict[str, object]:
        session, query, in_focus = self.controller.session, self.controller.query, self.in_focus
        answer = query.answer if self.query_pane.display else None
        photos, is_answered = self.photos_pane.gallery.paths, answer is not None and "scores" in answer
        removable = {"classes": session.state.classes, "photos": photos, "query": answer}
        return {
            "undo": session.can_undo,
            "save": not session.is_saved,
            "review": query.answers,
            "next-answer": len(query.answers) > 1,
            "map": answer is not None and answer.get("maps"),
            "why": is_answered,
            "right": self.photos_pane.suggests if in_focus == "photos" else is_answered,
            "none-of-these": photos if in_focus == "photos" else is_answered,
            **dict.fromkeys(("rename", "sort", "find", "ask"), session.state.classes),
            **dict.fromkeys(("next-outlier", "misfits"), self.photos_pane.misfits),
            "remove": removable[in_focus],
            "move": photos if in_focus == "photos" else answer,
        }

    def show_keys(self) -> None:
        self.query_one("#keys", Static).update(self.footer(FOOTERS[self.in_focus]))
        what = (self.photos_pane if self.in_focus == "photos" else self.query_pane).digits()
        suggestion = self.photos_pane.suggestion() if self.in_focus == "photos" else ""
        room = self.size.width - cell_len(suggestion + what) - 6
        keys = class_keys(self.controller.names.values(), room)
        fits = what and keys and (room > 12 or not suggestion)
        self.context.jobs.hint = suggestion + (f"{what}:  {keys}" if fits else "")

    def action_zoom(self, step: int) -> None:
        gallery, preview = self.photos_pane.gallery, self.query_pane.picture.preview
        if self.in_focus == "photos" and gallery.cursor_item is not None and not self.has_class("-zoomed"):
            if step > 0:
                self._enlarge()
        elif not self.has_class("-zoomed"):
            self.focus_pane("query")
            self.set_class(step > 0, "-zoomed")
        elif step > 0 or preview.zoom > 1:
            preview.look_at(preview.zoom * STEP**step, preview.centre)
            if preview.zoom > 1:
                self.context.say("arrows: move the view   B: crop the photo to it   Z: zoom out")
        else:
            self.remove_class("-zoomed")

    def _enlarge(self, *, draws: bool = False) -> None:
        """Enlarge the example under the cursor, and perhaps draw a box on it."""
        gallery, crop = self.photos_pane.gallery, partial(self.context.start, self._box_example)
        subjects = {item.path: item.subject for item in gallery.items}
        closeup = Closeup(gallery.paths, gallery.cursor, self.context.mode, crop, subjects, draws=draws)
        self.app.push_screen(closeup, lambda at: gallery.action_go(at or 0))

    async def _box_example(self, path: str, part: str) -> None:
        await self.controller.crop_example(path, part)
        is_box, searches = split_box(part)[1] is not None, self.controller.session.state.search != "none"
        hint = "   F: find it in the other photos" if is_box and not searches else ""
        self.context.say(f"{called([path])}: {'with a box' if is_box else 'the whole photo'}{hint}   u: undo")

    def action_crop(self) -> None:
        """Draw a box on the example under the cursor; crop the queried photo to its visible part, or undo that."""
        if self.in_focus == "photos" and self.photos_pane.gallery.cursor_item is not None:
            self._enlarge(draws=True)
            return
        answer, preview = self.controller.query.answer, self.query_pane.picture.preview
        if answer is None or not self.query_pane.display or (part := preview.part()) == answer["path"]:
            self.context.say("z and the arrows show a part of the photo, and B crops it; or draw a box with the mouse")
            return
        self.crop_to_box(Preview.Drawn(part))

    @on(Preview.Drawn)
    def crop_to_box(self, event: Preview.Drawn) -> None:
        answer = self.controller.query.answer
        if answer is not None:
            self.query_pane.picture.preview.look_at(1.0)
            if split_box(event.part)[1]:
                self.context.say("cropped   B: whole photo")
            self.context.start(self.controller.crop_query, answer["path"], event.part)

    def set_mode(self, mode: Mode) -> None:
        self.context.mode = self.photos_pane.gallery.mode = self.photos_pane.piles.mode = mode
        picture = self.query_pane.picture
        picture.preview.mode = picture.map.mode = mode
        picture.show()
        self.photos_pane.gallery.watch_mode()

    def action_problems(self) -> None:
        if problems := self.controller.problems:
            from frn_tui.dialogs.pages import problems_page

            self.app.push_screen(problems_page(problems))
        else:
            self.context.say("no problems: no file was skipped")

    def action_help(self) -> None:
        from frn_tui.dialogs.pages import KeysPage

        self.app.push_screen(KeysPage())

    def action_cancel(self) -> None:
        preview = self.query_pane.picture.preview
        if self.has_class("-zoomed") or preview.zoom > 1:
            self.remove_class("-zoomed")
            preview.look_at(1.0)
        elif self.photos_pane.gallery.selection or self.photos_pane.gallery.selects:
            self.photos_pane.gallery.select(())
        elif self.photos_pane.wanted_name or self.photos_pane.everywhere:
            self.photos_pane.wanted_name = ""
            self.photos_pane.show_everywhere("")
            self.refresh_all()
        elif self.controller.arrangement.is_filtered:
            self.query_pane._arrange(kind="all", said="", wanted="")
        else:
            self.query_pane.watched = None
            self.query_pane.show()
            running = [worker for worker in self.workers if worker.state == WorkerState.RUNNING]
            searching = any(worker.group in ("edit", "rank") for worker in running)
            if searching and self.controller.session.state.act == SEARCHED:
                self.project_bar.action_step_back(undo=True)  # the search of the examples, which `F` started
            for worker in running:
                if worker.group in ("job", "watch"):
                    worker.cancel()
