"""Queries about photos, and corrections of the results."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from frn.errors import FrnError
from frn.projects.session import Find
from frn_tui.client.file_requests import ListFolder, PathContents, StampFiles
from frn_tui.client.protocol import QueryAnswer
from frn_tui.dialogs.dialogs import Choose
from frn_tui.document.queries import Problem
from frn_tui.document.review_state import Reviewed, rival
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.picture import PicturePane
from frn_tui.panes.verdicts import Arranging, Judging, Threshold
from frn_tui.terminal.paths import absolute, name_of
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.bars import BarRow, Bars

SEARCHES: dict[Find, str] = {
    "none": "off: whole photos are classified",
    "one": "on: the subject of each photo is found and classified",
    "all": "all: the same, and every subject is framed and counted",
    "auto": "auto: the examples decide, by leave-one-out",
}
"""Ways to search for subjects."""


class QueryPane(Judging, Arranging, Pane):
    """The queried photo, the score of each class for it, and its place among the answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,l,down,right", "step(1)", "Next answer", show=False),
        Binding("k,h,up,left", "step(-1)", "Previous answer", show=False),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="query-pane")
        self.picture, self.bars = PicturePane(context), Bars(id="bars")
        self.place = Static(id="answers")  # the rival class, the main example, and the position among the answers
        self.threshold = Threshold(context)
        self.services: list[object] = []
        self.review_view = "grid"
        self.watched: str | None = None  # folder whose new photos become queries

    def compose(self) -> ComposeResult:
        yield self.picture
        with Vertical(id="verdict"):
            yield self.bars
            yield self.place

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= 3 * event.size.height, "-landscape")

    def show(self) -> None:
        controller, answer = self.controller, self.controller.query.answer
        of = f" · {display_name(answer['path'].rpartition('/')[2], 30)}" if answer else ""
        watching = f" · watching {name_of(self.watched)}/" if self.watched else ""
        new = f" · {count} new (>)" if (count := len(controller.query.arrived)) else ""
        self.border_title = Text(f"Query{new}{of}{watching}")
        names = controller.names
        numbers = {class_id: number for number, class_id in enumerate(names, 1) if number < 10}
        rows = [
            BarRow(names[score["id"]], score["probability"], numbers.get(score["id"]), score["id"])
            for score in (answer.get("scores", []) if answer else [])
            if score["id"] in names
        ]
        known, unknown = (answer.get("known"), bool(answer.get("unknown"))) if answer else (None, False)
        self.bars.show(rows, known, controller.threshold, unknown=unknown)
        self.picture.show()
        self.place.update(self._place(answer))

    def _place(self, answer: QueryAnswer | None) -> Text:
        query, names = self.controller.query, self.controller.names
        lines = Text(no_wrap=True, overflow="ellipsis")
        if answer is not None and "scores" in answer:
            room = max((self.place.size.width or 44) - len("rival    from "), 8)
            other = rival(answer, names)
            _, near = self.controller.session.state.holders().get(answer.get("nearest", ""), (None, None))
            label = self.controller.label_of(answer)
            parts = [f"your label {display_name(label, room // 2)}"] if label else []
            parts += [f"rival {display_name(other, room - room // 2)}"] if other else []
            parts += [f"from {display_name(near.path.name, room // 2)}"] if near else []
            lines.append("   ".join(parts))
        if answer is not None and len(query.answers) > 1:
            self.controller.reviewed()
            paths, order = self.controller.arrangement.paths, self.controller.arrangement.order
            order = "" if order == "original order" else f" {order}"
            place = f"{paths.index(answer['path']) + 1}/{len(paths)}" if answer["path"] in paths else f"-/{len(paths)}"
            order += " (filtered)" if self.controller.arrangement.is_filtered else ""
            lines.append(
                f"\n{place}{order}   {query.rejected} unknown{query.how}{query.waiting}   ‹ ,  . ›   L: review"
            )
        return lines

    def digits(self) -> str:
        answer = self.controller.query.answer
        if answer is None or "key" not in answer or not self.display:
            return ""
        return f"1-9: add {display_name(name_of(answer['path']), 24)} to"

    def arranged(self) -> list[Reviewed]:
        items = {item.path: item for item in self.controller.reviewed()}
        return [items[path] for path in self.controller.arrangement.paths]

    def judged(self) -> list[QueryAnswer]:
        answer = self.controller.query.answer
        if not self.display:
            self.context.say("the query is hidden: tab shows it")
        return [answer] if answer is not None and self.display else []

    def advance(self) -> None:
        self.action_step(1)

    def action_remove(self) -> None:
        following = self.controller.path_after(1)
        super().action_remove()
        self.controller.query.show(following)

    def rearranged(self) -> None:
        self.context.say(f"answers: {self.controller.arrangement.words}")
        self.show()

    def go_to(self, path: str) -> None:
        self.controller.query.show(path)  # now: the next key acts on it
        self.context.start(self.controller.show, path, group="step")

    def action_review(self) -> None:
        if not self.controller.query.answers:
            self.context.say("p classifies a photo or a folder")
            return

        def chosen(path: str | None) -> None:
            self.review_view = review.gallery.view
            if path is not None:
                self.go_to(path)

        from frn_tui.panes.review import Review  # not needed for the first paint

        review = Review(self.context, self.threshold, [self, *self.services], self.review_view)
        self.app.push_screen(review, chosen)

    async def ask_now(self, paths: Sequence[str]) -> None:
        files: list[str] = []
        unusable: list[Problem] = []
        for path in paths:
            contents = await self.controller.scan(path, 1)
            if contents["kind"] == "nothing":
                unusable.append(Problem(path, contents.get("reason", f"{path}: has no photos to classify")))
            files += everything_in(contents)
        self.context.tell_of_unusable(unusable)
        if files:
            self.picture.heat_class = None
            await self.controller.ask(files)
            self._tell_of_missing()

    def _tell_of_missing(self) -> None:
        if missing := len(self.controller.missing):
            self.context.say(f"{count_of(missing, 'photo')} missing and not used   R: find them", severity="warning")

    def action_step(self, step: int) -> None:
        query = self.controller.query
        if len(query.answers) > (query.answer is not None):
            self.picture.heat_class = None
            self.go_to(self.controller.path_after(step))
            if not self.controller.arrangement.paths:
                self.context.say(f"no answers match: {self.controller.arrangement.words}   f: filter")

    def action_new(self) -> None:
        if arrived := self.controller.query.arrived:
            self.picture.heat_class = None
            self.go_to(arrived[0])
        else:
            self.context.say("no new photo has arrived   w: watch a folder")

    @on(Bars.Clicked)
    def take_bar(self, event: Bars.Clicked) -> None:
        """On a click, show the class's error map; on a double click, assign the photo to the class."""
        if event.twice and (entry := self.controller.entry(event.class_id)) is not None:
            self.judge({entry.id: self.judged()})
        else:
            self.picture.show_class(event.class_id)

    @on(Bars.ThresholdChosen)
    def set_threshold(self, event: Bars.ThresholdChosen) -> None:
        self.threshold.set(event.value)

    def action_watch(self) -> None:
        if self.watched is not None:
            self.context.say(f"stopped watching {self.watched}")
            self.watched = None
            self.show()
            return

        def picked(paths: list[str]) -> None:
            self.watched = absolute(paths[0])
            self.context.start(self.watch_folder, self.watched, group="watch")

        self.context.pick("Watch a folder and classify new photos", picked)

    async def watch_folder(self, folder: str) -> None:
        """Classify new and changed photos in a folder and its subfolders until it is no longer watched."""
        try:
            await self.controller.engine.call(ListFolder(folder))  # raises an error if it does not exist
            classified = before = await self._stamps(folder)
            self.show()
            self.context.say(f"watching {folder}   w: stop")
            while self.watched == folder:
                await asyncio.sleep(1)
                stamps = await self._stamps(folder)
                # What has changed since then is still being copied; what pauses half-way is classified again.
                complete = [file for file, now in stamps.items() if classified.get(file) != now == before.get(file)]
                before = stamps
                if complete and self.watched == folder:
                    classified = {**classified, **{file: stamps[file] for file in complete}}
                    await self.controller.ask(complete, arrived=True)
        except FrnError as error:
            self.watched = None
            raise FrnError(f"{error}   stopped watching {folder}   w: watch again") from error

    async def _stamps(self, folder: str) -> dict[str, tuple[int, int]]:
        files = everything_in(await self.controller.scan(folder, 1))
        return await self.controller.engine.call(StampFiles(files)) if files else {}

    def action_subjects(self) -> None:
        search = self.controller.session.state.search
        options = [f"{'●' if kind == search else ' '} {words}" for kind, words in SEARCHES.items()]

        def chosen(index: int) -> None:
            wanted = list(SEARCHES)[index]
            if wanted != search:
                self.context.say(f"{SEARCHES[wanted]}   u: undo")
                self.context.start(self.controller.search, wanted, group="edit")

        self.context.ask(Choose("Find the subject of each photo", options), chosen)

    def action_jointly(self) -> None:
        if why := self.controller.not_jointly:
            self.context.say(why)
            return
        self.controller.query.jointly = not self.controller.query.jointly
        self.context.start(self.controller.judge_again)

    def action_group(self) -> None:
        unknown = [answer["path"] for answer in self.controller.query.answers if answer.get("unknown")]
        start_grouping = partial(self.context.start, self._group_found)
        pick = partial(self.context.pick, "Group the photos of a folder into classes", start_grouping)
        if not unknown:
            pick()
            return
        options = [f"the {count_of(len(unknown), 'unknown photo')}", "photos in a folder…"]
        choose = Choose("Group into classes", options)
        self.context.ask(choose, lambda index: pick() if index else self.context.start(self._group, unknown))

    async def _group_found(self, paths: list[str]) -> None:
        await self._group([file for path in paths for file in everything_in(await self.controller.scan(path, 1))])

    async def _group(self, paths: list[str]) -> None:
        groups = await self.controller.group(paths)
        self.context.say(
            f"grouped {count_of(len(paths), 'photo')} into {count_of(len(groups), 'group')}; r renames them   u: undo"
        )


def everything_in(found: PathContents) -> list[str]:
    """Return the photos of a folder and its subfolders."""
    return found["files"] + [file for members in found["classes"].values() for file in members]
