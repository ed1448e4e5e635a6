"""Classifier from a few images per class: it assigns a query to the enrolled class that reconstructs it best."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, tee
from operator import is_not
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import MISSING, Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.images.near_copies import Looks, nearest_copies
from frn.inference.enrolled_form import (
    EnrolledForm,
    are_alike,
    as_project_head,
    describes,
    form_key,
    from_bytes,
    head_of,
    store_copies,
    store_head,
    stored_copies,
    stored_head,
    to_bytes,
)
from frn.inference.records import Prediction as Prediction
from frn.inference.unknown import (
    FALSE_REJECTIONS,
    Calibration,
    RejectRule,
    Shares,
    calibrate,
    explained,
    familiarity,
    stride,
    without_itself,
)
from frn.projects.session import (
    ClassEntry,
    State,
    Support,
    build_state,
    describe_copies,
    find_copies,
    in_two_classes,
    without_copies,
)
from frn.ridge.enrolment import Array, ClassScorer, EnrolledClass, Floats, energy, enroll, left_out_location_error
from frn.ridge.parameters import HeadParameters, probabilities
from frn.ridge.tuning import tune_by_leave_one_out
from frn.ridge.unequal import allowances, without_one
from frn.ridge.unlabelled.transductive import refine

CHUNK = 64
"""Number of examples that are compared with all classes at once."""


class Classifier:
    """An extractor with enrolled classes. Classes may have different numbers of images."""

    def __init__(
        self, extractor: Extractor, store: FeatureStore | None = None, head: HeadParameters | None = None
    ) -> None:
        """Start without classes. The store keeps the feature maps of example images from one run to the next.

        Raises FrnError if neither the extractor nor `head` gives the learned parameters of FRN's head.
        """
        head = head or extractor.head
        if head is None:
            raise FrnError(
                f"this model was trained as {extractor.method}, but classes are enrolled by reconstruction. "
                "Use one trained with --method frn."
            )
        self.extractor = extractor
        self.store = store
        self.head = head
        """Alpha, beta and gamma; chosen again whenever the classes change (`ridge.tuning`)."""
        self.uses_project_head = False
        """True if the head is the project's (`State.head`) and differs from the one that these examples would get."""
        self.state = State()
        self.threshold_override: float | None = None
        """Fraction of an image that a class must reconstruct; None calibrates the rule on the examples."""
        self.false_rejections = FALSE_REJECTIONS
        """Fraction of known images that the calibrated rule rejects."""
        self.classes: dict[str, EnrolledClass] = {}
        self.maps: Mapping[str, Maps] | None = None
        """Feature maps (r, d) of the examples by content key; None until they are needed."""
        # These are parts of the enrolled form, which describes them.
        self.leave_one_out: dict[str, Shares] = {}
        self.looks: dict[str, bytes] = {}
        self.copies: dict[str, str] = {}
        """Photos of the classes that are not used, because they are copies (`session.find_copies`)."""
        self._looks: tuple[State, list[tuple[Looks, list[Support]]]] | None = None
        """The looks and the examples of each class, of this state."""
        self._own_errors: dict[str, tuple[str, Array]] = {}
        self._scorer: ClassScorer | None = None
        self.left_out: tuple[Array, NDArray[np.intp], Shares, Array] | None = None
        self.other_maps: Mapping[str, Maps] = {}
        """Feature maps (r, d), by content key, of photos that the user marked as none of the classes."""
        self.others: Shares | None = None
        """Familiarity of these photos."""
        self._calibration: tuple[tuple[object, ...], Calibration] | None = None
        """The last calibration, with its arguments."""

    @property
    def rule(self) -> RejectRule:
        """Rule that decides whether an image is unknown."""
        return self.calibration.rule if self.threshold_override is None else RejectRule(self.threshold_override)

    @property
    def threshold(self) -> float:
        """Fraction of an image that a class must typically reconstruct for the image to be known."""
        return self.calibration.typical if self.threshold_override is None else self.threshold_override

    @property
    def calibration(self) -> Calibration:
        """Rule calibrated on the examples, and its expected error rates."""
        if self.left_out is None:
            raise FrnError("no classes yet: enroll some first")
        given = (*self.left_out, self.false_rejections, self.others)
        if self._calibration is None or any(map(is_not, given, self._calibration[0])):
            self._calibration = given, calibrate(*given)
        return self._calibration[1]

    def enroll(self, classes: Mapping[str, Sequence[Path]], others: Sequence[Path] = ()) -> list[FrnError]:
        """Enroll image files as classes, replacing earlier ones, and `others` as photos of no class.

        Everything else is as for `enroll_state`.
        """
        return self._enroll(listed_state(classes, others))

    def enroll_state(self, state: State) -> list[FrnError]:
        """Enroll the classes of a session or project that have photos. This is how every door opens classes.

        The current content of a photo counts, whatever is stored. Photos whose files have not changed since they were
        last read are not opened if their maps are stored. A missing photo is not used, and neither is a class that
        has only missing ones.

        Returns what to report: for each class, how many photos are missing or have changed; why others were skipped
        (unreadable, or repeated); whether the head comes from the project. Raises FrnError if all photos of
        all classes are missing, or a class has photos, but none that can be read.
        """
        notes = self._enroll(replace(state, classes=tuple(entry for entry in state.classes if entry.supports)))
        self.threshold_override = state.threshold
        return notes

    def _enroll(self, listed: State) -> list[FrnError]:
        paths = [support.path for entry in listed.classes for support in entry.supports]
        state, notes = _usable(listed, self.extractor.keys(paths, self.store))
        copies = stored_copies(self.store, state, self.extractor)
        if copies is None or not self._use_stored(without_copies(state, copies)):
            outcomes = [outcome for _, outcome in self.extractor.read(paths, store=self.store)]
            state, copies, notes = usable_examples(listed, outcomes)
            found = {each.key: each for each in outcomes if isinstance(each, Embedded)}
            used = without_copies(state, copies)
            self.looks = {key: found[key].look for key in used.holders()}
            self.adopt(used, {key: each.maps for key, each in found.items()})
            store_copies(self.store, state, self.extractor, copies)
        else:
            notes += describe_copies(state, copies)
        self.copies = copies
        if self.uses_project_head:
            notes.append(FrnError("lambda and gamma come from the project; `frn enroll` chooses them for its photos"))
        return notes + (self._read_others(listed.others) if listed.others else [])

    def _read_others(self, photos: Sequence[Support]) -> list[FrnError]:
        """Calibrate with photos that belong to none of the classes; those that are examples do not count."""
        read = [found for _, found in self.extractor.read([photo.path for photo in photos], store=self.store)]
        keys = [found if isinstance(found, FrnError) else found.key for found in read]
        current = [
            photo if isinstance(key, FrnError) else Support.of(photo.path, key)
            for photo, key in zip(photos, keys, strict=True)
        ]
        holders = self.state.holders()
        others = {photo.key: photo for photo in current if photo.key and photo.key not in holders}
        self.state = replace(self.state, others=tuple(others.values()))
        self.mark_others({f.key: f.maps for f in read if not isinstance(f, FrnError) and f.key in others})
        return _describe("photos of no class", photos, keys)

    def mark_others(self, maps: Mapping[str, Maps]) -> None:
        """Calibrate with maps (r, d), by content key, of photos that belong to none of the classes."""
        self.other_maps = maps
        self.others = self.familiarity(np.stack([*maps.values()])) if maps else None

    def familiarity(self, maps: Maps) -> Shares:
        """Return how familiar maps (n, r, d) of photos that are no examples are to the classes, (n,)."""
        keys = [None] * len(maps)
        return familiarity(self._class_errors(maps, keys), self.energy(maps), self._distances(maps, keys))

    def _use_stored(self, state: State) -> bool:
        """Use the classes of a state if they are stored; return whether they are."""
        if self.store is None or (tuned := stored_head(self.store, state, self.extractor)) is None:
            return False
        head = head_of(state, self.extractor) or tuned
        key = form_key(state, self.extractor, head)
        form = from_bytes(self.store.get_bytes(self.extractor.sha256, key), key, EnrolledForm)
        if form is None or form.head != head or not describes(form, state, self.extractor):
            return False
        self.use(state, form)
        self.uses_project_head = not are_alike(head, tuned)
        return True

    def use(self, state: State, form: EnrolledForm, scorer: ClassScorer | None = None) -> None:
        """Use classes that are already enrolled, and their scorer if there is one."""
        self.head = form.head
        self.state = replace(state, head=as_project_head(form.head, state, self.extractor))
        self.classes, self.leave_one_out, self._own_errors = form.classes, form.leave_one_out, form.own_errors
        self.left_out, self.looks = form.left_out, form.looks
        self._scorer, self.maps = scorer, None
        self.mark_others({})

    def adopt(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Enroll the classes of a state from feature maps (r, d), given by content key."""
        if self._use_stored(state):
            return

        def pool(entry: ClassEntry) -> Maps:
            return np.stack([feature_maps[support.key] for support in entry.supports])

        tuned = tune_by_leave_one_out([pool(entry) for entry in state.classes], self.extractor.prior)
        head = head_of(state, self.extractor) or tuned
        more = allowances([pool(entry) for entry in state.classes], head)
        classes, shares = {}, {}
        own_errors: dict[str, tuple[str, Array]] = {}
        for entry, allowance in zip(state.classes, more, strict=True):  # one by one, to save memory
            maps = pool(entry)
            classes[entry.name] = replace(enroll(maps, head), allowance=allowance)
            errors = left_out_location_error(maps, head)
            if len(maps) > 1:
                shares[entry.name] = explained(errors.mean(1)[:, None], energy(maps))[:, 0]
            own_errors |= {support.key: (entry.name, row) for support, row in zip(entry.supports, errors, strict=True)}
        form = EnrolledForm(head, classes, shares, own_errors, None, self.looks)
        self.use(state, form)
        self.left_out = self._leave_out(feature_maps)
        self.uses_project_head = not are_alike(head, tuned)
        if self.store is not None and classes:
            store_head(self.store, state, self.extractor, tuned)
            key = form_key(state, self.extractor, head)
            with suppress(UnicodeEncodeError):  # MessagePack stores no class name that is not UTF-8
                data = to_bytes(replace(form, left_out=self.left_out), key)
                self.store.put_bytes(self.extractor.sha256, key, data)

    def _leave_out(self, feature_maps: Mapping[str, Maps]) -> tuple[Array, NDArray[np.intp], Shares, Array]:
        """Return leave-one-out errors (n, way) of examples, their classes, energies and distances (n, way).

        Only examples of classes with at least two are used.
        """
        places = {entry.name: label for label, entry in enumerate(self.state.classes)}
        keys = [(places[self._own_errors[support.key][0]], support.key) for support in self.left_out_photos]
        errors, energies = [np.zeros((0, len(self.classes)))], [np.zeros(0)]
        distances = [np.zeros((0, len(self.classes)))]
        for start in range(0, len(keys), CHUNK):
            chunk = [key for _, key in keys[start : start + CHUNK]]
            maps = np.stack([feature_maps[key] for key in chunk])
            errors.append(self._class_errors(maps, chunk))
            energies.append(self.energy(maps))
            distances.append(self._distances(maps, chunk))
        labels = np.array([label for label, _ in keys], dtype=np.intp)
        return np.concatenate(errors), labels, np.concatenate(energies), np.concatenate(distances)

    @property
    def left_out_photos(self) -> list[Support]:
        """Return the examples for leave-one-out: all in classes of two or more, or an even selection of many."""
        supports = [s for entry in self.state.classes if len(entry.supports) > 1 for s in entry.supports]
        return supports[:: stride(len(supports))]

    def classify(
        self, paths: Iterable[Path], *, transductive: bool = False
    ) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files, in order; an unreadable file yields its error, and the others are still classified.

        With `transductive`, all images refine the classes before the first answer.
        """
        asked, read = tee(self.extractor.read(paths))
        answers = self.answers((found for _, found in read), transductive=transductive)
        yield from zip((path for path, _ in asked), answers, strict=True)

    def answers(
        self, embedded: Iterable[Embedded | FrnError], *, transductive: bool = False
    ) -> Iterator[Prediction | FrnError]:
        """Yield predictions of embedded images, a batch at a time; examples are scored by leave-one-out."""
        remaining = iter(embedded)
        while batch := list(islice(remaining, None if transductive else self.extractor.batch)):
            found = [outcome for outcome in batch if isinstance(outcome, Embedded)]
            maps, keys = [each.maps for each in found], [each.key for each in found]
            looks = [each.look for each in found]
            predictions = iter(self.predict_all(maps, keys, looks, transductive=transductive))
            for outcome in batch:
                yield outcome if isinstance(outcome, FrnError) else next(predictions)

    def near_copies(self, looks: Sequence[bytes], feature_maps: Sequence[Maps]) -> list[Support | None]:
        """Return the example that each image, with its map (r, d), is a near copy of, or None.

        The feature maps find the class whose examples are compared: that of the original reconstructs a copy best.
        """
        if not self.looks:  # the classes were adopted without looks
            return [None] * len(looks)
        if self._looks is None or self._looks[0] is not self.state:
            groups = [[s for s in entry.supports if s.key in self.looks] for entry in self.state.classes]
            self._looks = self.state, [(Looks([self.looks[s.key] for s in group]), group) for group in groups]
        columns = self._class_errors(np.stack(feature_maps), [None] * len(looks)).argmin(1)
        copies: list[Support | None] = []
        for seen, column in zip(looks, columns.tolist(), strict=True):
            examples, supports = self._looks[1][column]
            (place,) = nearest_copies(Looks([seen]), examples)
            copies.append(None if place is None else supports[place])
        return copies

    def example_maps(self) -> Mapping[str, Maps]:
        """Return the feature maps (r, d) of every example by content key; most are in the store.

        Raises FrnError if an example cannot be read, or has changed since it was enrolled.
        """
        if self.maps is None:
            sha256, shape = self.extractor.sha256, self.extractor.shape
            stored = {key: self.store and self.store.get(sha256, key, shape) for key in self.state.holders()}
            maps = {key: found[0] for key, found in stored.items() if found}
            known = {s.path: s.key for entry in self.state.classes for s in entry.supports if s.key not in maps}
            for path, outcome in self.extractor.read(known, store=self.store):
                if isinstance(outcome, FrnError):
                    raise outcome
                if outcome.key != known[path]:
                    raise FrnError(f"{path}: has changed since the classes were loaded. Load them again.")
                maps[outcome.key] = outcome.maps
            self.maps = maps
        return self.maps

    def predict(self, feature_maps: Maps, key: str | None = None, look: bytes | None = None) -> Prediction:
        """Classify one feature map (r, d). If its content key is that of an example, it is scored by leave-one-out."""
        return self.predict_all([feature_maps], [key], None if look is None else [look])[0]

    def predict_all(
        self,
        feature_maps: Sequence[Maps],
        keys: Sequence[str | None],
        looks: Sequence[bytes] | None = None,
        *,
        transductive: bool = False,
    ) -> list[Prediction]:
        """Classify feature maps (r, d); examples, recognised by their content keys, are scored by leave-one-out.

        Near copies of examples are recognised by their perceptual hashes.

        With `transductive`, the maps that are not examples refine the classes.
        """
        if not len(feature_maps):
            return []
        maps = np.stack(feature_maps)
        errors, whole = self._class_errors(maps, keys), self.energy(maps)
        distances = self._distances(maps, keys)
        known, familiar = explained(errors, whole), familiarity(errors, whole, distances)
        thresholds = self.rule.thresholds(errors, whole, distances)
        errors, gamma = self._refined(errors, maps, keys) if transductive else (errors, self.head.gamma)
        shares = probabilities(errors, gamma)
        twins = self.near_copies(looks, feature_maps) if looks is not None else [None] * len(maps)

        def by_class(row: NDArray[np.floating]) -> dict[str, float]:
            return dict(zip(self.classes, row.tolist(), strict=True))

        return [
            Prediction(
                by_class(share),
                by_class(error),
                by_class(explains),
                float(threshold),
                float(near),
                example,
                None if example else twin,
                transductive,
                key,
            )
            for share, error, explains, threshold, near, example, twin, key in zip(
                shares, errors, known, thresholds, familiar, map(self.example_of, keys), twins, keys, strict=True
            )
        ]

    def example_of(self, key: str | None) -> str | None:
        """Return the class that has the image with this content key among its examples."""
        return self._own_errors[key][0] if key in self._own_errors else None

    def error_maps(self, feature_maps: Maps, key: str | None = None) -> Floats:
        """Return the squared error of each location by each class, (r, d) to (way, h, w); examples by leave-one-out."""
        error = self.scorer.location_error(feature_maps[None])[0]
        if key in self._own_errors:
            name, own = self._own_errors[key]
            error[:, list(self.classes).index(name)] = own
        return self.extractor.on_grid(error.T)

    def energy(self, maps: Maps) -> Shares:
        """Return the energies (n,) of maps (n, r, d)."""
        return energy(maps)

    def _class_errors(self, maps: Maps, keys: Sequence[str | None]) -> Array:
        """Return class errors (n, way) of maps (n, r, d); examples by leave-one-out."""
        errors = self.scorer.class_error(maps).astype(np.float64)
        columns = {name: column for column, name in enumerate(self.classes)}
        counts = {entry.name: len(entry.supports) for entry in self.state.classes}
        least = min(counts.values())
        for row, key in enumerate(keys):
            if key in self._own_errors:
                name, own = self._own_errors[key]
                more = without_one(self.classes[name].allowance, counts[name], least)
                errors[row, columns[name]] = own.mean() + (more * energy(maps[row, None])[0] if more else 0.0)
        return errors

    def _distances(self, maps: Maps, keys: Sequence[str | None]) -> Array:
        """Return distances (n, way) from maps (n, r, d) to the classes' centres; examples by leave-one-out."""
        columns = {name: column for column, name in enumerate(self.classes)}
        labels = [columns[self._own_errors[key][0]] if key in self._own_errors else None for key in keys]
        counts = [len(entry.supports) for entry in self.state.classes]
        return without_itself(self.scorer.centres.distance(maps), labels, counts)

    def _refined(self, errors: Array, maps: Maps, keys: Sequence[str | None]) -> tuple[Array, float]:
        """Return errors (n, way) of classes that the maps (n, r, d) refine, and gamma; examples keep their errors."""
        first: dict[object, int] = {}  # a photo that is listed twice refines the classes once
        for row, key in enumerate(keys):
            if key not in self._own_errors:
                first.setdefault(row if key is None else key, row)
        if not first:
            return errors, self.head.gamma
        queries = list(first.values())
        examples = self.example_maps()
        pools = [np.stack([examples[s.key] for s in entry.supports]) for entry in self.state.classes]
        refined, gamma = refine(errors[queries], pools, maps[queries], self.head)
        errors[queries] = refined + self.scorer.allowed(energy(maps[queries]))
        for row, key in enumerate(keys):
            errors[row] = errors[first.get(key, row)]
        return errors, gamma

    @property
    def scorer(self) -> ClassScorer:
        """Return the scorer for all classes together."""
        if self._scorer is None:
            if not self.classes:
                raise FrnError("no classes yet: enroll some first")
            self._scorer = ClassScorer(list(self.classes.values()))
        return self._scorer


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
    state, notes = _usable(listed, [each if isinstance(each, FrnError) else each.key for each in outcomes])
    copies = find_copies(state, {each.key: each.look for each in outcomes if isinstance(each, Embedded)})
    return state, copies, notes + describe_copies(state, copies)


def _usable(listed: State, keys: Sequence[str | FrnError]) -> tuple[State, list[FrnError]]:
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
    found = [[next(remaining) for _ in entry.supports] for entry in listed.classes]
    supports = [
        [Support.of(s.path, key) for s, key in zip(entry.supports, own, strict=True) if not isinstance(key, FrnError)]
        for entry, own in zip(listed.classes, found, strict=True)
    ]
    names = [entry.name for entry in listed.classes]
    shared = in_two_classes(names, supports)
    state, duplicates = build_state(
        (name, [s for s in each if s.key not in shared]) for name, each in zip(names, supports, strict=True)
    )
    classes, notes = [], list[FrnError]()
    for entry, own, usable in zip(listed.classes, found, state.classes, strict=True):
        if not usable.supports and not (own and all(map(_is_missing, own))):
            tried = {support.path for support in entry.supports}
            broken = [str(key) for key in own if isinstance(key, FrnError)]
            reasons = broken + [str(each) for each in duplicates if each.path in tried]
            reasons += [str(shared[key]) for key in own if not isinstance(key, FrnError) and key in shared]
            why = f" The first: {reasons[0]}" if reasons else ""
            raise FrnError(f"class {usable.name!r} has no usable image among {len(own)} files.{why}")
        notes += _describe(f"class {usable.name!r}", entry.supports, own)
        if usable.supports:  # with surrounding blanks removed from the name
            classes.append(replace(entry, name=usable.name, supports=usable.supports))
    return replace(listed, classes=tuple(classes)), [*notes, *map(FrnError, map(str, duplicates)), *shared.values()]


def _is_missing(key: str | FrnError) -> bool:
    return isinstance(key, FrnError) and key.code == MISSING


def _describe(what: str, photos: Sequence[Support], keys: Sequence[str | FrnError]) -> list[FrnError]:
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
