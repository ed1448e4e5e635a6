"""The user's work: classes of example photos. Plain frozen data; every edit can be undone.

An edit makes a new `State` that shares what it did not touch with the old one, so undo and redo are a stack of states.
Photos are known by their content (`Support.key`): the same photo is never an example twice, whatever its file's name.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from frn.data.names import normal
from frn.errors import FrnError

MAX_NAME = 200
MAX_CLASSES = 10_000


@dataclass(frozen=True, slots=True)
class Support:
    """An example photo."""

    path: Path
    key: str
    """Hash of the file's bytes (`features.content_key`)."""
    size: int
    """Bytes of the file when it was added."""
    mtime_ns: int
    """Its time of change then."""

    @classmethod
    def of(cls, path: Path, key: str) -> "Support":
        """Describe a file whose content is known; one that is away has no size and no time."""
        try:
            status = path.stat()
        except OSError:
            return cls(path, key, 0, 0)
        return cls(path, key, status.st_size, status.st_mtime_ns)

    def is_unchanged(self) -> bool:
        """Return whether the file is as it was, or away: then what is known of its content still counts."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """A class and its examples."""

    id: int
    """Never used again, so that what refers to a class survives its renaming."""
    name: str
    supports: tuple[Support, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Photos that were moved on the disk, in one act."""

    said: str
    """What was done, in words."""
    journal: str
    """Path of the file that it is written down in."""
    photos: tuple[tuple[str, str, bool], ...]
    """State of each: where it was, where it is, and whether the same photo was there already."""


@dataclass(frozen=True, slots=True)
class State:
    """All classes, and the threshold of unknown photos."""

    classes: tuple[ClassEntry, ...] = ()
    threshold: float | None = None
    """Share of a photo that a class must explain; None calibrates it from the examples (`unknown.calibrate`)."""
    next_id: int = 1
    model: str = ""
    """Name of the model that the classes are looked at with, where changing it is an edit; empty: it is not."""
    others: tuple[Support, ...] = ()
    """Photos that a person said are of none of the classes."""
    moves: Moves | None = field(default=None, compare=False)
    """The last photos that were moved. Undoing a step to a state with others moves them back."""
    dropped: frozenset[str] = field(default=frozenset(), compare=False)
    """Paths of photos that were taken off the list of answers."""
    act: str = field(default="", compare=False)
    """What a person did to get here, in words, for undo and redo."""

    def find(self, class_id: int) -> ClassEntry:
        """A class by its id. FrnError if there is none."""
        if entry := next((entry for entry in self.classes if entry.id == class_id), None):
            return entry
        raise FrnError(f"there is no class number {class_id}")

    def named(self, name: str) -> ClassEntry | None:
        """A class by its name."""
        return next((entry for entry in self.classes if entry.name == normal(name)), None)

    def holders(self) -> dict[str, tuple[ClassEntry, Support]]:
        """Where each photo is an example, by its key."""
        return {support.key: (entry, support) for entry in self.classes for support in entry.supports}


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A photo that was not added, because it is there already."""

    path: Path
    key: str
    class_name: str
    """Where."""
    twin: Path
    """As which file."""

    def __str__(self) -> str:
        return f"{self.path}: is the same photo as {self.twin} of class {self.class_name!r}; it is not added"


class Session:
    """The state, what it was before, and what was undone."""

    def __init__(self, state: State | None = None, *, is_saved: bool = True) -> None:
        """Begin with a state that is on disk or, unless `is_saved`, is not."""
        self._states = [state or State()]
        self._at = 0
        self._saved: State | None = self._states[0] if is_saved else None

    @property
    def state(self) -> State:
        """As it is now."""
        return self._states[self._at]

    @property
    def is_saved(self) -> bool:
        """Return whether nothing was edited since `mark_saved`."""
        return self.state == self._saved

    def mark_saved(self, state: State | None = None) -> None:
        """Note that a state is on disk: that of now, or an earlier one, where edits came while it was written."""
        self._saved = self.state if state is None else state

    def name_act(self, said: str) -> None:
        """Say in words what the last edit did."""
        self.amend(replace(self.state, act=said))

    @property
    def undone(self) -> str:
        """Return the act that redo would repeat, in words."""
        return self._states[self._at + 1].act if self.can_redo else ""

    @property
    def can_undo(self) -> bool:
        """Return whether there is an edit to take back."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """Return whether there is an undone edit."""
        return self._at < len(self._states) - 1

    def undo(self) -> State:
        """Take the last edit back, if there is one."""
        self._at = max(self._at - 1, 0)
        return self.state

    def redo(self) -> State:
        """Do the last undone edit again, if there is one."""
        self._at = min(self._at + 1, len(self._states) - 1)
        return self.state

    @contextmanager
    def one_edit(self) -> Iterator[None]:
        """Edits made inside are undone together; if one is refused, none is made."""
        before, at = self._states, self._at
        try:
            yield
        except BaseException:  # a cancelled task too must leave the state whole; it is raised again
            self._states, self._at = before, at
            raise
        if self.state is not before[at]:
            self._states, self._at = [*before[: at + 1], self.state], at + 1

    def create(self, name: str) -> int:
        """Add an empty class and return its id.

        FrnError if the name is taken, empty or too long, or there are too many classes.
        """
        state = self.state
        if len(state.classes) >= MAX_CLASSES:
            raise FrnError(f"there are {MAX_CLASSES} classes already; no more are possible")
        entry = ClassEntry(state.next_id, self._fresh_name(name))
        self._edit(replace(state, classes=(*state.classes, entry), next_id=state.next_id + 1))
        return entry.id

    def rename(self, class_id: int, name: str) -> None:
        """Give a class another name; nothing else changes. FrnError if the name is taken, empty or too long."""
        entry = self.state.find(class_id)
        if name.strip() != entry.name:
            self._replace(replace(entry, name=self._fresh_name(name)))

    def delete(self, class_id: int) -> None:
        """Remove a class; its files stay where they are."""
        self.state.find(class_id)
        self._edit(replace(self.state, classes=tuple(entry for entry in self.state.classes if entry.id != class_id)))

    def add(self, class_id: int, supports: Iterable[Support]) -> list[Duplicate]:
        """Add examples to a class, all in one edit.

        Returns those skipped because they are examples already, of this class or another.
        """
        entry = self.state.find(class_id)
        holders = self.state.holders()
        added: list[Support] = []
        duplicates = []
        for support in supports:
            if support.key in holders:
                there, twin = holders[support.key]
                duplicates.append(Duplicate(support.path, support.key, there.name, twin.path))
            else:
                holders[support.key] = (entry, support)
                added.append(support)
        if added:
            keys = {support.key for support in added}
            others = tuple(other for other in self.state.others if other.key not in keys)
            self._edit(replace(_changed(self.state, replace(entry, supports=(*entry.supports, *added))), others=others))
        return duplicates

    def set_aside(self, supports: Iterable[Support]) -> None:
        """Note that photos are of none of the classes: those among them that are examples are no longer."""
        known = {other.key for other in self.state.others}
        added = {support.key: support for support in supports if support.key not in known}
        with self.one_edit():
            self.remove(added)
            self._edit(replace(self.state, others=(*self.state.others, *added.values())))

    def remove(self, keys: Iterable[str]) -> None:
        """Remove examples from whichever classes they are in; their files stay where they are."""
        gone = set(keys)
        classes = tuple(
            replace(entry, supports=tuple(support for support in entry.supports if support.key not in gone))
            for entry in self.state.classes
        )
        self._edit(replace(self.state, classes=classes))

    def move(self, keys: Iterable[str], class_id: int) -> None:
        """Make examples of any classes examples of another."""
        target, moving = self.state.find(class_id), set(keys)
        others = [entry for entry in self.state.classes if entry.id != class_id]
        arriving = [support for entry in others for support in entry.supports if support.key in moving]
        arrived = {support.key for support in arriving}
        classes = tuple(
            replace(target, supports=(*target.supports, *arriving))
            if entry.id == class_id
            else replace(entry, supports=tuple(support for support in entry.supports if support.key not in arrived))
            for entry in self.state.classes
        )
        self._edit(replace(self.state, classes=classes))

    def replace_state(self, state: State) -> None:
        """Put a whole state in place of this one: an edit like any other."""
        self._edit(state)

    def amend(self, state: State) -> None:
        """Put a state in place of this one without an edit: not the user changed something, but the world did."""
        self._states = [*self._states[: self._at], state, *self._states[self._at + 1 :]]

    def amend_all(self, change: Callable[[State], State]) -> None:
        """Put what `change` makes of them in place of this state and of those that undo and redo lead to."""
        self._states = [change(state) for state in self._states]

    def note_moves(self, moves: Moves) -> None:
        """Make a step of photos that were moved: undo comes by it, and the classes are as they were."""
        self._step(replace(self.state, moves=moves, act=moves.said))

    def drop(self, paths: Iterable[str]) -> None:
        """Take photos off the list of answers, as a step; what they are examples of stays."""
        self._step(replace(self.state, dropped=self.state.dropped | set(paths), act=""))

    def merge(self, class_id: int, target_id: int) -> None:
        """Make all examples of a class examples of another, and remove the class: one edit."""
        with self.one_edit():
            self.move([support.key for support in self.state.find(class_id).supports], target_id)
            self.delete(class_id)

    def set_threshold(self, threshold: float | None) -> None:
        """Set the share of a photo that a class must explain; None calibrates it.

        FrnError if it is not between 0 and 1.
        """
        self._edit(replace(self.state, threshold=check_threshold(threshold)))

    def _fresh_name(self, name: str) -> str:
        name = check_name(name)
        if self.state.named(name) is not None:
            raise FrnError(f"there is a class {name!r} already; choose another name")
        return name

    def _replace(self, changed: ClassEntry) -> None:
        self._edit(_changed(self.state, changed))

    def _edit(self, state: State) -> None:
        if state != self.state:
            self._step(replace(state, act=""))

    def _step(self, state: State) -> None:
        self._states = [*self._states[: self._at + 1], state]
        self._at += 1


def _changed(state: State, changed: ClassEntry) -> State:
    """The state with a class that has changed."""
    return replace(state, classes=tuple(changed if entry.id == changed.id else entry for entry in state.classes))


def build_state(classes: Iterable[tuple[str, Sequence[Support]]]) -> tuple[State, list[Duplicate]]:
    """A state of classes with examples, and the examples skipped because they are there twice.

    FrnError if a name is there twice, empty or too long.
    """
    entries: list[ClassEntry] = []
    names: set[str] = set()
    holders: dict[str, tuple[str, Path]] = {}
    duplicates = []
    for given, supports in classes:
        name = check_name(given)
        if name in names:
            raise FrnError(f"there is a class {name!r} already; choose another name")
        if len(entries) == MAX_CLASSES:
            raise FrnError(f"there are {MAX_CLASSES} classes already; no more are possible")
        names.add(name)
        kept = []
        for support in supports:
            if support.key in holders:
                duplicates.append(Duplicate(support.path, support.key, *holders[support.key]))
            else:
                holders[support.key] = (name, support.path)
                kept.append(support)
        entries.append(ClassEntry(len(entries) + 1, name, tuple(kept)))
    return State(tuple(entries), next_id=len(entries) + 1), duplicates


def check_name(name: str) -> str:
    """A class name in its normal form, without blanks around it. FrnError if it is empty or too long."""
    name = normal(name).strip()
    if not name:
        raise FrnError("a class needs a name")
    if len(name) > MAX_NAME:
        raise FrnError(f"the class name {name[:40]!r}... has {len(name)} characters; the limit is {MAX_NAME}")
    return name


def check_threshold(threshold: float | None) -> float | None:
    """A threshold that is None or a share. FrnError if it is not between 0 and 1."""
    if threshold is not None and not 0 <= threshold <= 1:
        raise FrnError(f"the threshold is a share of the photo, between 0 and 1, not {threshold}")
    return threshold
