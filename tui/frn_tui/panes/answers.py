"""The results: which one is shown, and the review of all."""

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Static

from frn_tui.document.review_state import example_names, nearest, rival
from frn_tui.panes.context import Context
from frn_tui.panes.review import Review
from frn_tui.panes.verdicts import Verdicts
from frn_tui.terminal.text import display_name


class AnswersLine(Static):
    """Last lines of the query pane: the rival class, the nearest example, and the position among the results."""

    KEYS: ClassVar[tuple[Binding, ...]] = (Binding("l,L", "review", "Review"),)

    def __init__(self, context: Context, verdicts: Verdicts) -> None:
        super().__init__(id="answers")
        self.context, self.controller, self.verdicts = context, context.controller, verdicts

    def show(self) -> None:
        query, names = self.controller.query, self.controller.names
        lines = Text(no_wrap=True, overflow="ellipsis")
        if (answer := query.answer) is not None and "scores" in answer:
            room = max((self.size.width or 44) - len("rival    nearest "), 8)
            other, example = rival(answer, names), nearest(answer, example_names(self.controller.session.state))
            parts = [f"rival {display_name(other, room - room // 2)}"] if other else []
            parts += [f"nearest {display_name(example, room // 2)}"] if example else []
            lines.append("   ".join(parts))
        if answer is not None and len(query.answers) > 1:
            self.controller.reviewed()
            arrangement = self.controller.arrangement
            paths, order = arrangement.paths, "" if arrangement.order == "as asked" else f" {arrangement.order}"
            place = f"{paths.index(answer['path']) + 1}/{len(paths)}" if answer["path"] in paths else f"-/{len(paths)}"
            lines.append(f"\n{place}{order}   ‹ ,  . ›   l: all   {query.rejected} unknown")
        self.update(lines)

    def go_to(self, path: str) -> None:
        self.context.start(self.controller.show, path, group="step")

    def action_review(self) -> None:
        if not self.controller.query.answers:
            self.context.say("p classifies a photo or a folder")
            return

        def chosen(path: str | None) -> None:
            self.view = review.gallery.view
            if path is not None:
                self.go_to(path)

        review = Review(self.verdicts, view=self.view)
        self.app.push_screen(review, chosen)

    view = "grid"
    """Last view of the review, grid or list."""
