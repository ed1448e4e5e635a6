"""How things are shown: error maps, sorting, panes, help."""

from rich.text import Text
from textual import events
from textual.widget import Widget

from frn.errors import FrnError
from frn_tui.screens.desk import PANES
from frn_tui.screens.dialogs import AskText, Choose, Page
from frn_tui.screens.help import help_page
from frn_tui.screens.showing import Showing
from frn_tui.text import count_of, display_name
from frn_tui.viewer import show
from frn_tui.widgets.cells import Mode

MODES: tuple[Mode, ...] = ("half", "quad", "ascii", "none")


class LookActions(Showing):
    """Nothing here changes the classes."""

    def action_heat(self) -> None:
        self.heat = not self.heat
        self._show_query()

    def action_smooth(self) -> None:
        self.smooth = not self.smooth
        self._show_query()

    def action_numbers(self) -> None:
        self.numbers = not self.numbers
        self._show_query()

    def action_heat_class(self, step: int) -> None:
        answer = self.controller.answer
        if answer is None or not answer.get("maps"):
            return
        ids = [s["id"] for s in answer["scores"] if str(s["id"]) in answer["maps"] and s["id"] in self.names]
        if not ids:
            return
        at = ids.index(self._heat_id(answer)) if self._heat_id(answer) in ids else 0  # type: ignore[arg-type]
        self.heat, self.heat_class = True, ids[(at + step) % len(ids)]
        self._show_query()

    def action_fit(self) -> None:
        self.by_fit = not self.by_fit
        self._show_images()

    def action_view(self) -> None:
        gallery = self.gallery
        gallery.view = "list" if gallery.view == "grid" else "grid"

    def action_images_mode(self) -> None:
        self.set_mode(MODES[(MODES.index(self.mode) + 1) % len(MODES)])
        self.mode_was_chosen = True

    def set_mode(self, mode: Mode) -> None:
        """Draw pictures in another way."""
        self.mode = self.preview.mode = self.gallery.mode = mode
        self.say(f"pictures: {mode}")
        self._show_query()

    def action_filter(self) -> None:
        if self.class_list.has_focus:
            classes = self.controller.session.state.classes

            def found(index: int | None) -> None:
                if index is not None:
                    self.class_list.choose(classes[index].id)

            self.app.push_screen(Choose("Find a class", [entry.name for entry in classes]), found)
            return

        def named(text: str | None) -> None:
            if text is not None:
                self.wanted_name = text.strip()
                self._show_images()

        self.app.push_screen(AskText("Photos whose name has", self.wanted_name), named)

    def action_zoom(self) -> None:
        self.toggle_class("-zoomed")
        self.preview.focus()

    def action_pane(self, step: int) -> None:
        widgets: dict[str, Widget] = {"classes": self.class_list, "images": self.gallery, "query": self.preview}
        self.focused_pane = PANES[(PANES.index(self.focused_pane) + step) % len(PANES)]
        self.show_pane(self.focused_pane)
        widgets[self.pane].focus()  # takes effect later than the next key may come

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """However a pane got the focus, the next one is counted from there."""
        for name in PANES:
            if self.query_one(f"#{name}-pane") in event.widget.ancestors:
                self.focused_pane = name
                self._hint_at_query()

    def action_problems(self) -> None:
        if not self.controller.problems:
            self.say("no problems: every file could be used")
            return
        lines = Text()
        for problem in self.controller.problems[-500:]:
            reason = problem.reason.removeprefix(f"{problem.path}: ")
            lines.append(display_name(problem.path), style="bold")
            lines.append(f"\n  {display_name(reason)}\n")
        self.app.push_screen(Page(count_of(len(self.controller.problems), "problem"), lines))

    def action_help(self) -> None:
        self.app.push_screen(Page("Keys", help_page(self.own_keys)))

    def action_viewer(self) -> None:
        """Show the photo in focus outside the terminal: the one asked about, or the one under the cursor."""
        answer, item = self.controller.answer, self.gallery.cursor_item
        asked = answer["path"] if answer is not None else None
        path = (item.path if item is not None else asked) if self.focused_pane == "images" else asked
        if path is None:
            self.say("no photo to show: tab to one of a class, or p asks about one")
            return
        try:
            show(path)
        except FrnError as error:
            self.say(str(error), severity="warning")
        else:
            self.say(f"opening {path.rpartition('/')[2]}")

    def action_copy(self) -> None:
        answer = self.controller.answer
        if answer is None:
            return
        names = self.names
        best = answer["scores"][0] if answer.get("scores") else None
        said = names.get(best["id"], "?") if best and not answer.get("unknown") else "unknown"
        copied = f"{answer['path']}\t{said}" + (f"\t{best['probability']:.4f}" if best else "")
        self.app.copy_to_clipboard(copied.encode(errors="backslashreplace").decode())  # a name may be no UTF-8
        self.say("copied: path, verdict and probability")
