"""Enroll classes: which of the listed photos are used, and everything that is computed from their feature maps.

This is the one way in for commands, library and app. `listed_state` describes files, `usable_examples` chooses among
those that were read, and `Enrollment` computes the classes from their maps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import MISSING, Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.inference.enrolled_form import (
    EnrolledForm,
    are_alike,
    classes_key,
    describes,
    form_key,
    head_of,
    keep,
    recall,
    stored_head,
)
from frn.inference.scorers import Reconstruction
from frn.inference.unknown.calibration import stride
from frn.inference.unknown.rule import Shares, explained
from frn.projects.copies import find_copies
from frn.projects.session import ClassEntry, State, Support, build_state, describe_copies, in_two_classes
from frn.ridge.enrolment import Allowance, Array, EnrolledClass, energy, enroll, left_out_location_error
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_classes
from frn.ridge.unequal import allowances, as_smallest

Keys = tuple[str, ...]
MAX_SMALLER, SMALLER_COST = 128, 2 * 10**9
"""Maximum number of examples that are also scored as if their class were as small as the smallest; and that times the
cube of the rows of such a class. At least 16 are."""


@dataclass(frozen=True, slots=True)
class _Reconstructed:
    """A class without its name and its allowance, which depends on the other classes."""

    enrolled: EnrolledClass
    own_errors: Array  # leave-one-out errors of every location of each example, (k, r)
    shares: Shares  # fraction of each example that the rest of the class explains, (k,); empty for a single one

    @classmethod
    def of(cls, maps: Maps, head: HeadParameters) -> "_Reconstructed":
        errors = left_out_location_error(maps, head)
        shares = explained(errors.mean(1)[:, None], energy(maps))[:, 0] if len(maps) > 1 else np.zeros(0)
        return cls(enroll(maps, head), errors, shares)


class Enrollment:
    """Enrolls states one after another, for FRN's head; only what an edit has changed is computed again."""

    def __init__(self, extractor: Extractor, store: FeatureStore | None = None) -> None:
        self.extractor, self.store = extractor, store
        self.uses_project_head = False
        """True if the last head is that of the project and differs from the one that the examples would get."""
        self._classes: dict[Keys, _Reconstructed] = {}
        self._of: tuple[float, float] | None = None  # alpha and beta of the enrolled classes; gamma does not matter
        self._tuned: tuple[tuple[object, ...], HeadParameters] | None = None
        """The last head, with the classes and the search that it was chosen for."""
        self._allowances: tuple[tuple[object, ...], list[Allowance]] | None = None
        self._smaller: dict[tuple[Keys, int, int], tuple[float, float]] = {}
        """Results of `as_smallest` by class, place and number of photos, for the same head as `_classes`."""
        self._joined: tuple[object, Reconstruction] | None = None  # the last scorer, and the allowances of its classes

    def stored(self, state: State) -> EnrolledForm | None:
        """Return the enrolled form of a state if it is stored."""
        if (tuned := stored_head(self.store, state, self.extractor)) is None:
            return None
        head = head_of(state, self.extractor) or tuned
        key = form_key(state, self.extractor, head)
        form = recall(self.store, self.extractor, key, EnrolledForm)
        if form is None or form.head != head or not describes(form, state, self.extractor):
            return None
        self.uses_project_head = not are_alike(head, tuned)
        return form

    def enroll(
        self, state: State, feature_maps: Mapping[str, Maps], check: Callable[[], None] = lambda: None
    ) -> EnrolledForm:
        """Enroll the classes of a state from feature maps (r, d), given by content key.

        `check` is called before each class and may raise. The result lacks `left_out` and `looks`.
        """
        groups = [keys_of(entry) for entry in state.classes]

        def pool(keys: Keys) -> Maps:
            return np.stack([feature_maps[key] for key in keys])

        head, more = self._choose(state, groups, lambda: [pool(keys) for keys in groups])
        if self._of != (head.alpha, head.beta):
            self._classes, self._smaller, self._of = {}, {}, (head.alpha, head.beta)
        for keys in groups:  # one by one, to save memory
            check()
            if keys not in self._classes:
                self._classes[keys] = _Reconstructed.of(pool(keys), head)
        self._classes = {keys: self._classes[keys] for keys in groups}
        each = {entry.name: self._classes[keys] for entry, keys in zip(state.classes, groups, strict=True)}
        return EnrolledForm(
            head,
            {name: replace(one.enrolled, allowance=a) for (name, one), a in zip(each.items(), more, strict=True)},
            {name: one.shares for name, one in each.items() if len(one.shares)},
            {
                support.key: (entry.name, row)
                for entry in state.classes
                for support, row in zip(entry.supports, each[entry.name].own_errors, strict=True)
            },
            self._as_smallest(state, head, pool),
            None,
            {},
        )

    def scorer(self, form: EnrolledForm) -> Reconstruction:
        """Return the scorer of the form that was enrolled last; it shares its rows with that of the same classes."""
        last = self._joined[1].joined if self._joined and self._joined[0] is self._allowances else None
        scorer = Reconstruction(form, last)
        self._joined = self._allowances, scorer
        return scorer

    def _as_smallest(
        self, state: State, head: HeadParameters, pool: Callable[[Keys], Maps]
    ) -> dict[str, tuple[float, float]]:
        """Return what examples have from as many photos as the smallest class has, by content key."""
        least = min((len(entry.supports) for entry in state.classes), default=0)
        larger = [
            (keys_of(entry), place, least) for entry, place in left_out_places(state) if len(entry.supports) > least
        ]
        if not larger:
            return {}
        r, d = self.extractor.shape
        most = min(max(16, SMALLER_COST // min(least * r, d) ** 3), MAX_SMALLER)
        chosen = larger[:: math.ceil(len(larger) / most)]
        self._smaller = {each: self._smaller[each] for each in chosen if each in self._smaller}
        missing = [each for each in chosen if each not in self._smaller]
        for keys in dict.fromkeys(keys for keys, *_ in missing):
            maps = pool(keys)
            for each in missing:
                if each[0] == keys:
                    self._smaller[each] = as_smallest(maps, each[1], least, head)
        return {keys[place]: self._smaller[keys, place, least] for keys, place, _ in chosen}

    def _choose(
        self, state: State, groups: list[Keys], pools: Callable[[], list[Maps]]
    ) -> tuple[HeadParameters, list[Allowance]]:
        """Return the project's head or, for other classes, one for them; and the classes' allowances with it."""
        of = groups, state.search, state.whole_photos
        if self._tuned is None or self._tuned[0] != of:
            if (tuned := stored_head(self.store, state, self.extractor)) is None:
                tuned, more = tune_classes(pools(), self.extractor.prior)
                self._allowances = (groups, tuned.alpha, tuned.beta), more
                keep(self.store, self.extractor, classes_key(state, self.extractor), tuned)
            self._tuned = of, tuned
        tuned = self._tuned[1]
        head = head_of(state, self.extractor) or tuned
        self.uses_project_head = not are_alike(head, tuned)
        if self._allowances is None or self._allowances[0] != (groups, head.alpha, head.beta):
            self._allowances = (groups, head.alpha, head.beta), allowances(pools(), head)
        return head, self._allowances[1]


def keys_of(entry: ClassEntry) -> Keys:
    """Return the content keys of a class's examples, in order."""
    return tuple(support.key for support in entry.supports)


def left_out_places(state: State) -> list[tuple[ClassEntry, int]]:
    """Return the classes and places of the examples for leave-one-out: an even selection if there are many.

    Classes with a single photo have none.
    """
    places = [
        (number, place)
        for number, entry in enumerate(state.classes)
        for place in sorted(range(len(entry.supports)), key=keys_of(entry).__getitem__)  # whatever order files have
        if len(entry.supports) > 1
    ]
    return [(state.classes[number], place) for number, place in sorted(places[:: stride(len(places), state.search)])]


def listed_state(classes: Mapping[str, Sequence[Path]], others: Sequence[Path] = ()) -> State:
    """Return a state of files that have not been read."""

    def photos(paths: Sequence[Path]) -> tuple[Support, ...]:
        return tuple(Support(path, "", 0, 0) for path in paths)

    entries = tuple(ClassEntry(number, name, photos(classes[name])) for number, name in enumerate(classes, 1))
    return State(entries, next_id=len(entries) + 1, others=photos(others))


def usable_examples(
    listed: State, outcomes: Sequence[Embedded | FrnError]
) -> tuple[State, dict[str, str], list[FrnError]]:
    """Return the classes of all photos that can be read, the copies among them, and what to report about the others.

    `outcomes` are those of all photos, class by class. Raises FrnError as `Classifier.enroll_state`.
    """
    state, notes = usable(listed, [each if isinstance(each, FrnError) else each.key for each in outcomes])
    copies = find_copies(state, {each.key: each.look for each in outcomes if isinstance(each, Embedded) and each.look})
    return state, copies, notes + describe_copies(state, copies)


def usable(listed: State, keys: Sequence[str | FrnError]) -> tuple[State, list[FrnError]]:
    """Return the classes of the photos that can be used, and what to report about the others.

    `keys` are the current content keys of all photos, class by class. Raises FrnError as `Classifier.enroll_state`.
    """
    if keys and all(map(_is_missing, keys)):
        (first, *_) = (support.path for entry in listed.classes for support in entry.supports)
        raise FrnError(
            f"all {len(keys)} example photos are missing. The first: {first}. Connect their drive, or bring back their "
            "folder."
        )
    remaining = iter(keys)
    keys_by_class = [[next(remaining) for _ in entry.supports] for entry in listed.classes]
    supports = [
        [
            s if s.key == key else Support.of(s.path, key)
            for s, key in zip(entry.supports, keys_of_class, strict=True)
            if not isinstance(key, FrnError)
        ]
        for entry, keys_of_class in zip(listed.classes, keys_by_class, strict=True)
    ]
    names = [entry.name for entry in listed.classes]
    shared = in_two_classes(names, supports)
    state, duplicates = build_state(
        (name, [s for s in each if s.key not in shared]) for name, each in zip(names, supports, strict=True)
    )
    classes, notes = [], list[FrnError]()
    for entry, keys_of_class, usable in zip(listed.classes, keys_by_class, state.classes, strict=True):
        if not usable.supports and not (keys_of_class and all(map(_is_missing, keys_of_class))):
            tried = {support.path for support in entry.supports}
            broken = [str(key) for key in keys_of_class if isinstance(key, FrnError)]
            reasons = broken + [str(each) for each in duplicates if each.path in tried]
            reasons += [str(shared[key]) for key in keys_of_class if not isinstance(key, FrnError) and key in shared]
            why = f" The first: {reasons[0]}" if reasons else ""
            raise FrnError(f"class {usable.name!r} has no usable image among {len(keys_of_class)} files.{why}")
        notes += describe_unused(f"class {usable.name!r}", entry.supports, keys_of_class)
        if usable.supports:  # with surrounding blanks removed from the name
            classes.append(replace(entry, name=usable.name, supports=usable.supports))
    return replace(listed, classes=tuple(classes)), [*notes, *map(FrnError, map(str, duplicates)), *shared.values()]


def _is_missing(key: str | FrnError) -> bool:
    return isinstance(key, FrnError) and key.code == MISSING


def describe_unused(what: str, photos: Sequence[Support], keys: Sequence[str | FrnError]) -> list[FrnError]:
    """Return how many photos of a class are missing or have changed, and why others cannot be read."""
    missing = [photo.path for photo, key in zip(photos, keys, strict=True) if _is_missing(key)]
    changed = [
        photo.path
        for photo, key in zip(photos, keys, strict=True)
        if photo.key and not isinstance(key, FrnError) and key != photo.key
    ]
    cases = (
        (missing, "is missing and not used", "are missing and not used"),
        (
            changed,
            "has changed since it was added; its current content is used",
            "have changed since they were added; their current content is used",
        ),
    )
    notes = [
        f"{what}: {len(paths)} of {len(photos)} photos {one if len(paths) == 1 else several}. The first: {paths[0]}"
        for paths, one, several in cases
        if paths
    ]
    return [*map(FrnError, notes), *(key for key in keys if isinstance(key, FrnError) and not _is_missing(key))]
