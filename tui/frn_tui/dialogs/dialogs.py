"""Small dialogs: a line of text, a choice from a list, a page to read, a photo to look at."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.console import RenderableType
from rich.segment import Segment
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from frn.images.boxes import Box, box_name, split_box
from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.text import display_name
from frn_tui.widgets.preview import STEP, Mark, Preview


def matching(names: Sequence[str], wanted: str) -> list[int]:
    """Return the places of names with these letters in this order: best at the start, then together, then apart."""
    letters, ranked = wanted.casefold(), []
    for place, name in enumerate(map(str.casefold, names)):
        rest = iter(name)
        if all(letter in rest for letter in letters):
            at = name.find(letters)
            ranked.append((2 if at < 0 else min(at, 1), place))
    return [place for _, place in sorted(ranked)]


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

    @on(Input.Changed)
    def show_cursor(self) -> None:
        """Scroll to the cursor, since Textual does so before the field can scroll as far as a pasted text needs."""
        self.call_after_refresh(self._watch_selection, self.selection)

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if strip.text.isprintable():
            return strip
        safe = [Segment("".join(c if c.isprintable() else "·" for c in text), style) for text, style, _ in strip]
        return Strip(safe).adjust_cell_length(strip.cell_length)


class AskText(Dialog[str | None]):
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
    """Dialog to choose from a list; typing filters a long one."""

    BINDINGS = [
        Binding("escape", "leave", "Back"),
        Binding("enter", "take", "Choose", show=False),
        Binding("down", "move(1)", "Next", show=False, priority=True),
        Binding("up", "move(-1)", "Previous", show=False, priority=True),
    ]

    def __init__(
        self, title: str, options: Sequence[str], photos: Sequence[Sequence[str]] = (), mode: Mode = "half"
    ) -> None:
        """Show the `photos` of the highlighted option, given by their paths."""
        super().__init__()
        self.dialog_title, self.options, self.photos = title, options, photos
        self._typed = ""
        self.previews = [Preview(mode=mode) for _ in range(max(map(len, photos), default=0))]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = Text(self.dialog_title)
            box.styles.max_width = max(cell_len(text) for text in (*self.options, self.dialog_title, " " * 40)) + 8
            if len(self.options) >= 6:
                yield Line(placeholder="type to filter")
            yield OptionList()
            if self.previews:
                yield Horizontal(*self.previews, id="choose-photos")
            yield Static("enter: choose   esc: back", classes="hint")

    def begin(self) -> None:
        if self.query(OptionList):  # otherwise it was closed while composing
            for widget in (self.query_one(OptionList), *self.previews):
                widget.can_focus = False
            self._show("")

    @on(OptionList.OptionHighlighted)
    def show_photos(self) -> None:
        option = self.query_one(OptionList).highlighted_option
        shown = self.photos[int(option.id or 0)] if option is not None and self.photos else ()
        for place, preview in enumerate(self.previews):
            preview.show(shown[place] if place < len(shown) else "")

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        self._show(event.value)

    def on_key(self, event: events.Key) -> None:
        """Without a filter, go to the option with the letters typed so far."""
        if self.query(Input) or not event.is_printable or event.character is None:
            super().on_key(event)
        elif places := matching(self.options, self._typed + event.character):
            self._typed += event.character
            self.query_one(OptionList).highlighted = places[0]

    def _show(self, wanted: str) -> None:
        places = matching(self.options, wanted)
        listing = self.query_one(OptionList)
        listing.clear_options()
        # Maximum number of options that are laid out; typing finds the others
        listing.add_options([Option(Text(display_name(self.options[i])), id=str(i)) for i in places[:1_000]])
        if not places:
            listing.add_option(Option("no match", disabled=True))
        current = (row for row, place in enumerate(places) if self.options[place].startswith("●"))
        listing.highlighted = next(current, 0) if places else None

    def action_move(self, step: int) -> None:
        listing = self.query_one(OptionList)
        if listing.highlighted is not None:
            listing.highlighted = (listing.highlighted + step) % listing.option_count

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def action_take(self) -> None:
        if (option := self.query_one(OptionList).highlighted_option) is not None:
            self.dismiss(int(option.id or 0))


class Page(Dialog[None]):
    """Dialog with text to read: help, problems."""

    BINDINGS = [Binding("escape,q,enter,question_mark", "leave", "Back")]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self.dialog_title, self.content = title, content

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", id="page") as box:
            box.border_title = Text(self.dialog_title)
            box.border_subtitle = "esc back"
            yield Static(self.content)


class Closeup(ModalScreen[int]):
    """Dialog that shows and zooms photos, one at a time; it returns the index of the last one."""

    DEFAULT_CSS = """
    Closeup {
        #closeup { width: 1fr; height: 1fr; }
        #closeup-caption { height: 1; dock: bottom; color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("enter", "accept", "Use the box that is drawn; otherwise back"),
        Binding("z,plus", "zoom(1)", "Zoom in"),
        Binding("Z,minus", "zoom(-1)", "Zoom out"),
        Binding("B", "crop", "Crop"),
        Binding("y", "use", "Use the box"),
        Binding("left,h", "arrow(-1, 0)", "Previous photo"),
        Binding("right,l", "arrow(1, 0)", "Next photo"),
        Binding("up,k", "arrow(0, -1)", "Previous photo"),
        Binding("down,j", "arrow(0, 1)", "Next photo"),
        Binding("pageup,comma", "step(-1)", "Previous photo"),
        Binding("pagedown,full_stop", "step(1)", "Next photo"),
    ]

    def __init__(
        self,
        paths: Sequence[str],
        at: int,
        mode: Mode,
        crop: Callable[[str, str], object],
        found: Mapping[str, Sequence[int]],
        *,
        draws: bool = False,
    ) -> None:
        """Show photos.

        Args:
            paths: paths of the photos.
            at: index of the first one to show.
            mode: how to draw it.
            crop: takes the path of a photo, and the name of the part to use instead.
            found: boxes of the subjects that were found in them, by path.
            draws: begin with a box on the photo, which the arrows move.
        """
        super().__init__()
        self.paths, self.at, self.crop, self.found = paths, at, crop, found
        self.preview = Preview(mode=mode, id="closeup")
        self.preview.on_picture = self._begin_box
        self.draws = self._only_draws = draws  # whether the arrows move a box
        self.box: list[int] = []  # the box that they move: left, top, width and height in pixels

    def compose(self) -> ComposeResult:
        yield self.preview
        yield Static(id="closeup-caption")

    def on_mount(self) -> None:
        self.preview.focus()
        self.show()

    def show(self) -> None:
        path = self.paths[self.at]
        file, given_box = split_box(path)
        box = self.box if self.draws else self.found.get(path, ())
        self.preview.show(str(file) if self.draws else path)
        self.preview.mark([Mark(box, in_pixels=True)] if box else [])
        if self.draws:
            whole_key = "B: whole photo   " if given_box else ""
            text = f"arrows, mouse: move the box   + -: size   y: use it   {whole_key}esc: back"
            self.query_one("#closeup-caption", Static).update(Text(text, no_wrap=True))
            return
        place = f"{self.at + 1}/{len(self.paths)}  " if len(self.paths) > 1 else ""
        keys = "arrows: move   " if self.preview.zoom > 1 else "‹ › other photos   " if len(self.paths) > 1 else ""
        name = display_name(path.rpartition("/")[2], max(self.size.width - 60, 12))
        can = "y: use the box   B: mend it   " if box else "B: box   "
        can = "B: crop to this   " if self.preview.zoom > 1 else can
        caption = f"{place}{name}   {keys}z Z: zoom in, out   {can}esc: back"
        self.query_one("#closeup-caption", Static).update(Text(caption, no_wrap=True))

    def _begin_box(self, request: RenderPreview) -> None:
        """Begin with the box of the photo, the one that was found, or one in the middle, once its size is known."""
        path, picture = self.paths[self.at], self.preview.picture
        file, box = split_box(path)
        if self.draws and not self.box and picture is not None and request.path == str(file):
            width, height = picture.photo
            middle = width // 4, height // 4, width // 2, height // 2
            self.box = list(box or self.found.get(path) or middle)
            self.show()

    def _put(self, left: int, top: int, width: int, height: int) -> None:
        """Change the box as far as it stays in the photo."""
        if self.box and self.preview.picture is not None:
            across, down = self.preview.picture.photo
            width, height = min(max(width, across // 50, 1), across), min(max(height, down // 50, 1), down)
            self.box = [min(max(left, 0), across - width), min(max(top, 0), down - height), width, height]
            self.show()

    def action_zoom(self, step: int) -> None:
        """Zoom the photo, or make the box larger or smaller around its middle."""
        if self.draws and self.box:
            left, top, width, height = self.box
            x, y = (step * max(side // 20, 1) for side in (width, height))
            self._put(left - x, top - y, width + 2 * x, height + 2 * y)
        elif not self.draws:
            self.preview.look_at(self.preview.zoom * STEP**step, self.preview.centre)
            self.show()

    def action_crop(self) -> None:
        """Crop the photo to the part in view; with the whole photo in view, draw a box, then remove it."""
        if self.draws or self.preview.zoom > 1:
            self._crop_to(self.preview.part())
        else:
            self.draws = True
            self.show()
            if (request := self.preview.request) and split_box(self.paths[self.at])[1] is None:  # it is already shown
                self._begin_box(request)

    def action_use(self) -> None:
        path = self.paths[self.at]
        if box := self.box if self.draws else self.found.get(path):
            self._crop_to(box_name(str(split_box(path)[0]), Box(*box)))

    def action_accept(self) -> None:
        (self.action_use if self.draws else self.action_leave)()

    @on(Preview.Drawn)
    def crop_to_box(self, event: Preview.Drawn) -> None:
        self._crop_to(event.part)

    def _crop_to(self, part: str) -> None:
        if part != (path := self.paths[self.at]):
            self.crop(path, part)
        self.dismiss(self.at)

    def action_arrow(self, x: int, y: int) -> None:
        """Move the box, or show another photo; when zoomed in, the arrows move the photo instead."""
        if not self.draws:
            self.action_step(x or y)
        elif self.box and self.preview.picture is not None:
            left, top, width, height = self.box
            far = max(max(self.preview.picture.photo) // 50, 1)
            self._put(left + x * far, top + y * far, width, height)

    def action_step(self, step: int) -> None:
        self.at, self.box = min(max(self.at + step, 0), len(self.paths) - 1), []
        self.preview.look_at(1.0)
        self.show()

    def action_leave(self) -> None:
        if self.draws and not self._only_draws:
            self.draws, self.box = False, []
            self.show()
        else:
            self.dismiss(self.at)
