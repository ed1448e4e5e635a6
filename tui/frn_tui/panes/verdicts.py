"""Actions on results: label them, set the threshold, sort and write them."""

from collections.abc import Callable, Sequence

from frn.inference.session import ClassEntry, Session
from frn_tui.client.file_requests import WriteText
from frn_tui.client.protocol import Answer
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.photo_files import sort
from frn_tui.document.queries import best_score
from frn_tui.document.results import as_csv, as_json
from frn_tui.document.review_state import OTHER, Reviewed, folder_of
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import absolute
from frn_tui.terminal.text import count_of, display_name, percent, share_of


class ThresholdKeys:
    """The actions of the keys that set the threshold, for a pane or a screen that has `verdicts`."""

    verdicts: "Verdicts"

    def action_threshold(self, step: float) -> None:
        self.verdicts.step_threshold(step)

    def action_type_threshold(self) -> None:
        self.verdicts.type_threshold()

    def action_calibrate(self) -> None:
        self.verdicts.set_threshold(None, "threshold from the examples")


class Verdicts:
    """Actions shared by the query pane and the review."""

    def __init__(self, context: Context, ask_more: Callable[[], object]) -> None:
        self.context, self.controller, self.ask_more = context, context.controller, ask_more
        self._rejected: int | None = None
        """Unknown answers before the threshold was moved."""

    @property
    def threshold(self) -> float:
        """Return the last threshold set, because the engine reports it later than the next key."""
        own = self.controller.session.state.threshold
        return self.controller.threshold if own is None else own

    def label(self, answers: Sequence[Answer], class_id: int) -> None:
        """Make photos examples of a class, in one edit."""
        name = display_name(self.controller.names.get(class_id, ""), 30)

        def label(session: Session) -> None:
            outcome = self.controller.label(answers, class_id)
            if outcome.duplicates and not outcome.added:
                self.context.say(f"it is an example of {outcome.duplicates[0].class_name} already")
                return
            photos = "" if len(answers) == 1 else f"{count_of(outcome.added, 'photo')} "
            session.name_act(f"{photos}added to {name}")
            self.context.say(f"{photos}added to {name}   u: undo")

        self.context.edit(label)

    def set_aside(self, answers: Sequence[Answer]) -> None:
        """Say that photos are of none of the classes, in one edit."""
        known = [answer for answer in answers if "key" in answer]
        photos = "it is" if len(known) == 1 else f"{count_of(len(known), 'photo')}:"
        if known:
            self.context.edit(lambda _: self.controller.set_aside(known), f"{photos} {OTHER}")

    def right(self, answers: Sequence[Answer]) -> None:
        """Make photos examples of their predicted classes, in one edit."""
        by_class: dict[int, list[Answer]] = {}
        for answer in answers:
            if (best := best_score(answer)) is not None and best["id"] in self.controller.names:
                by_class.setdefault(best["id"], []).append(answer)
        if len(by_class) == 1:
            self.label(*next((some, class_id) for class_id, some in by_class.items()))
            return

        def label(session: Session) -> None:
            with session.one_edit():
                added = sum(self.controller.label(some, class_id).added for class_id, some in by_class.items())
            said = f"{count_of(added, 'photo')} added to {len(by_class)} classes"
            if added:
                session.name_act(said)
            self.context.say(f"{said}   u: undo" if added else said)

        if by_class:
            self.context.edit(label)

    def choose_class(self, then: Callable[[ClassEntry], object]) -> None:
        """Ask for a class by name."""
        classes = self.controller.session.state.classes
        if classes:
            dialog = Choose("It is of class", [entry.name for entry in classes])
            self.context.ask(dialog, lambda index: then(classes[index]))

    def step_threshold(self, step: float) -> None:
        value = min(max(round(self.threshold + step, 3), 0.0), 1.0)
        self.set_threshold(value, f"unknown below {percent(value)} explained")

    def set_threshold(self, value: float | None, said: str = "") -> None:
        """Set it, and say how many answers were unknown before and are after; several keys in a row count as one."""
        said = said or f"unknown below {percent(self.threshold if value is None else value, 1)} explained"
        if self._rejected is None:
            self._rejected = self.controller.query.rejected
        self.context.edit(lambda session: session.set_threshold(value), said)
        self.controller.listener()
        if self.controller.query.answers:
            self.context.start(self._count_unknown, said, group="threshold")

    async def _count_unknown(self, said: str) -> None:
        await self.controller.sync()
        before, self._rejected = self._rejected, None
        self.context.say(f"{said}: unknown {before} → {self.controller.query.rejected}   u: undo")

    def type_threshold(self) -> None:
        hint = "share that a class must explain, 0 to 100 %; empty: from the examples   enter: done   esc: back"

        def typed(text: str) -> None:
            value = share_of(text)
            if text.strip() and value is None:
                self.context.say("a threshold is a number from 0 to 100", severity="warning")
            else:
                said = (
                    "threshold from the examples" if value is None else f"unknown below {percent(value, 1)} explained"
                )
                self.set_threshold(value, said)

        self.context.ask(AskText("Threshold", f"{100 * self.threshold:.1f}", hint), typed)

    def sort_into_folders(self, items: Sequence[Reviewed]) -> None:
        """Copy the photos into one folder per prediction, or move them if the user chooses so."""
        names = self.controller.names.values()
        photos = [(item.path, folder_of(item, names)) for item in items if item.is_readable]
        if not photos:
            self.context.say("no photo to sort")
            return

        def named(folder: str) -> None:
            if self.context.is_named(folder):
                self.context.start(self._sort, absolute(folder), photos)

        hint = "a folder for each class and for unknown ones; what you said counts before the answer"
        self.context.ask(AskText(f"Sort {count_of(len(photos), 'photo')} into folders in", "sorted", hint), named)

    async def _sort(self, folder: str, photos: Sequence[tuple[str, str]]) -> None:
        options = ["copy them: the originals stay", "move them: the originals go"]
        chosen = await self.context.chosen(f"Into {display_name(folder, 50)}", options)
        if chosen is not None:
            said = await sort(self.controller, folder, photos, move=chosen == 1, progress=self.context.progress)
            self.context.say(f"{said} into {folder}   {'u: undo' if chosen == 1 else 'undo leaves the copies there'}")

    def write(self, items: Sequence[Reviewed]) -> None:
        """Write the results to a file."""
        options = [("CSV: for a spreadsheet", "results.csv"), ("JSON lines: for a program", "results.jsonl")]

        def chosen(index: int) -> None:
            self.context.ask_path(AskText("Write the results to", options[index][1]), self._write, items, index == 0)

        self.context.ask(Choose(f"Write {count_of(len(items), 'answer')} as", [words for words, _ in options]), chosen)

    async def _write(self, path: str, items: Sequence[Reviewed], csv: bool) -> None:
        model, state = self.controller.model, self.controller.session.state
        sha256 = model["sha256"] if model else ""
        text = as_csv(items, state, sha256) if csv else as_json(items, state, sha256, self.controller.threshold)

        async def write(path: str, *, replace: bool = False) -> None:
            await self.controller.engine.call(WriteText(path, text, replace))

        if await self.context.written(path, write):
            self.context.say(f"{path} written")
