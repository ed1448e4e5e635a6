"""Actions on answers, shared by the query pane and the review: label, remove, copy, sort, filter, set the threshold."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from frn.projects.session import ClassEntry, Session
from frn_tui.client.protocol import QueryAnswer
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.queries import best_score, classified
from frn_tui.document.review_state import KINDS, ORDERS, OTHER
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import name_of
from frn_tui.terminal.text import count_of, display_name, percent, share_of

CALIBRATED = "calibrated threshold"


class Threshold:
    """Actions of the keys that set the threshold for unknown photos."""

    def __init__(self, context: Context) -> None:
        self.context, self.controller = context, context.controller
        self._rejected: int | None = None  # unknown answers before the threshold was moved

    @property
    def value(self) -> float:
        """Return the last threshold set, because the engine reports it later than the next key."""
        chosen = self.controller.session.state.threshold
        return self.controller.threshold if chosen is None else chosen

    def set(self, value: float | None, said: str = "") -> None:
        """Set it, and report how many answers were unknown before and are now; several keys in a row count as one."""
        said = said or f"unknown below {percent(self.value if value is None else value, 1)} known"
        if self._rejected is None and self.controller.query.answers:
            self._rejected = self.controller.query.rejected
        self.context.edit(lambda session: session.set_threshold(value), said)
        self.controller.listener()
        if self.controller.query.answers:
            self.context.start(self._count_unknown, said, group="threshold")

    async def _count_unknown(self, said: str) -> None:
        await self.controller.sync()
        before, self._rejected = self._rejected, None
        self.context.say(f"{said}: unknown {before} → {self.controller.query.rejected}   u: undo")

    def action_threshold(self, step: float) -> None:
        value = min(max(round(self.value + step, 3), 0.0), 1.0)
        self.set(value, f"unknown below {percent(value)} known")

    def action_calibrate(self) -> None:
        self.set(None, f"{CALIBRATED}: {self.controller.expected}")

    def action_type_threshold(self) -> None:
        def typed(text: str) -> None:
            value = share_of(text)
            if text.strip() and value is None:
                self.context.say("a threshold is a number from 0 to 100", severity="warning")
            else:
                self.set(value, CALIBRATED if value is None else "")

        hint = "photos less known are unknown, 0 to 100%; empty: calibrate   enter: done   esc: back"
        self.context.ask(AskText("Threshold", f"{100 * self.value:.1f}", hint), typed)


class Judging:
    """Actions of the keys that label answers; base class of the query pane and the review."""

    context: Context

    def judged(self) -> Sequence[QueryAnswer]:
        raise NotImplementedError

    def advance(self) -> None:
        raise NotImplementedError

    def judge(self, by_class: Mapping[int, Sequence[QueryAnswer]], which: str = "") -> None:
        """Make photos examples of classes, given by their ids, in one edit, and move on."""
        controller, (first, *others) = self.context.controller, by_class
        name = f"{len(by_class)} classes" if others else display_name(controller.names[first], 30)

        def label(session: Session) -> None:
            with session.one_edit():
                added = sum(controller.label(some, class_id).added for class_id, some in by_class.items())
            paths = [answer["path"] for some in by_class.values() for answer in some]
            if not added:
                self.context.say(f"{called(paths)}: already in {name}")
                return
            photos = called(paths) if len(paths) == 1 else count_of(added, "photo")
            session.name_act(f"{photos} added to {name}")
            self.context.say(f"{photos} added to {name}{which}   u: undo")

        self.context.edit(label)
        self.advance()

    def action_number(self, number: int) -> None:
        if (entry := class_of_number(self.context, number)) is not None and (answers := self.judged()):
            self.judge({entry.id: answers})

    def action_move(self) -> None:
        if answers := self.judged():
            title = f"Assign {called([answer['path'] for answer in answers])} to class"
            choose_class(self.context, title, lambda entry: self.judge({entry.id: answers}))

    def action_right(self) -> None:
        by_class: dict[int, list[QueryAnswer]] = {}
        for answer in self.judged():
            if (best := best_score(answer)) is not None and best["id"] in self.context.controller.names:
                by_class.setdefault(best["id"], []).append(answer)
        if by_class:
            self.judge(by_class)

    def action_right_all(self) -> None:
        """Confirm all listed answers that are at least as probable as the one that the next key applies to.

        Photos that arrived by themselves and were not shown yet are not confirmed.
        """
        least = max((best["probability"] for answer in self.judged()[:1] if (best := best_score(answer))), default=None)
        controller, by_class = self.context.controller, dict[int, list[QueryAnswer]]()
        items, arrived = {item.path: item for item in controller.reviewed()}, set(controller.query.arrived)
        for item in (items[path] for path in controller.arrangement.paths):
            best = best_score(item.answer)
            is_open = item.label is None and not item.is_unknown and item.path not in arrived
            if is_open and best and best["id"] in controller.names and best["probability"] >= (least or 2):
                by_class.setdefault(best["id"], []).append(item.answer)
        if by_class:
            self.judge(by_class, f": all from {least:.2f} up")

    def action_none_of_these(self) -> None:
        known = [answer for answer in self.judged() if "key" in answer]
        if known:
            said = f"labelled {called([answer['path'] for answer in known])} as {OTHER}"
            self.context.edit(lambda _: self.context.controller.set_aside(known), said)
            self.advance()

    def action_remove(self) -> None:
        if paths := [answer["path"] for answer in self.judged()]:
            self.context.edit(lambda session: session.drop(paths), f"removed {called(paths)} from the answers")
            self.context.controller.listener()

    def action_why(self) -> None:
        answer = next((answer for answer in self.judged() if "scores" in answer), None)
        if answer is not None:
            from frn_tui.panes.why import show_why  # screens that a key opens are not needed for the first paint

            self.context.start(show_why, self.context, classified(answer), group="why")

    def action_copy(self) -> None:
        items = {item.path: item for item in self.context.controller.reviewed()}
        lines = []
        for answer in self.judged():
            best = best_score(answer)
            final = items[answer["path"]].said
            lines.append(f"{answer['path']}\t{final}" + (f"\t{best['probability']:.4f}" if best else ""))
        self.context.copy(lines, "path, final label and probability")


class Arranging:
    """Actions of the keys that choose which answers are listed, and in which order."""

    context: Context

    def rearranged(self) -> None:
        """Show the answers in their current order."""

    def _arrange(self, **chosen: str) -> None:
        controller = self.context.controller
        controller.arrangement.choose(controller.reviewed(), **chosen)
        self.rearranged()

    def action_sort(self) -> None:
        orders = list(ORDERS)
        self._arrange(order=orders[(orders.index(self.context.controller.arrangement.order) + 1) % len(orders)])

    def action_filter(self) -> None:
        items = self.context.controller.reviewed()
        counts = {kind: sum(map(is_one, items)) for kind, is_one in KINDS.items()}
        said = Counter(item.said for item in items if item.label is not None or not item.is_unknown)
        names = sorted(said, key=str.casefold)
        options = [f"{kind}  {count}" for kind, count in counts.items()]
        options += [f"answer {name}  {said[name]}" for name in names]
        chosen = [(kind, "") for kind in counts] + [("all", name) for name in names]

        def take(index: int) -> None:
            self._arrange(kind=chosen[index][0], said=chosen[index][1])

        self.context.ask(Choose("Show only", options), take)

    def action_find(self) -> None:
        dialog = AskText("Show only answers whose file or class contains", self.context.controller.arrangement.wanted)
        self.context.ask(dialog, lambda text: self._arrange(wanted=text.strip()))


def called(paths: Sequence[str]) -> str:
    """Return the name of a photo, or the number of several."""
    return display_name(name_of(paths[0]), 24) if len(paths) == 1 else count_of(len(paths), "photo")


def class_of_number(context: Context, number: int) -> ClassEntry | None:
    """Return the class with a number key, or show that there is none."""
    classes = context.controller.session.state.classes
    if number > len(classes):
        context.say(f"no class has number {number}")
        return None
    return classes[number - 1]


def choose_class(context: Context, title: str, then: Callable[[ClassEntry], object]) -> None:
    """Ask for a class by name."""
    classes = context.controller.session.state.classes
    if classes:
        context.ask(Choose(title, [entry.name for entry in classes]), lambda index: then(classes[index]))


def rename_class(context: Context, entry: ClassEntry) -> None:
    """Ask for another name; with that of another class, offer to merge the two."""

    def rename(name: str) -> None:
        other = context.controller.session.state.named(name.strip())
        if other is None or other.id == entry.id:
            context.edit(lambda session: session.rename(entry.id, name), f"renamed {entry.name} to {name}")
            return
        if entry.id in context.controller.coming:
            context.say(f"{entry.name} is still being opened; merge it afterwards")
            return

        def chosen(index: int) -> None:
            if index == 0:
                said = f"merged {entry.name} into {other.name}"
                context.edit(lambda session: session.merge(entry.id, other.id), said)

        photos = count_of(len(entry.supports), "photo")
        title = f"A class {display_name(other.name, 40)} already exists"
        context.ask(Choose(title, [f"merge: move its {photos} to that class", "cancel"]), chosen)

    context.ask(AskText(f"Rename {display_name(entry.name, 40)}", entry.name), rename)
