"""Small dialogs: a line of text, a choice from a list, a page to read."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.segment import Segment
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.fuzzy import Matcher
from textual.screen import ModalScreen, ScreenResultType
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from frn_tui.terminal.text import display_name

MAX_SHOWN = 1_000
"""Maximum number of options that are laid out; typing finds the others."""


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen that returns a value once."""

    begun = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog, unless another screen is now on top: late answers must not close that one."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()

    def on_mount(self) -> None:
        if self.children:  # otherwise it was closed before composing
            self.begun = True
            self.begin()

    def on_key(self, event: events.Key) -> None:
        """Put keys typed before the field had the focus into it."""
        if isinstance(self.focused, Input) and event.is_printable and event.character is not None:
            event.stop()
            self.focused.insert_text_at_cursor(event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Before the widgets exist and after they are removed, allow only closing; keys may arrive then."""
        return action == "leave" or (self.begun and self.is_attached)

    def action_leave(self) -> None:
        self.dismiss(None)

    def begin(self) -> None:
        """Fill the mounted widgets."""


class Line(Input):
    """A text field for untrusted text: characters that could control the terminal are shown as dots."""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if strip.text.isprintable():
            return strip
        safe = [Segment("".join(c if c.isprintable() else "·" for c in text), style) for text, style, _ in strip]
        return Strip(safe).adjust_cell_length(strip.cell_length)


class AskText(Dialog[str | None]):
    """Dialog for a line of text."""

    BINDINGS = [Binding("escape", "leave", "Back")]

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self.dialog_title, self.value, self.hint = title, value, hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = Text(self.dialog_title)
            yield Line(self.value)
            yield Static(Text(self.hint or "enter: done   esc: back"), classes="hint")

    @on(Input.Submitted)
    def done(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Choose(Dialog[int | None]):
    """Dialog to choose from a list; typing filters it."""

    BINDINGS = [
        Binding("escape", "leave", "Back"),
        Binding("down", "move(1)", "Next", show=False, priority=True),
        Binding("up", "move(-1)", "Previous", show=False, priority=True),
    ]

    def __init__(self, title: str, options: Sequence[str]) -> None:
        super().__init__()
        self.dialog_title, self.options = title, options

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = Text(self.dialog_title)
            box.styles.max_width = max(cell_len(text) for text in (*self.options, self.dialog_title, " " * 40)) + 8
            yield Line(placeholder="type to filter")
            yield OptionList()
            yield Static("enter: choose   esc: back", classes="hint")

    def begin(self) -> None:
        if self.query(OptionList):  # otherwise it was closed while composing
            self.query_one(OptionList).can_focus = False
            self._show("")

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        self._show(event.value)

    def _show(self, wanted: str) -> None:
        found = [(0.0, i) for i in range(len(self.options))]
        if wanted:
            match = Matcher(wanted).match
            found = sorted((-score, i) for i, option in enumerate(self.options) if (score := match(option)) > 0)
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options([Option(Text(display_name(self.options[i])), id=str(i)) for _, i in found[:MAX_SHOWN]])
        if not found:
            listing.add_option(Option("no match", disabled=True))
        listing.highlighted = 0 if found else None

    def action_move(self, step: int) -> None:
        listing = self.query_one(OptionList)
        if listing.highlighted is not None:
            listing.highlighted = (listing.highlighted + step) % listing.option_count

    @on(Input.Submitted)
    def take(self) -> None:
        listing = self.query_one(OptionList)
        if listing.highlighted is not None:
            self.dismiss(int(listing.get_option_at_index(listing.highlighted).id or 0))

    @on(OptionList.OptionSelected)
    def click(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(int(event.option.id or 0))


class PressKey(Dialog[str | None]):
    """Dialog that returns the next key; an empty one for backspace."""

    def __init__(self, meaning: str) -> None:
        super().__init__()
        self.meaning = meaning

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = "Press another key"
            yield Static(Text(f"{self.meaning}\n"))
            yield Static("backspace: default key   esc: cancel", classes="hint")

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss({"escape": None, "backspace": ""}.get(event.key, event.key))


class Page(Dialog[None]):
    """Dialog with text to read: help, problems, a confusion table."""

    BINDINGS = [Binding("escape,q,enter,question_mark", "leave", "Back")]

    def __init__(self, title: str, content: RenderableType, *, classes: str = "") -> None:
        """Show some content; with the class "-wide-page" it scrolls with the arrow keys instead of wrapping."""
        super().__init__(classes=classes)
        self.dialog_title, self.content = title, content

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", id="page") as box:
            box.border_title = Text(self.dialog_title)
            box.border_subtitle = "esc back"
            yield Static(self.content)
