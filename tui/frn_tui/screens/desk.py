"""What all groups of actions stand on: the controller, what is chosen, and work in the background."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from textual.screen import Screen
from textual.worker import Worker

from frn.errors import FrnError
from frn.inference.session import ClassEntry, Session
from frn_tui.client import EngineError
from frn_tui.controller import Controller, Progress
from frn_tui.screens.picker import Picked, Picker
from frn_tui.text import display_name
from frn_tui.widgets.bars import Bars
from frn_tui.widgets.cells import Mode
from frn_tui.widgets.classes import ClassList
from frn_tui.widgets.gallery import Gallery
from frn_tui.widgets.jobs import JobLine
from frn_tui.widgets.preview import Preview

PANES = ("classes", "images", "query")


class Desk(Screen[None]):
    """A screen with a controller; groups of actions build on it."""

    def __init__(self, controller: Controller, mode: Mode) -> None:
        """Take the controller and how pictures are drawn."""
        super().__init__(classes="-show-query")
        self.controller = controller
        self.mode: Mode = mode
        self.mode_was_chosen = False
        """Whether the user set it, so that it should be remembered."""
        self.remember: Callable[[str], None] = lambda path: None
        """Told of each project that is opened or saved."""
        self.recent: Callable[[], list[str]] = list
        """Paths that were opened before, the last one first."""
        self.own_keys: dict[str, str] = {}
        """Keys that the user has set, by the bindings' ids."""
        self.chosen: int | None = None
        """Id of the class whose photos are shown."""
        self.heat, self.smooth, self.numbers = True, False, False
        self.heat_class: int | None = None
        """Id of the class whose error map is shown; None: the likeliest."""
        self.by_fit = False
        self.wanted_name = ""
        self.pane = "query"
        """In front, where there is no room for all."""
        self.focused_pane = "classes"
        self.watched: str | None = None
        self.browsed = "."
        """Folder that the file picker was in last."""
        self._job_began = 0.0

    @property
    def class_list(self) -> ClassList:
        """The classes."""
        return self.query_one(ClassList)

    @property
    def gallery(self) -> Gallery:
        """The photos of the chosen class."""
        return self.query_one(Gallery)

    @property
    def preview(self) -> Preview:
        """The photo that was asked about."""
        return self.query_one(Preview)

    @property
    def bars(self) -> Bars:
        """What the classes say of it."""
        return self.query_one(Bars)

    @property
    def jobs(self) -> JobLine:
        """How far the work is."""
        return self.query_one(JobLine)

    @property
    def names(self) -> dict[int, str]:
        """Class names by id."""
        return {entry.id: entry.name for entry in self.controller.session.state.classes}

    @property
    def entry(self) -> ClassEntry | None:
        """The chosen class."""
        return next((entry for entry in self.controller.session.state.classes if entry.id == self.chosen), None)

    def show_pane(self, name: str) -> None:
        """Bring a pane to the front, where there is no room for all."""
        self.pane = name
        for other in PANES:
            self.set_class(other == name, f"-show-{other}")

    def start(self, work: Callable[..., Awaitable[object]], *arguments: object, group: str = "job") -> Worker[object]:
        """Run something in the background; its failure is a message, not the end."""
        guarded = partial(self._guarded, work, *arguments)  # awaitable only once it runs: it may be cancelled before
        return self.run_worker(guarded, group=group, exclusive=group != "job", exit_on_error=False)

    async def _guarded(self, work: Callable[..., Awaitable[object]], *arguments: object) -> object:
        try:
            return await work(*arguments)
        except (FrnError, EngineError) as error:
            self.say(str(error), severity="error")
        except asyncio.CancelledError:
            self.jobs.say("Cancelled")
            raise
        finally:
            self.jobs.clear()
        return None

    def pick(self, title: str, then: Callable[[list[str]], object]) -> None:
        """Ask for photos, a folder or a project, and go on with their paths."""
        picker = Picker(self.controller.engine, title, self.mode, start=self.browsed)

        def picked(found: Picked | None) -> None:
            self.browsed = picker.folder
            if found is not None:
                then(found.paths)

        self.app.push_screen(picker, picked)

    def progress(self, progress: Progress) -> None:
        """Show how far the work is."""
        now = time.monotonic()
        if progress.done == 0 or self._job_began == 0:
            self._job_began = now
        spent = now - self._job_began
        left = spent / progress.done * (progress.total - progress.done) if progress.done else None
        self.jobs.show(progress.what, progress.done, progress.total, left)
        if progress.done >= progress.total:
            self._job_began = 0.0

    def say(self, text: str, *, severity: str = "information") -> None:
        """A passing message: what went well beside the jobs, trouble as a toast. Never markup: it may hold a name."""
        if severity == "information":
            self.jobs.say(text)
        else:
            self.notify(display_name(text), severity=severity, markup=False)  # type: ignore[arg-type]

    def edit(self, change: Callable[[Session], object], said: str = "") -> None:
        """Make an edit; say what can be undone."""
        self.start(self._edit, change, said, group="edit")

    async def _edit(self, change: Callable[[Session], object], said: str) -> None:
        await self.controller.edit(change)
        if said:
            self.say(f"{said}   u: undo")
