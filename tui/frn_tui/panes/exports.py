"""Everything that one key exports: answers, sorted photos, the classifier in several forms, a bundle."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from frn_tui.client.file_requests import Exported, WriteText
from frn_tui.client.protocol import EngineError
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.photo_files import bundle, describe_move, sort
from frn_tui.document.queries import Problem
from frn_tui.document.review_state import Reviewed
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import absolute

ONNX = 'run: onnxruntime.InferenceSession({path}).run(None, {{"image": uint8 pixels (h, w, 3)}})'


class Form(NamedTuple):
    """A form of export."""

    words: str  # description; `{size}` is the model's size in MB
    place: str
    how: str = ""


ANSWERS = {
    "csv": Form("answers as CSV: for a spreadsheet", "results.csv"),
    "json": Form("answers as JSON lines: for a program", "results.jsonl"),
    "copy": Form("photos: copy into a folder per class, and one for unknown photos", "sorted"),
    "move": Form("photos: move into a folder per class; undo moves them back", "sorted"),
}
CLASSES: dict[str, Form] = {
    "classifier": Form("ONNX: from photo to label, probabilities, error map; {size:.1f} MB", "classifier.onnx", ONNX),
    "page": Form(
        "web page: classifies in any browser, offline; {size:.1f} MB and the runtime",
        "page",
        "run: python -m http.server --directory {path}",
    ),
}
BUNDLE = Form("bundle: the project and its photos in one zip or folder", "", "open: frn-tui {path}")


class Exports:
    """Action of the export key."""

    def __init__(self, context: Context, answers: Callable[[], Sequence[Reviewed]], file_name: Callable[[], str]):
        """`answers` returns the listed answers, and `file_name` the proposed name of a bundle."""
        self.context, self.controller = context, context.controller
        self._answers, self._file_name = answers, file_name

    def action_export(self) -> None:
        items = self._answers()
        size = self.controller.model["bytes"] / 1e6 if self.controller.model else 0.0
        forms = {**ANSWERS, **CLASSES} if items else dict(CLASSES)
        forms["bundle"] = BUNDLE._replace(place=f"{self._file_name()}.zip")
        options = [form.words.format(size=size) for form in forms.values()]

        def chosen(index: int) -> None:
            what, form = list(forms.items())[index]
            dialog = AskText(f"Export {options[index].partition(':')[0]} to", form.place)

            def named(path: str) -> None:
                if self.context.is_named(path):
                    self.context.start(self._write, absolute(path), what, form)

            self.context.ask(dialog, named)

        self.context.ask(Choose("Export", options), chosen)

    async def _write(self, path: str, what: str, form: Form) -> None:
        if what in ANSWERS:
            await self.controller.settle()  # so that the answers are those of the current classes
        if what in ("copy", "move"):
            await self._sort(path, move=what == "move")
            return
        if what == "bundle":
            write = partial(bundle, self.controller)
        elif what in CLASSES:
            write = partial(self.controller.export, what=cast(Exported, what))
        else:
            write = partial(self._write_answers, suffix=f".{what}")
        try:
            is_written = await self.context.written(path, write)
        except EngineError as error:
            self.controller.problems.append(Problem(path, str(error)))
            self.controller.listener()
            raise
        if is_written:
            needs = any(problem.path == path for problem in self.controller.problems)
            how = "b: what it still needs" if needs else form.how.format(path=shlex.quote(path))
            self.context.say(f"{path} written   {how}".rstrip())

    async def _write_answers(self, path: str, suffix: str, *, replace: bool = False) -> None:
        from frn_tui.document.answer_files import export_text  # imported here for an earlier first paint

        text = export_text(suffix, self._answers(), self.controller.session.state)
        await self.controller.engine.call(WriteText(path, text, replace))

    async def _sort(self, folder: str, *, move: bool) -> None:
        photos = [(item.path, item.said) for item in self._answers() if item.is_readable]
        if not photos:
            self.context.say("no photos to sort")
            return
        place = partial(self._place, folder, photos, move=move)
        if not (move and (question := await describe_move(self.controller, absolute(folder), photos))):
            await place()
            return
        self.context.ask(Choose(question, ["move", "cancel"]), lambda option: option == 0 and self.context.start(place))

    async def _place(self, folder: str, photos: Sequence[tuple[str, str]], *, move: bool) -> None:
        before = self.controller.session.state.moves
        said = await sort(self.controller, absolute(folder), photos, move=move)
        undo = "u: undo" if self.controller.session.state.moves is not before else ""
        self.context.say(f"{said} into {folder}   {undo if move else 'undo does not delete the copies'}".rstrip())
