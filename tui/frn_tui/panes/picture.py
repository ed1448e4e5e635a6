"""A classified photo, and the parts of it that a class does not explain."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Static

from frn_tui.client.protocol import Heat, Look, QueryAnswer
from frn_tui.document.queries import subject_in
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import close_up
from frn_tui.terminal.text import display_name
from frn_tui.widgets.preview import Mark, Preview

LOOKS: tuple[Look, ...] = get_args(Look)
SHAPES, CLOSE_SHAPES = (1.9, 3.7), (1.4, 5.1)
"""Columns per row up to which the map is below the photo, and from which it is beside; the second if zoomed.

A photo of 4:3 then keeps 0.7 or 0.95 of its height.
"""


class PicturePane(Vertical):
    """Part of the query pane that only shows the photo and does not change classes."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="picture", classes="-no-map")
        self.controller = context.controller
        self.preview = Preview(mode=context.mode, empty_text="p classifies a photo", id="preview")
        self.map = Preview(mode=context.mode, id="map")
        self.map.can_focus = False
        self.look: Look = "photo"
        self.smooth = True
        self.heat_class: int | None = None  # id of the class whose error map is shown; None for the most likely one
        self.preview.follower = self.map
        self._path = ""

    def compose(self) -> ComposeResult:
        with Container(id="pictures"):
            yield self.preview
            yield self.map
        yield Static(id="caption")

    def show(self) -> None:
        answer = self.controller.query.answer
        self.set_class(answer is None or not answer.get("maps"), "-no-map")
        self.query_one("#caption", Static).update(self._caption(answer))
        self._draw(answer)

    def on_resize(self, event: events.Resize) -> None:
        """Place the map beside or below the photo if the photo then stays nearly as large as alone."""
        columns, rows = event.size.width, max(event.size.height - 2, 1)
        below, beside = CLOSE_SHAPES if self.screen.has_class("-zoomed") else SHAPES
        self.set_class(columns >= beside * rows, "-beside")
        self.set_class(columns <= below * rows, "-below")
        self.show()

    @property
    def has_map(self) -> bool:
        return (self.has_class("-beside") or self.has_class("-below")) and not self.has_class("-no-map")

    def _caption(self, answer: QueryAnswer | None) -> Text:
        """Return the meaning of the view and its colours."""
        if answer is None:
            return Text("")
        if "scores" not in answer:
            return Text(display_name(answer.get("reason", "")), style="bold")
        shown = self._shown_class(answer)
        if shown is None:
            model = self.controller.model
            why = "" if model is None or model["has_maps"] else f"\nno error map: {model['head']} is not an FRN head"
            return Text(f"the whole photo{why}")
        name = display_name(self.controller.names[shown], max(self.size.width - 32, 6))
        if "subjects" in answer:
            photos = [each for each in self.controller.query.answers if "subjects" in each]
            total = f"all {len(photos):,} photos: {self._counts(photos)}" if len(photos) > 1 else ""
            return Text(f"subjects: {self._counts([answer])}\n{total or '[ ] other class   H: error map'}")
        if self.look == "photo" and not self.has_map:
            framed = "the subject that was found" if subject_in(answer) else "the part that the network sees"
            return Text(f"frame: {framed}\nH: where it is unlike any {name}")
        where = "coloured" if self.look == "blend" and not self.has_map else "light"
        following = LOOKS[(LOOKS.index(self.look) + 1) % len(LOOKS)]
        return Text(f"{where}: unlike any {name}\n[ ] other class   H: {following}")

    def _counts(self, answers: Sequence[QueryAnswer]) -> str:
        counts = Counter(name for answer in answers for _, name in self._subjects(answer)).most_common()
        return ", ".join(f"{count:,} {display_name(name, 20)}" for name, count in counts) or "none is known"

    def _subjects(self, answer: QueryAnswer | None) -> list[tuple[list[int], str]]:
        """Return the box and the class of each subject, if all were searched for; deleted classes are skipped."""
        names, found = self.controller.names, answer.get("subjects", []) if answer else []
        return [(subject["box"], names[subject["id"]]) for subject in found if subject["id"] in names]

    def _mapped(self, answer: QueryAnswer) -> list[int]:
        """Return ids of classes with a map, most likely first; deleted classes are skipped."""
        maps, names = answer.get("maps", {}), self.controller.names
        return [s["id"] for s in answer.get("scores", []) if str(s["id"]) in maps and s["id"] in names]

    def _shown_class(self, answer: QueryAnswer) -> int | None:
        ids = self._mapped(answer)
        return self.heat_class if self.heat_class in ids else next(iter(ids), None)

    def _draw(self, answer: QueryAnswer | None) -> None:
        path = answer["path"] if answer is not None and "reason" not in answer else ""
        subject = subject_in(answer)
        if path != self._path:
            self._path = path
            self.preview.look_at(1.0)
        heat = heat_of(answer, self._shown_class(answer), smooth=self.smooth) if answer is not None else None
        subjects = self._subjects(answer)
        if not self.screen.has_class("-zoomed") and not subjects:
            path, subject = close_up(path, subject)
        self.preview.mark([Mark(box, name, in_pixels=True) for box, name in subjects])
        shown: tuple[tuple[Preview, Look], ...] = ((self.preview, self.look), (self.map, "map"))
        for preview, look in shown:
            is_map = look != "photo" and heat is not None
            preview.show(
                path if preview is self.preview or (self.has_map and heat) else "",
                look if is_map else "photo",
                heat if is_map else None,
                framed=not subjects and (heat is not None or bool(subject)),
                subject=subject,
                views=bool(answer and answer.get("views")),
            )

    def show_class(self, class_id: int) -> None:
        answer = self.controller.query.answer
        if answer is not None and class_id in self._mapped(answer):
            self.heat_class = class_id
            if self.look == "photo" and not self.has_map:
                self.look = "blend"
            self.show()

    def action_look(self) -> None:
        self.look = LOOKS[(LOOKS.index(self.look) + 1) % len(LOOKS)]
        self.show()

    def action_texture(self) -> None:
        self.smooth = not self.smooth
        self.show()

    def action_heat_class(self, step: int) -> None:
        answer = self.controller.query.answer
        if answer is not None and (shown := self._shown_class(answer)) is not None:
            ids = self._mapped(answer)
            self.show_class(ids[(ids.index(shown) + step) % len(ids)])


class LargeView(Horizontal):
    """Shows an answer; the screen that contains it defines its keys."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="large")
        self.controller = context.controller
        self.photo, self.map, self.near = (
            Preview(mode=context.mode, empty_text=text, id=name)
            for name, text in (("large-photo", ""), ("large-map", "…"), ("large-near", "no other example"))
        )

    def compose(self) -> ComposeResult:
        yield self.photo
        with Vertical(id="large-beside"):
            yield Static(id="large-map-title", markup=False)
            yield self.map
            yield Static(id="large-near-title", markup=False)
            yield self.near
        for preview in (self.photo, self.map, self.near):
            preview.can_focus = False

    def show(self, answer: QueryAnswer | None, nearest: str, found: Sequence[int] = ()) -> None:
        """Show an answer and its most similar example, given by path and the box that was found in it."""
        scores = answer.get("scores") if answer else None
        best = self.controller.names.get(scores[0]["id"], "?") if scores else ""
        heat = heat_of(answer, scores[0]["id"], smooth=True) if answer and scores else None
        subject = subject_in(answer)
        self.photo.show(answer["path"] if answer and scores else "", framed=bool(subject), subject=subject)
        path, inside = close_up(answer["path"] if answer and heat else "", subject)
        look: Look = "map" if self.app.no_color else "blend"  # greys would hide the blend
        self.map.show(path, look, heat, subject=inside, views=bool(answer and answer.get("views")))
        self.near.show(close_up(nearest, found)[0] if scores else "")
        near_title = f"nearest: {'/'.join(nearest.split('/')[-2:])}"
        map_title = f"{'light' if look == 'map' else 'coloured'}: unlike any {best}" * bool(heat)
        for name, title in (("map", map_title), ("near", near_title)):
            text = Text(display_name(title, 60), no_wrap=True, overflow="ellipsis")
            self.query_one(f"#large-{name}-title", Static).update(text)


def heat_of(answer: QueryAnswer, class_id: int | None, *, smooth: bool) -> Heat | None:
    """Return the error map of a class, on a common scale for all maps of the photo."""
    maps = answer.get("maps", {})
    if str(class_id) not in maps:
        return None
    values = [value for grid in maps.values() for row in grid for value in row]
    return {"map": maps[str(class_id)], "low": min(values), "high": max(values), "smooth": smooth}
