"""Building classes: making, renaming, filling, sorting out."""

from collections.abc import Sequence

from textual import on
from textual.widgets import OptionList

from frn.inference.session import ClassEntry
from frn_tui.controller import Added, Problem
from frn_tui.protocol import ELSEWHERE
from frn_tui.screens.dialogs import AskText, Choose
from frn_tui.screens.showing import Showing
from frn_tui.text import display_name
from frn_tui.widgets.classes import ClassList
from frn_tui.widgets.gallery import Gallery

MANY = 500
"""Photos from which on adding asks first."""


class ClassActions(Showing):
    """Edits of the classes and their photos."""

    @on(ClassList.Chosen)
    def choose(self, event: ClassList.Chosen) -> None:
        self.chosen = event.class_id
        self._show_images()

    @on(OptionList.OptionSelected, "#classes")
    def open_class(self) -> None:
        self.show_pane("images")
        self.gallery.focus()

    @on(Gallery.SelectionChanged)
    def selection_changed(self) -> None:
        self._selection()

    def action_new_class(self) -> None:
        def made(name: str | None) -> None:
            if name is not None:
                self.edit(lambda session: self._take(session.create(name)))

        self.app.push_screen(AskText("New class", hint="its name   enter: done   esc: back"), made)

    def _take(self, class_id: int) -> None:
        self.chosen = class_id
        self.call_after_refresh(self.class_list.choose, class_id)  # once it is in the list

    def action_rename(self) -> None:
        entry = self.entry
        if entry is None:
            return

        def named(name: str | None) -> None:
            if name is not None:
                self.edit(lambda session: session.rename(entry.id, name))

        self.app.push_screen(AskText(f"Rename {display_name(entry.name, 40)}", entry.name), named)

    def action_delete(self) -> None:
        """The selected photos where photos are in focus, the class where classes are."""
        entry = self.entry
        if entry is None:
            return
        if self.gallery.has_focus:
            keys = self._selected_keys()
            if keys:
                self.edit(lambda session: session.remove(keys), f"removed {len(keys)} from {entry.name}")
        else:
            self.edit(lambda session: session.delete(entry.id), f"deleted {entry.name}, {len(entry.supports)} photos")

    def _selected_keys(self) -> list[str]:
        gallery, entry = self.gallery, self.entry
        item = gallery.cursor_item
        paths = gallery.selection or ([item.path] if item is not None else [])
        by_path = {str(s.path): s.key for s in entry.supports} if entry else {}
        return [by_path[path] for path in paths if path in by_path]

    def action_number(self, number: int) -> None:
        """Class N takes the selected photos, or the photo that was asked about; from the class list it is chosen."""
        classes = self.controller.session.state.classes
        if number > len(classes):
            self.say(f"there is no class number {number}")
            return
        self._to(classes[number - 1])

    def _to(self, target: ClassEntry) -> None:
        if self.gallery.has_focus:
            keys = self._selected_keys()
            if keys and target.id != self.chosen:
                self.edit(lambda session: session.move(keys, target.id), f"moved {len(keys)} to {target.name}")
        elif self.class_list.has_focus:
            self.class_list.choose(target.id)
        else:
            self.start(self._correct, target, group="edit")

    async def _correct(self, target: ClassEntry) -> None:
        outcome = await self.controller.correct(target.id)
        there = f"it is an example of {outcome.duplicates[0].class_name} already" if outcome.duplicates else ""
        self.say(there or f"added to {target.name}   u: undo")

    def action_move(self) -> None:
        classes = self.controller.session.state.classes
        if not classes:
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                self._to(classes[index])

        title = "It is of class" if self.preview.has_focus else "To class"
        self.app.push_screen(Choose(title, [entry.name for entry in classes]), chosen)

    def action_add(self) -> None:
        entry = self.entry
        where = f"to {display_name(entry.name, 40)}" if entry else "as classes"
        self.pick(f"Add photos {where}, or a folder of class folders", self.add_paths)

    def add_paths(self, paths: Sequence[str]) -> None:
        """Add photos to the chosen class; a folder of class folders becomes classes; a project is opened."""
        self.start(self._add_paths, paths)

    async def _add_paths(self, paths: Sequence[str]) -> None:
        files: list[str] = []
        for path in paths:
            found = await self.controller.scan(path)
            if found["kind"] == "project":
                if await self._may_forget():
                    await self.open_project(path)
                return
            if found["kind"] == "classes":
                count = sum(map(len, found["classes"].values()))
                classes = await self._fewer(found["classes"], count)
                if classes is None:
                    return
                self._told(await self.controller.add_classes(classes, self.progress))
                continue
            if found["kind"] == "nothing":
                self.say(found.get("reason", f"{path}: nothing to add"), severity="warning")
                continue
            files += found["files"]
        if not files:
            return
        if self.chosen is None:
            folder = files[0].rpartition("/")[0].rpartition("/")[2] or "class 1"
            with_name = await self.app.push_screen_wait(AskText("Name of the class", folder))
            if with_name is None:
                return
            await self.controller.edit(lambda session: self._take(session.create(with_name)))
        assert self.chosen is not None
        self._told(await self.controller.add(self.chosen, files, self.progress))

    async def _may_forget(self) -> bool:
        """Whether what is unsaved may go."""
        if self.controller.session.is_saved:
            return True
        options = ["go on, and forget what is unsaved", "stay"]
        return await self.app.push_screen_wait(Choose("There are unsaved changes", options)) == 0

    async def open_project(self, path: str) -> None:
        """Open a project file; ask how where another app has it open."""
        copy = False
        if (holder := await self.controller.holder(path)) is not None:
            options = [
                "open a copy; saving asks for a name",
                "take it over; the other can no longer save it",
                "leave it",
            ]
            name = display_name(path.rpartition("/")[2], 24)
            title = f"{name} is {ELSEWHERE} (process {holder})"
            chosen = await self.app.push_screen_wait(Choose(title, options))
            if chosen not in (0, 1):
                return
            copy = chosen == 0
        await self.controller.load(path, self.progress, copy=copy)
        self.remember(path)
        self.say(f"opened a copy of {path}" if copy else f"opened {path}")

    async def _fewer(self, classes: dict[str, list[str]], count: int) -> dict[str, list[str]] | None:
        """Many photos take long and help little: offer some of each class."""
        if count <= MANY:
            return classes
        options = ["20 of each class", "5 of each class", f"all {count:,} photos"]
        chosen = await self.app.push_screen_wait(Choose(f"{count:,} photos in {len(classes)} classes: add", options))
        if chosen is None:
            return None
        if chosen == 2:
            return classes
        most = (20, 5)[chosen]
        return {
            name: [files[i * len(files) // most] for i in range(min(most, len(files)))] if len(files) > most else files
            for name, files in classes.items()
        }

    def _told(self, outcome: Added) -> None:
        self.say(
            f"{outcome}   u: undo" if outcome.added else str(outcome),
            severity="information" if outcome.added else "warning",
        )
        if outcome.duplicates:
            self.controller.problems += [Problem(str(d.path), str(d).partition(": ")[2]) for d in outcome.duplicates]
            self.show_title()
