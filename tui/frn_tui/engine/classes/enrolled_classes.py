"""Enrolled classes. A class is enrolled again only if its examples change, so adding one example is fast.

Shape letters: way classes, n examples of all classes together, k examples of a class, r locations, d channels.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import Maps
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import as_project_head
from frn.inference.enrollment import Enrollment, Keys, keys_of
from frn.inference.explanation import weights_of
from frn.inference.scorers import Comparison, Reconstruction, Scorer
from frn.inference.unknown.rule import Shares
from frn.projects.copies import KnownCopies, find_copies, without_copies
from frn.projects.session import ClassEntry, ProjectHead, State, without
from frn.ridge.enrolment import Array, Floats, allowed
from frn.ridge.parameters import probabilities
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import ChooseSearch, ChosenSearch, ClassReport, ClassReports, SetClasses
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.classes.subjects import CachingFinder, Subjects, unboxed
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

Value = TypeVar("Value")
SECONDS = 1.0  # seconds per call for leave-one-out errors of other heads; further examples wait for the next call
MAX_WEIGHTS, MAX_LEFT_OUT = 256 << 20, 50
"""Bytes of examples and their weights to keep: about 2,900 examples of the default model; largest class in which an
example is explained by the others."""
DISTANCE_WEIGHT = 0.5  # weight of the distances between mean locations in the order of misfits


class EnrolledClasses:
    """Enrollment of the app's classes. For one thread."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._forget()
        self._nothing = "no class has an example yet"  # reason why there are no classes

    def _forget(self) -> None:
        """Forget the classes of another model."""
        self._enrollment: Enrollment | None = None
        self._class_errors = ClassErrors()
        self._errors_of: tuple[float, float] | None = None  # alpha and beta with which they were enrolled
        self._copies: tuple[list[Keys], dict[str, str]] = [], {}
        """The examples of all classes, and those that are not used (`copies.find_copies`)."""
        self._known = KnownCopies()
        self._means: dict[Keys, Array] = {}  # mean location of each example, (k, d), by the keys of its class
        self._rows: dict[str, Array] = {}
        """Leave-one-out errors (way,) of the examples of the classes in use, for heads other than FRN's."""
        self._weights: ByteLimitedCache[Floats] = ByteLimitedCache(MAX_WEIGHTS)
        """Locations and weights (`explanation.weights_of`) of examples, (2, p, d), by their keys and the head."""
        self._current: Classifier | None = None
        self._of: list[Keys] | None = None  # the listed examples of the classes in use; None before calibration
        self._finder: CachingFinder | None = None
        self._subjects: Subjects | None = None  # the subjects of the photos, if they are searched for

    def head_for(self, state: State) -> ProjectHead | None:
        """Return the head to store in a project with these classes; None if different classes are in use."""
        current = self._current
        if current is None or current.extractor.head is None:
            return None
        if (self._of, current.state.search) != ([keys for keys in _groups(state) if keys], state.search):
            return None
        names = {entry.id: entry.name for entry in state.classes}
        classes = tuple(replace(entry, name=names.get(entry.id, entry.name)) for entry in current.state.classes)
        return as_project_head(current.head, replace(current.state, classes=classes), self.models.extractor)

    @property
    def current(self) -> Classifier:
        """Return a classifier of the classes in use. Raises FrnError if there are none, or of another model."""
        extractor = self.models.extractor
        if self._current is None or _model(self._current.extractor) != _model(extractor):
            raise FrnError(self._nothing)
        return self._current

    def nearest(self, entry: ClassEntry, key: str, maps: Maps) -> str:
        """Return the key of the example that a class rebuilds most of a photo (r, d) from.

        A photo with this key is not among the examples. The key is empty without others, for examples of large
        classes, which would take a linear system each, and with a head other than FRN's.
        """
        keys, head = keys_of(entry), self.current.head
        photos = tuple(other for other in keys if other != key)
        if self.current.other is not None or not photos or (photos != keys and len(photos) > MAX_LEFT_OUT):
            return ""
        if (both := self._weights.get((photos, head))) is None:
            rows = np.concatenate([self.models.known(other) for other in photos])
            both = np.stack([rows, weights_of(rows.astype(np.float64), head).astype(np.float32)])
            if photos == keys:
                self._weights.put((photos, head), both)
        rows, weights = both
        shares = ((maps @ weights.T) * (maps @ rows.T)).sum(0).reshape(len(photos), -1).sum(1)
        return photos[int(shares.argmax())]

    def read(self, job: Job, names: Iterable[str]) -> Iterator[tuple[str, Embedded | FrnError]]:
        """Yield feature maps of photos as they are classified: of their subjects, if these are searched for."""
        if self.current.state.search == "none" or self._subjects is None:
            return self.models.read(job, names)
        return self._subjects.read(self.current, job, names)

    def subjects(self, name: str, job: Job) -> list[str]:
        """Return the names of all subjects in a photo."""
        with self._searcher.serving(job):
            return [str(path) for path in self.current.subjects(Path(name))]

    def listed_key(self, key: str) -> str:
        """Return the content key of an example as the app lists it; that of its subject if it has no box."""
        return self._subjects.key(key) if self._subjects else key

    def _listed(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {self.listed_key(key): value for key, value in values.items()}

    @property
    def _searcher(self) -> CachingFinder:
        """Return what searches photos for their subject. Raises FrnError if the open model cannot."""
        self._finder = self._finder or CachingFinder(self.models.extractor)
        return self._finder

    def choose_search(self, request: ChooseSearch, job: Job) -> ChosenSearch:
        """Decide by leave-one-out whether to search for subjects. Raises FrnError if the model cannot."""
        extractor, state = self.models.extractor, request.state
        if self._finder and self._finder.extractor.sha256 != extractor.sha256:
            self._forget()
        if self.models.second:
            self.models.second.require_whole(state)
        listed = without(state, [str(s.path) for s in state.photos if self.models.state_of(s) == "missing"])
        classifier = Classifier(extractor, self.models.store, self.models.other, self._searcher)
        total = unboxed(listed) + sum(len(entry.supports) for entry in listed.classes if len(entry.supports) > 1)
        with self._searcher.serving(job, total):
            *_, why = classifier.enroll_state(replace(listed, search="auto"))
        return ChosenSearch(search=classifier.state.search, why=str(why))

    def set_classes(self, request: SetClasses, job: Job) -> ClassReports:
        """Enroll the classes of a state, without missing photos; if photos have to be read, nothing changes."""
        extractor, second, before = self.models.extractor, self.models.second, self._current
        if second:
            second.require_whole(request.state)
        if before is not None and _model(before.extractor) != _model(extractor):
            self._forget()
            before = None
        states: dict[str, str] = {}
        for photo in request.state.photos:
            job.check()
            states[str(photo.path)] = self.models.state_of(photo)
        away = [path for path, kind in states.items() if kind == "missing"]
        state = without(request.state, away)
        state = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        maps_of = {photo.key: self.models.find(photo.key) for photo in state.photos}
        again = {key: self.models.find(key, second.closer.extractor) for key in maps_of} if second else maps_of
        absent = {key for key in maps_of if maps_of[key] is None or again[key] is None}
        unread = [str(p.path) for p in state.photos if p.key in absent or states[str(p.path)] == "to read"]
        of, listed = _groups(state), state
        if state.search == "none" or not of:
            self._subjects = None
        elif not unread:
            self._subjects = self._subjects or Subjects(self.models, self._searcher)
            state = listed = self._subjects.examples(state, job)
            maps_of |= {photo.key: self.models.find(photo.key) for photo in state.photos}
        copies = {} if unread else self._find_copies(state)
        state = without_copies(state, copies)
        state = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        groups = _groups(state)
        maps = {key: each for keys in groups for key in keys if (each := maps_of[key]) is not None}
        others = {other.key: each for other in state.others if (each := maps_of[other.key]) is not None}
        reasons = ((away, "all example photos are missing. R finds them"), (copies, "every example is in two classes"))
        self._nothing = next((why for photos, why in reasons if photos), "no class has an example yet")
        if unread or not groups:
            self._current = self._current if groups else None
            return ClassReports(
                reports=[], threshold=state.threshold or 0.0, known={}, expected="", unread=unread, away=away,
                unranked=0, boxes={},
            )  # fmt: skip
        keys = [key for group in groups for key in group]
        self._means = {
            group: means
            if (means := self._means.get(group)) is not None
            else np.stack([maps[key].mean(0, dtype=np.float64) for key in group])
            for group in groups
        }
        subjects = self._subjects
        classifier = Classifier(
            extractor, self.models.store, self.models.other, subjects.finder if subjects else None, second
        )
        classifier.lesson = before.lesson if before else None
        classifier.enrollment = self._enrollment = self._enrollment or classifier.enrollment
        classifier.looks = looks = {key: self.models.looks[key] for key in maps}
        state, waiting = classifier.remember_photos(state), 0
        form = classifier.hold(state, maps, job.check)
        if before is None or _groups(before.state) != groups:
            self._rows = {}
        energies = classifier.scorer.energy(np.stack([maps[key] for key in keys]))
        errors = self._errors(classifier.scorer, groups, maps, energies, job.check)
        distances = classifier.scorer.distances(np.concatenate([*self._means.values()])[:, None], keys)
        places = {key: place for place, key in enumerate(keys) if np.isfinite(errors[place]).all()}
        counted = [photo.key for photo in classifier.left_out_photos if photo.key in places]
        rows = [places[key] for key in counted]
        classifier.left_out = classifier.left_out_of(counted, (errors[rows], energies[rows], distances[rows]))
        if subjects and form is not None:
            if not classifier.use_stored(state):
                waiting = subjects.left_out(classifier, state, form, maps, job)
            if not waiting:
                counted = [photo.key for photo in classifier.left_out_photos]
            photos = [str(other.path) for other in state.others]
            read = [outcome for _, outcome in subjects.read(classifier, job, photos)]
            others = {each.key: each.maps for each in read if isinstance(each, Embedded)}
        classifier.threshold_override, classifier.looks = state.threshold, looks  # those of a stored form may be empty
        classifier.mark_others(others)
        origin = "; lambda and gamma come from the project" if classifier.uses_project_head else ""
        if second:
            classifier.maps = maps
            closer_maps = {key: each for key, each in again.items() if each is not None}
            origin += f"; {second.enroll(classifier, closer_maps)}"
        self._current, self._of = classifier, None if waiting else of
        shares = classifier.leave_one_out or {
            entry.name: (1 - of_class[:, column]).clip(0)
            for column, (entry, of_class) in enumerate(zip(state.classes, np.split(errors, _ends(groups)), strict=True))
            if len(of_class) > 1
        }
        return {
            "reports": self._report(listed, state, shares, errors, distances, classifier.head.gamma),
            "threshold": classifier.threshold,
            "known": dict(zip(map(self.listed_key, counted), classifier.calibration.known.tolist(), strict=True)),
            "expected": classifier.calibration.describe() + origin,
            "unread": [],
            "away": away,
            "unranked": max(int(np.isnan(errors).any(1).sum()), waiting),
            "boxes": subjects.boxes if subjects else {},
        }

    def _errors(
        self, scorer: Scorer, groups: Sequence[Keys], maps: Mapping[str, Maps], energies: Shares, check: Check
    ) -> Array:
        """Return the leave-one-out errors (n, way) of examples; those that must wait are NaN.

        With other heads, the first examples of all classes come first, so that the threshold is calibrated on all.
        """
        keys = [key for group in groups for key in group]
        if isinstance(scorer, Comparison):
            until, waiting = time.monotonic() + SECONDS, np.full(len(groups), np.nan)
            order = {key: place for group in groups for place, key in enumerate(group)}
            for key in sorted(keys, key=order.__getitem__):
                if key not in self._rows and time.monotonic() < until:
                    check()
                    self._rows[key] = scorer.errors_without(maps[key], key)
            return np.stack([self._rows.get(key, waiting) for key in keys])
        assert isinstance(scorer, Reconstruction)  # there are two kinds
        if self._errors_of != (head := (scorer.head.alpha, scorer.head.beta)):
            self._class_errors, self._errors_of = ClassErrors(), head
        classes = list(scorer.classes.values())
        errors = self._class_errors.errors(groups, classes, maps, check)
        shares = np.array([one.allowance.share for one in classes])
        errors += allowed(errors, energies[:, None], shares, classes[0].allowance.usual)  # as `ClassScorer.class_error`
        scorer.leave_out(errors, keys, energies.__getitem__)
        return errors

    def _find_copies(self, state: State) -> dict[str, str]:
        """Return the examples that are not used, because they are copies."""
        groups = _groups(state)
        if self._copies[0] != groups:
            self._copies = groups, find_copies(state, self.models.looks, self._known)
        return self._copies[1]

    def _report(
        self, listed: State, state: State, shares: Mapping[str, Shares], errors: Array, distances: Array, gamma: float
    ) -> list[ClassReport]:
        near = {other: key for key, other in self._copies[1].items()} | self._copies[1]
        ids = [entry.id for entry in state.classes]
        ends = _ends(_groups(state))
        parts = zip(np.split(errors, ends), np.split(distances, ends), strict=True)
        nothing: list[ClassReport] = [
            {"id": entry.id, "explained": {}, "rank": {}, "rival": {}, "near": {}} for entry in listed.classes
        ]
        reports = {report["id"]: report for report in nothing}
        for column, (entry, (rows, away)) in enumerate(zip(state.classes, parts, strict=True)):
            keys, shares_of = keys_of(entry), shares.get(entry.name, np.zeros(0))
            ranks, rivals = _compare(keys, rows, away, column, shares_of, ids, gamma)
            explained = {key: share for key, share in zip(keys, shares_of.tolist(), strict=False) if share == share}
            reports[entry.id]["explained"] = self._listed(explained)
            reports[entry.id]["rank"], reports[entry.id]["rival"] = self._listed(ranks), self._listed(rivals)
        for entry in listed.classes:  # also those whose photos are all in another class
            copies = {key: self.listed_key(near[key]) for key in keys_of(entry) if key in near}
            reports[entry.id]["near"] = self._listed(copies)
        return nothing


def _model(extractor: Extractor) -> tuple[str, str]:
    return extractor.sha256, extractor.tta


def _groups(state: State) -> list[Keys]:
    return [keys_of(entry) for entry in state.classes]


def _ends(groups: Sequence[Keys]) -> NDArray[np.intp]:
    """Return the numbers of the first examples of all classes but the first."""
    return np.cumsum([len(group) for group in groups])[:-1]


def _compare(
    keys: Keys, errors: Array, distances: Array, column: int, shares: Shares, ids: Sequence[int], gamma: float
) -> tuple[dict[str, int], dict[str, tuple[int, float, float, float]]]:
    """Return the number of classes that reconstruct each example better than the rest of its own; and its rival.

    The errors and distances are (k, way), those of the own class by its other examples. A rival is the best other class
    if it beats the example's own, with its lead, with how likely a mistake the example is: distances of mean locations
    find some that errors alone rank low, and with its probability.
    """
    if len(keys) < 2:
        return {}, {}
    of_own, others, away = errors[:, column], errors.copy(), distances.copy()
    others[:, column] = away[:, column] = np.inf
    counts, known = np.less(others, of_own[:, None]).sum(1), np.isfinite(errors.sum(axis=1))
    ranks = {key: int(counts[row]) for row, key in enumerate(keys) if known[row]}
    rivals = {}
    for row, key in enumerate(keys):
        if ranks.get(key):
            best = int(others[row].argmin())
            lead = float((of_own[row] - others[row, best]) / max(of_own[row], 1e-12) * (1 - shares[row]))
            nearer = float(distances[row, column] - away[row].min())
            chance = float(probabilities(errors[row], gamma)[best])
            rivals[key] = ids[best], lead, lead + DISTANCE_WEIGHT * nearer, chance
    return ranks, rivals
