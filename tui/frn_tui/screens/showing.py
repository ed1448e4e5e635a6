"""The controller on the screen: title, classes, photos, the query and its picture."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual import on, work
from textual.widgets import Static

from frn.inference.session import ClassEntry
from frn_tui.client import EngineError
from frn_tui.controller import Controller
from frn_tui.protocol import Answer, ClassReport
from frn_tui.rgb import Rgb
from frn_tui.screens.desk import Desk
from frn_tui.text import count_of, display_name, percent
from frn_tui.widgets.bars import BarRow
from frn_tui.widgets.classes import ClassRow
from frn_tui.widgets.gallery import Gallery, GalleryItem
from frn_tui.widgets.preview import Preview


class Showing(Desk):
    """Shows the controller; nothing here changes it."""

    _drawn: object = None
    """What the picture on show was asked for with."""
    _thumbs: dict[str, tuple[int, int]]

    def refresh_all(self) -> None:
        """Show the controller as it is now."""
        if not self.is_attached:
            return
        state = self.controller.session.state
        ids = [entry.id for entry in state.classes]
        if self.chosen not in ids:
            self.chosen = ids[0] if ids else None
        if self.heat_class not in ids:
            self.heat_class = None
        self.show_title()
        self._show_classes(state.classes)
        self._show_images()
        self._show_query()

    def show_title(self) -> None:
        """Show, as far as it fits, what is open, the model, and how much there is."""
        controller, state = self.controller, self.controller.session.state
        count = sum(len(entry.supports) for entry in state.classes)
        name = display_name(controller.project.rpartition("/")[2], 30) if controller.project else "unsaved"
        mark = "" if controller.session.is_saved else "● "
        model = "starting the engine…"
        if controller.model is not None:
            h, w = controller.model["grid"]
            side = controller.model["side"]
            name_and_device = f"{display_name(controller.model_name, 24)} · {controller.model['device']}"
            model = f"{name_and_device} · {side}×{side} · {h}×{w}×{controller.model['d']}"
        trouble = f" · {count_of(len(controller.problems), 'problem')} (b)" if controller.problems else ""
        classes = "1 class" if len(state.classes) == 1 else f"{len(state.classes)} classes"
        right = f"{classes} · {count_of(count, 'photo')}{trouble}"
        width = max(self.size.width - 2, 10)
        left = f"frn-tui  {mark}{name}"
        room = width - len(left) - len(right)
        middle = f"{model:^{room}}" if room > len(model) + 2 else " " * max(room, 1)
        line = Text(left, style="bold")
        line.append(middle, style="not bold dim")
        line.append(right, style="not bold")
        line.truncate(width)
        self.query_one("#title", Static).update(line)

    def _show_classes(self, classes: Sequence[ClassEntry]) -> None:
        rows = []
        for entry in classes:
            report = self.controller.reports.get(entry.id)
            rows.append(ClassRow(entry.id, entry.name, len(entry.supports), _quality(report), _trouble(entry, report)))
        self.class_list.show(rows)
        self.query_one("#classes-pane").border_title = Text(f"Classes {len(classes)}")
        teach = self.query_one("#teach", Static)
        teach.display = not classes
        if not classes:
            teach.update(
                Text(
                    "Press a and pick a folder of class folders, or n for a class of your own.\n\n"
                    "Five photos are enough."
                )
            )

    def _show_images(self) -> None:
        gallery = self.gallery
        pane = self.query_one("#images-pane")
        entry = self.entry
        if entry is None:
            gallery.set_items([])
            pane.border_title = Text("Photos")
            return
        report = self.controller.reports.get(entry.id)
        items = [_item(str(s.path), s.key, report, self.controller) for s in entry.supports]
        if self.wanted_name:
            items = [item for item in items if self.wanted_name.casefold() in item.name.casefold()]
        if self.by_fit and report is not None:
            items.sort(key=lambda item: report["explained"].get(item.key or "", 2.0))
        gallery.set_items(items)
        order = " · worst fit first" if self.by_fit else ""
        narrowed = f" · only “{display_name(self.wanted_name, 16)}”" if self.wanted_name else ""
        pane.border_title = Text(f"Photos · {display_name(entry.name, 30)} {len(items)}{narrowed}{order}")
        self._selection()

    def _selection(self) -> None:
        count = len(self.gallery.selection)
        keys = "1-9 m move   d remove" if count else "space select   enter ask   f worst fit"
        self.query_one("#images-pane").border_subtitle = Text(f"{count} selected   {keys}" if count else keys)

    def _show_query(self) -> None:
        controller, answer = self.controller, self.controller.answer
        caption, history = self.query_one("#caption", Static), self.query_one("#history", Static)
        bars = self.bars
        pane = self.query_one("#query-pane")
        self._hint_at_query()
        if answer is None:
            pane.border_title = Text("Query")
            caption.update("")
            history.update("")
            bars.show([], controller.threshold, False)
            self._draw()
            return
        pane.border_title = Text(f"Query · {display_name(answer['path'].rpartition('/')[2], 30)}")
        names = self.names
        numbers = {entry.id: i for i, entry in enumerate(controller.session.state.classes, 1) if i < 10}
        if "scores" not in answer:
            caption.update(Text(display_name(answer.get("reason", "")), style="bold"))
            bars.show([], controller.threshold, False)
        else:
            scores = [score for score in answer["scores"] if score["id"] in names]
            rows = [
                BarRow(names[s["id"]], s["probability"], s["explained"], s["error"], numbers.get(s["id"]))
                for s in scores
            ]
            bars.show(rows, controller.threshold, bool(answer.get("unknown")))
            shown = self._heat_id(answer)
            caption.update(
                Text(f"error for ‹ {display_name(names[shown], 20)} ›   [ ] other")
                if self.heat and shown is not None
                else Text("as the network sees it   h: errors")
            )
        if len(controller.answers) > 1:
            history.update(
                Text(
                    f"{controller.at + 1}/{len(controller.answers)}   "
                    f"‹ ,  . ›   l: table   {controller.rejected} unknown"
                )
            )
        else:
            history.update("")
        self._draw()

    def _hint_at_query(self) -> None:
        """Digits mean classes of the photo that was asked about only where that has the focus."""
        keys = "y right   1-9 it is N   x none" if self.focused_pane == "query" else "y right   x none   tab: it is N"
        self.query_one("#query-pane").border_subtitle = Text(keys if self.controller.answer else "")

    def _heat_id(self, answer: Answer) -> int | None:
        maps = {key for key in answer.get("maps", {}) if int(key) in self.names}  # a class may be gone meanwhile
        if self.heat_class is not None and str(self.heat_class) in maps:
            return self.heat_class
        return next((score["id"] for score in answer.get("scores", []) if str(score["id"]) in maps), None)

    def _draw(self) -> None:
        """Ask for the query's picture, unless it is the one on show."""
        preview, answer = self.preview, self.controller.answer
        width, height = preview.pixel_size
        shown = self._heat_id(answer) if answer is not None else None
        heat = None
        if answer is not None and self.heat and shown is not None:
            maps = answer["maps"]
            values = [value for grid in maps.values() for row in grid for value in row]
            heat = {"map": maps[str(shown)], "low": min(values), "high": max(values), "smooth": self.smooth}
            preview.show_numbers(maps[str(shown)] if self.numbers or preview.mode == "ascii" else None)
        else:
            preview.show_numbers(None)
        wanted = (
            answer["path"] if answer else None,
            width,
            height,
            repr(heat),
            answer.get("reason") if answer else None,
        )
        if wanted == self._drawn:
            return
        self._drawn = wanted
        if answer is None or "reason" in answer or not width or not height:
            preview.show(None)
            return
        self._fetch(answer["path"], width, height, heat)

    @work(group="draw", exclusive=True, exit_on_error=False)
    async def _fetch(self, path: str, width: int, height: int, heat: dict[str, Any] | None) -> None:
        try:
            found = await self.controller.engine.call("preview", path=path, width=width, height=height, heat=heat)
        except EngineError:
            self.preview.show(None)
            return
        self.preview.show(Rgb.from_base64(found["width"], found["height"], found["rgb"]))

    @on(Preview.Wanted)
    def redraw(self) -> None:
        self._draw()

    @on(Gallery.Want)
    def want_thumbs(self, event: Gallery.Want) -> None:
        """Newest first: who scrolls fast wants what is on the screen now."""
        wanted = dict.fromkeys(event.paths, (event.width, event.height))
        self._thumbs = {**wanted, **{p: s for p, s in self._thumbs.items() if p not in wanted}}
        if not any(worker.group == "thumbs" and worker.is_running for worker in self.workers):
            self._fetch_thumbs()

    @work(group="thumbs", exit_on_error=False)
    async def _fetch_thumbs(self) -> None:
        gallery = self.gallery
        while self._thumbs:
            path = next(iter(self._thumbs))
            width, height = self._thumbs.pop(path)
            try:
                found = await self.controller.engine.call("preview", path=path, width=width, height=height, heat=None)
            except EngineError:
                continue
            gallery.provide(path, Rgb.from_base64(found["width"], found["height"], found["rgb"]))


def _quality(report: ClassReport | None) -> float | None:
    """Share of left-out examples that would get their own class."""
    if report is None or not report["rank"]:
        return None
    return sum(rank == 0 for rank in report["rank"].values()) / len(report["rank"])


def _trouble(entry: ClassEntry, report: ClassReport | None) -> str:
    if not entry.supports:
        return "empty"
    return "one photo" if len(entry.supports) == 1 else ""


def _item(path: str, key: str, report: ClassReport | None, controller: Controller) -> GalleryItem:
    name = path.rpartition("/")[2]
    if report is None:
        return GalleryItem(path, name, key, "", "")
    if key in report["near"]:
        return GalleryItem(path, name, key, "near", "looks the same as another photo")
    share, rank = report["explained"].get(key), report["rank"].get(key, 0)
    if share is None:
        return GalleryItem(path, name, key, "", "")
    if rank > 0 or share < controller.calibrated:
        odd = f", {rank} other classes explain it better" if rank else ""
        return GalleryItem(path, name, key, "outlier", f"{percent(share)} explained by the others{odd}")
    return GalleryItem(path, name, key, "", f"{percent(share)} explained by the others")
