"""The first minute: three steps from the samples to the user's own photos."""

from rich.text import Text
from textual.widgets import Static

from frn_tui.document.controller import Controller

STEPS = (
    ". shows the next answer",
    "a adds your own folders, one per class",
    "p classifies your own photo",
)


class Guide(Static):
    """Shown with the samples; ticks completed steps and disappears for good once all are done."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(id="guide")
        self.controller = controller
        self.followed = False
        """Whether all steps have been completed, now or earlier."""
        self._begun, self._done = False, 0
        self._samples: set[str] = set()
        """Photos that were queried before the user had a class."""

    def show(self) -> None:
        controller, query = self.controller, self.controller.query
        self._begun = self._begun or controller.shows_samples
        has_own = bool(controller.session.state.classes) and not controller.shows_samples
        if self._begun and not self.followed:
            if not has_own:
                self._samples.update(answer["path"] for answer in query.answers)
            asked = any(answer["path"] not in self._samples for answer in query.answers)
            reached = (query.at > 0, has_own, has_own and asked)
            while self._done < len(STEPS) and reached[self._done]:
                self._done += 1
            if has_own:  # users who are further along need no earlier step
                self._done = max(self._done, 2)
            self.followed = self._done == len(STEPS)
        self.display = self._begun and not self.followed
        lines = [f"{'✓' if number <= self._done else number} {step}" for number, step in enumerate(STEPS, 1)]
        self.update(Text("\n".join(lines)))
