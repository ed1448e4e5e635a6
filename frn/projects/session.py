"""The user's classes of example photos: plain frozen data; every edit can be undone.

An edit creates a new `State` that shares everything unchanged with the old one, so undo and redo are stacks of states.
Photos are identified by content (`Support.key`), so the same photo is never an example twice, regardless of its file
name. Near copies in a class count once: they would explain each other when one of them is left out, so thresholds would
be too high and lambda too low. The same photo in two classes, also if it was saved again or cropped, cannot be an
example of both.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from frn.errors import FrnError
from frn.images.boxes import split_box
from frn.images.stamps import stamp_of
from frn.projects.names import normal
from frn.ridge.parameters import HeadParameters

Find = Literal["none", "one", "all", "auto"]
"""Whether the subject, or all subjects, of each photo are searched for (`inference.find`); enrolling decides `auto`."""
MAX_NAME = 200
MAX_CLASSES = 10_000


@dataclass(frozen=True, slots=True)
class Support:
    """An example photo of a class."""

    path: Path
    key: str  # hash of the file's bytes (`feature_cache.content_key`)
    size: int  # bytes of the file when it was added; of the photo for a box, and of the zip for a file in it
    mtime_ns: int  # modification time of the file when it was added

    @classmethod
    def of(cls, path: Path, key: str) -> "Support":
        """Describe a file whose content is known; a missing file has no size or time."""
        file = split_box(path)[0]
        with suppress(OSError):
            if not file.exists():
                from frn.system.archives import zip_around  # with `tarfile`, which the app starts without

                file = zip_around(file) or file
            status = file.stat()
            return cls(path, key, status.st_size, status.st_mtime_ns)
        return cls(path, key, 0, 0)


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """A class and its example photos."""

    id: int  # identifier that is never reused, so that references to a class survive renaming
    name: str
    supports: tuple[Support, ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """Photos that were moved on disk in one action."""

    said: str
    journal: str
    photos: tuple[tuple[str, str, bool], ...]
    """State of each photo: old path, new path, and whether the same photo already existed there."""


@dataclass(frozen=True, slots=True)
class ProjectHead:
    """The head that a project stores, and the classes that it was chosen for."""

    of: str  # key of these classes (`enrolled_form.classes_key`)
    head: HeadParameters


@dataclass(frozen=True, slots=True)
class State:
    """All classes, and the threshold for unknown photos."""

    classes: tuple[ClassEntry, ...] = ()
    threshold: float | None = None
    """`known` below which a photo is unknown; None calibrates it on the examples (`unknown.calibration.calibrate`)."""
    next_id: int = 1
    model: str = ""  # name of the model if changing it is an edit; empty otherwise
    others: tuple[Support, ...] = ()  # photos that the user marked as none of the classes
    search: Find = "none"
    whole_photos: str = field(default="", compare=False)
    """Hash of the whole photos of the examples, if their subjects are searched for."""
    head: ProjectHead | None = field(default=None, compare=False)
    """Head of the project, used as long as the classes are those that it was chosen for."""
    moves: Moves | None = field(default=None, compare=False)
    """Most recent moves of photos. Undoing to a state with different moves moves the photos back."""
    dropped: frozenset[str] = field(default=frozenset(), compare=False)
    """Paths of photos that were removed from the list of answers."""
    act: str = field(default="", compare=False)  # description of the last edit, for undo and redo

    def find(self, class_id: int) -> ClassEntry:
        """Return a class by its id. Raises FrnError if the class does not exist."""
        if entry := next((entry for entry in self.classes if entry.id == class_id), None):
            return entry
        raise FrnError(f"no class has the number {class_id}")

    def named(self, name: str) -> ClassEntry | None:
        return next((entry for entry in self.classes if entry.name == normal(name)), None)

    @property
    def photos(self) -> Iterator[Support]:
        """All examples, and the photos that belong to none of the classes."""
        return chain(*(entry.supports for entry in self.classes), self.others)

    def holders(self) -> dict[str, tuple[ClassEntry, Support]]:
        return {support.key: (entry, support) for entry in self.classes for support in entry.supports}


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A photo that was not added because it is already an example."""

    path: Path
    key: str
    class_name: str  # class that already contains it
    twin: Path  # file of the existing example

    def __str__(self) -> str:
        return f"{self.path}: is the same photo as {self.twin} of class {self.class_name!r}; it was not added"


class Session:
    """The current state, with the states for undo and redo."""

    def __init__(self, state: State | None = None, *, is_saved: bool = True) -> None:
        """Start with a state; `is_saved` says whether it is on disk."""
        self._states = [state or State()]
        self._at = 0
        self._saved: State | None = self._states[0] if is_saved else None

    @property
    def state(self) -> State:
        return self._states[self._at]

    @property
    def is_saved(self) -> bool:
        """Return whether nothing has been edited since `mark_saved`."""
        return self.state == self._saved

    def mark_saved(self, state: State | None = None) -> None:
        """Record that a state is on disk: the current one, or one from before edits made during the write."""
        self._saved = self.state if state is None else state

    def name_act(self, said: str) -> None:
        self.amend(replace(self.state, act=said))

    @property
    def undone(self) -> str:
        return self._states[self._at + 1].act if self.can_redo else ""

    @property
    def can_undo(self) -> bool:
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        return self._at < len(self._states) - 1

    def undo(self) -> State:
        self._at = max(self._at - 1, 0)
        return self.state

    def redo(self) -> State:
        self._at = min(self._at + 1, len(self._states) - 1)
        return self.state

    @contextmanager
    def one_edit(self) -> Iterator[None]:
        """Group the edits made inside, so that they are undone together; if one is rejected, none is applied."""
        before, at = self._states, self._at
        try:
            yield
        except BaseException:  # a cancelled task must also leave the state whole; raised again below
            self._states, self._at = before, at
            raise
        if self.state is not before[at]:
            self._states, self._at = [*before[: at + 1], self.state], at + 1

    def create(self, name: str) -> int:
        """Add an empty class and return its id.

        Raises FrnError if the name is taken, empty or too long, or there are too many classes.
        """
        state = self.state
        if len(state.classes) >= MAX_CLASSES:
            raise FrnError(f"there are already {MAX_CLASSES} classes, which is the limit")
        entry = ClassEntry(state.next_id, self._fresh_name(name))
        self.edit(replace(state, classes=(*state.classes, entry), next_id=state.next_id + 1))
        return entry.id

    def rename(self, class_id: int, name: str) -> None:
        """Rename a class; nothing else changes. Raises FrnError if the name is taken, empty or too long."""
        entry = self.state.find(class_id)
        if check_name(name) != entry.name:
            self.edit(_changed(self.state, replace(entry, name=self._fresh_name(name))))

    def delete(self, class_id: int) -> None:
        """Remove a class; its files stay where they are."""
        self.state.find(class_id)
        self.edit(replace(self.state, classes=tuple(entry for entry in self.state.classes if entry.id != class_id)))

    def add(self, class_id: int, supports: Iterable[Support]) -> list[Duplicate]:
        """Add examples to a class in one edit.

        Returns the skipped ones, which are already examples of this class or another.
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
            self.edit(replace(_changed(self.state, replace(entry, supports=(*entry.supports, *added))), others=others))
        return duplicates

    def exchange(self, key: str, support: Support) -> None:
        """Put another example in the place of one, as one edit."""
        entry, _ = self.state.holders()[key]
        supports = tuple(support if each.key == key else each for each in entry.supports)
        self.edit(_changed(self.state, replace(entry, supports=supports)))

    def set_aside(self, supports: Iterable[Support]) -> None:
        """Record that photos belong to none of the classes; those that are examples are removed from their classes."""
        known = {other.key for other in self.state.others}
        added = {support.key: support for support in supports if support.key not in known}
        with self.one_edit():
            self.remove(added)
            self.edit(replace(self.state, others=(*self.state.others, *added.values())))

    def remove(self, keys: Iterable[str]) -> None:
        """Remove examples from their classes; the files stay where they are."""
        gone = set(keys)
        classes = tuple(
            replace(entry, supports=tuple(support for support in entry.supports if support.key not in gone))
            for entry in self.state.classes
        )
        self.edit(replace(self.state, classes=classes))

    def move(self, keys: Iterable[str], class_id: int) -> None:
        """Move examples of any classes to another class."""
        target, moving = self.state.find(class_id), set(keys)
        others = [entry for entry in self.state.classes if entry is not target]
        arriving = [support for entry in others for support in entry.supports if support.key in moving]
        with self.one_edit():
            self.remove(support.key for support in arriving)
            self.add(class_id, arriving)

    def edit(self, state: State) -> None:
        """Replace the whole state, as an edit that can be undone."""
        if state != self.state:
            self._step(replace(state, act=""))

    def amend(self, state: State) -> None:
        """Replace the state without an edit, for changes that the user did not make."""
        self._states = [*self._states[: self._at], state, *self._states[self._at + 1 :]]

    def amend_all(self, change: Callable[[State], State], *, is_on_disk: bool = False) -> None:
        """Apply `change` to this state and to all states for undo and redo; also to the saved one if it is on disk."""
        self._states = [change(state) for state in self._states]
        if is_on_disk and self._saved is not None:
            self._saved = change(self._saved)

    def note_moves(self, moves: Moves) -> None:
        """Record moved photos as a step that can be undone; the classes stay the same."""
        self._step(replace(self.state, moves=moves, act=moves.said))

    def drop(self, paths: Iterable[str]) -> None:
        """Remove photos from the list of answers, as a step that can be undone; they remain examples."""
        self._step(replace(self.state, dropped=self.state.dropped | set(paths), act=""))

    def merge(self, class_id: int, target_id: int) -> None:
        """Move all examples of a class to another and remove the class, in one edit."""
        with self.one_edit():
            self.move([support.key for support in self.state.find(class_id).supports], target_id)
            self.delete(class_id)

    def set_threshold(self, threshold: float | None) -> None:
        """Set the probability `known` below which photos are unknown; None calibrates it.

        Raises FrnError if it is not between 0 and 1.
        """
        self.edit(replace(self.state, threshold=check_threshold(threshold)))

    def _fresh_name(self, name: str) -> str:
        name = check_name(name)
        if self.state.named(name) is not None:
            raise FrnError(f"a class {name!r} already exists; choose another name")
        return name

    def _step(self, state: State) -> None:
        self._states = [*self._states[: self._at + 1], state]
        self._at += 1


def _changed(state: State, changed: ClassEntry) -> State:
    return replace(state, classes=tuple(changed if entry.id == changed.id else entry for entry in state.classes))


def build_state(classes: Iterable[tuple[str, Sequence[Support]]]) -> tuple[State, list[Duplicate]]:
    """Return a state of classes with examples, and the skipped duplicates.

    Raises FrnError if a name is used twice, empty or too long.
    """
    entries: list[ClassEntry] = []
    names: set[str] = set()
    holders: dict[str, tuple[str, Path]] = {}
    duplicates = []
    for text, supports in classes:
        name = check_name(text)
        if name in names:
            raise FrnError(f"a class {name!r} already exists; choose another name")
        if len(entries) == MAX_CLASSES:
            raise FrnError(f"there are already {MAX_CLASSES} classes, which is the limit")
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


def in_two_classes(names: Sequence[str], classes: Sequence[Sequence[Support]]) -> dict[str, FrnError]:
    """Return the content keys that several classes have, each with what to report."""
    first: dict[str, tuple[str, Support]] = {}
    shared: dict[str, FrnError] = {}
    for name, supports in zip(names, classes, strict=True):
        for support in supports:
            holder, twin = first.setdefault(support.key, (name, support))
            if holder != name:
                shared.setdefault(support.key, in_both(twin.path, holder, support.path, name))
    return shared


def describe_copies(state: State, copies: Mapping[str, str]) -> list[FrnError]:
    """Return what to report about the copies among the examples of a state.

    Raises FrnError if a class has no other examples.
    """
    holders, notes, pairs = state.holders(), list[FrnError](), set[frozenset[str]]()
    for entry in state.classes:
        here, both = [], []
        for support in entry.supports:
            if twin := copies.get(support.key):
                holder, other = holders[twin]
                if holder is entry:
                    here.append((support, other))
                elif (pair := frozenset((support.key, twin))) not in pairs:
                    pairs.add(pair)
                    both.append(in_both(support.path, entry.name, other.path, holder.name))
        if here:
            copy, original = here[0]
            one, several = "is a near copy of another and does not count", "are near copies of others and do not count"
            what = f"{len(here)} of {len(entry.supports)} photos {one if len(here) == 1 else several}"
            notes.append(FrnError(f"class {entry.name!r}: {what}. The first: {copy.path} of {original.path}"))
        notes += both
        if entry.supports and all(support.key in copies for support in entry.supports):
            twin = copies[entry.supports[0].key]
            why = in_both(entry.supports[0].path, entry.name, holders[twin][1].path, holders[twin][0].name)
            raise FrnError(f"class {entry.name!r} has only photos that are also in another class. The first: {why}")
    return notes


def in_both(one: Path, name: str, other: Path, other_name: str) -> FrnError:
    """Return the error of a photo that is in two classes."""
    return FrnError(
        f"{one} of class {name!r} and {other} of class {other_name!r} are the same photo; neither is used. Remove one."
    )


def without(state: State, paths: Collection[str]) -> State:
    """Return a state without the photos at these paths."""

    def kept(photos: Sequence[Support]) -> tuple[Support, ...]:
        return tuple(photo for photo in photos if str(photo.path) not in paths)

    classes = tuple(replace(entry, supports=kept(entry.supports)) for entry in state.classes)
    return replace(state, classes=classes, others=kept(state.others))


def with_unused(state: State, listed: State, copies: Collection[str]) -> State:
    """Return a state for saving, with the photos of a listed one that are missing and may come back, or are copies."""
    keys, classes = state.holders().keys(), list(state.classes)
    for place, entry in enumerate(listed.classes):
        unused = [s for s in entry.supports if s.key not in keys]
        absent = tuple(s for s in unused if s.key in copies or stamp_of(s.path) is None)
        at = next((at for at, used in enumerate(classes) if used.name == entry.name), None)
        if at is None:
            classes.insert(place, replace(entry, supports=absent))
        else:
            classes[at] = replace(classes[at], supports=(*classes[at].supports, *absent))
    return replace(state, classes=tuple(classes))


def check_name(name: str) -> str:
    """Return a class name normalised and stripped. Raises FrnError if the name is empty or too long."""
    name = normal(name).strip()
    if not name:
        raise FrnError("a class needs a name")
    if len(name) > MAX_NAME:
        raise FrnError(f"the class name {name[:40]!r}... has {len(name)} characters; the limit is {MAX_NAME}")
    return name


def check_threshold(threshold: Any) -> float | None:
    """Return a threshold. Raises FrnError if the threshold is neither None nor a number between 0 and 1."""
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if threshold is not None and not (is_number and 0 <= threshold <= 1):
        raise FrnError(f"the threshold must be a number between 0 and 1, not {threshold!r}")
    return threshold
