"""Enrolled classes. A class is enrolled again only if its examples change, so adding one example is fast.

Shape letters: way classes, n examples of all classes together, k examples of a class, r locations, d channels.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.feature_cache import Maps
from frn.inference.any_head import OtherHeadClassifier
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import EnrolledForm, are_alike, as_project_head, head_of, store_head, stored_head
from frn.inference.unknown import Shares, explained, stride, without_itself
from frn.projects.session import ClassEntry, ProjectHead, Sets, State, find_copies, without, without_copies
from frn.ridge.enrolment import Array, Centres, EnrolledClass, energy, enroll, left_out_location_error
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_by_leave_one_out
from frn.ridge.unequal import allowances, without_one
from frn_tui.client.protocol import ClassReport, ClassReports, SetClasses
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

Keys = tuple[str, ...]
LeaveOneOut = tuple[Array, NDArray[np.intp], Shares, Array]
SECONDS = 1.0
"""Seconds per call for the leave-one-out errors of heads other than FRN's; further examples wait for the next call."""
DISTANCE_WEIGHT = 0.5
"""Weight of the distances between mean locations in the order of misfits."""


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """An enrolled class, independent of its name."""

    enrolled: EnrolledClass
    own_errors: Array
    """Leave-one-out errors of every location of each example, (k, r)."""
    left_out_shares: Shares
    """Fraction of each example that the rest of the class explains, (k,); empty for a single one."""
    means: Array
    """Mean location of each example, (k, d)."""


def enroll_class(maps: Maps, head: HeadParameters) -> ClassRecord:
    """Enroll the examples of a class, (k, r, d), and compute their leave-one-out errors."""
    errors = left_out_location_error(maps, head)
    shares = explained(errors.mean(1)[:, None], energy(maps))[:, 0] if len(maps) > 1 else np.zeros(0)
    return ClassRecord(enroll(maps, head), errors, shares, maps.mean(1, dtype=np.float64))


class EnrolledClasses:
    """Enrollment of the app's classes. For one thread."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._records: dict[Keys, ClassRecord] = {}
        self._nothing = "no class has an example yet"
        """Reason why there are no classes."""
        self._origin = ""
        """Remark on a head that comes from the project."""
        self._head: HeadParameters | None = None
        """Head with which they were enrolled."""
        self._class_errors = ClassErrors()
        self._copies: tuple[list[Keys], dict[str, str]] = [], {}
        """The examples of all classes, and those that are not used (`session.find_copies`)."""
        self._sets: Sets = {}
        self._rows: dict[str, Array] = {}
        """Leave-one-out errors (way,) of the examples of the classes in use, for heads other than FRN's."""
        self._current: Classifier | None = None
        self._tuned: tuple[list[Keys], HeadParameters] | None = None
        """The head that was last chosen for the classes of a model, with these classes."""

    def head_for(self, state: State) -> ProjectHead | None:
        """Return the head to store in a project with these classes; None if different classes are in use."""
        current = self._current
        if current is None or current.extractor.head is None:
            return None
        listed, copies = self._copies
        used = without_copies(state, copies)
        if [listed, _groups(current.state)] != [[keys for keys in _groups(each) if keys] for each in (state, used)]:
            return None
        return as_project_head(current.head, used, self.models.extractor)

    @property
    def current(self) -> Classifier:
        """Return a classifier of the classes in use. Raises FrnError if there are none, or of another model."""
        extractor = self.models.extractor
        if self._current is None or self._current.extractor.sha256 != extractor.sha256:
            raise FrnError(self._nothing)
        return self._current

    def nearest(self, entry: ClassEntry, key: str, maps: Maps) -> str:
        """Return the key of the class's example whose mean location has the direction most similar to a photo's.

        A photo (r, d) with this key is not compared with itself; without other examples, the key is empty.
        """
        means = self._records[keys_of(entry)].means
        likeness = means @ maps.mean(0) / np.linalg.norm(means, axis=1).clip(1e-12)
        others = [pair for pair in zip(likeness.tolist(), keys_of(entry), strict=True) if pair[1] != key]
        return max(others, default=(0.0, ""), key=lambda pair: pair[0])[1]

    def set_classes(self, request: SetClasses, job: Job) -> ClassReports:
        """Enroll the classes of a state, without missing photos; if photos have to be read, nothing changes."""
        extractor, before = self.models.extractor, self._current
        if before is not None and before.extractor.sha256 != extractor.sha256:
            self._current = self._head = self._tuned = before = None
            self._records, self._copies, self._sets = {}, ([], {}), {}
        states: dict[str, str] = {}
        for photo in request.state.photos:
            job.check()
            states[str(photo.path)] = self.models.state_of(photo)
        away = [path for path, found in states.items() if found == "missing"]
        state = without(request.state, away)
        state = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        listed = state
        found = {photo.key: self.models.find(photo.key) for photo in state.photos}
        unread = [str(p.path) for p in state.photos if found[p.key] is None or states[str(p.path)] == "to read"]
        copies = {} if unread else self._find_copies(state)
        state = without_copies(state, copies)
        state = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        groups = _groups(state)
        maps = {key: each for keys in groups for key in keys if (each := found[key]) is not None}
        others = {other.key: each for other in state.others if (each := found[other.key]) is not None}
        reasons = ((away, "all example photos are missing. R finds them"), (copies, "every example is in two classes"))
        self._nothing = next((why for photos, why in reasons if photos), "no class has an example yet")
        if unread or not groups:
            self._current = self._current if groups else None
            return ClassReports(
                reports=[], threshold=state.threshold or 0.0, calibrated=0.0, expected="", unread=unread, away=away,
                unranked=0,
            )  # fmt: skip
        same = before is not None and _groups(before.state) == groups
        classifier: Classifier
        if isinstance(other := self.models.head, OtherHeadClassifier):
            classifier = OtherHeadClassifier(extractor, other.logits, self.models.store, other.graph)
            classifier.hold(state, maps)
            self._rows = self._rows if same else {}
            records, errors = self._compare_all(classifier, groups, maps, job.check)
            distances = np.ones(errors.shape)
            owns = np.concatenate([record.own_errors.mean(1) for record in records])
            energies = classifier.energy(np.stack([maps[key] for keys in groups for key in keys]))
            classifier.left_out = _left_out(groups, owns, energies, errors, distances)
        else:
            head = self._choose_head(state, groups, maps)
            records = _allow(self._enroll(groups, maps, head, job.check), groups, maps, head)
            enrolled = [record.enrolled for record in records]
            energies = energy(np.stack([maps[key] for keys in groups for key in keys]))
            errors = self._class_errors.errors(groups, enrolled, maps, job.check)
            owns = np.concatenate([record.own_errors.mean(1) for record in records])
            if any(one.allowance for one in enrolled):  # as in `ClassScorer.class_error`
                errors += energies[:, None] * [one.allowance for one in enrolled]
                owns += energies * np.repeat(_allowances_without_one(records), [len(keys) for keys in groups])
            distances = _distances(records)
            classifier = Classifier(extractor, self.models.store, head)
            left_out = _left_out(groups, owns, energies, errors, distances)
            scorer = before.scorer if before and same and before.head == head else None
            classifier.use(state, _form(head, state, records, left_out), scorer)
        classifier.threshold_override = state.threshold
        classifier.looks = {key: self.models.looks[key] for key in maps}
        classifier.mark_others(others)
        self._current = classifier
        return {
            "reports": self._report(listed, state, records, owns, errors, distances),
            "threshold": classifier.threshold,
            "calibrated": classifier.calibration.typical,
            "expected": classifier.calibration.describe() + self._origin,
            "unread": [],
            "away": away,
            "unranked": int(np.isnan(errors).any(1).sum()),
        }

    def _choose_head(self, state: State, groups: Sequence[Keys], maps: dict[str, Maps]) -> HeadParameters:
        """Return the head of the project or, for other classes, one for them; discard classes with another one."""
        extractor = self.models.extractor
        if self._tuned is None or self._tuned[0] != groups:
            if (tuned := stored_head(self.models.store, state, extractor)) is None:
                pools = [np.stack([maps[key] for key in keys]) for keys in groups]
                tuned = tune_by_leave_one_out(pools, extractor.prior)
                store_head(self.models.store, state, extractor, tuned)
            self._tuned = list(groups), tuned
        head = head_of(state, extractor) or self._tuned[1]
        self._origin = "" if are_alike(head, self._tuned[1]) else "; lambda and gamma come from the project"
        if self._head is None or (head.alpha, head.beta) != (self._head.alpha, self._head.beta):
            self._records, self._class_errors = {}, ClassErrors()
        self._head = head  # enrolled classes do not depend on gamma
        return head

    def _enroll(
        self, groups: Sequence[Keys], maps: dict[str, Maps], head: HeadParameters, check: Check
    ) -> list[ClassRecord]:
        """Enroll the classes whose examples have changed; return all."""
        for keys in groups:
            check()
            if keys not in self._records:
                self._records[keys] = enroll_class(np.stack([maps[key] for key in keys]), head)
        self._records = {keys: self._records[keys] for keys in groups}
        return list(self._records.values())

    def _compare_all(
        self, classifier: OtherHeadClassifier, groups: Sequence[Keys], maps: dict[str, Maps], check: Check
    ) -> tuple[list[ClassRecord], Array]:
        """Return the classes and the leave-one-out errors (n, way) of examples; those that must wait are NaN.

        The first examples of all classes come first, so that the threshold is calibrated on all classes.
        """
        until, keys = time.monotonic() + SECONDS, [key for group in groups for key in group]
        for key in sorted(keys, key={key: place for group in groups for place, key in enumerate(group)}.__getitem__):
            if key not in self._rows and time.monotonic() < until:
                check()
                self._rows[key] = classifier.errors_without(maps[key], key)
        waiting, nothing = np.full(len(groups), np.nan), np.array([], np.float32)
        errors = np.stack([self._rows.get(key, waiting) for key in keys])
        records = []
        for column, (group, rows) in enumerate(zip(groups, np.split(errors, _ends(groups)), strict=True)):
            own, means = rows[:, column], np.stack([maps[key].mean(0, dtype=np.float64) for key in group])
            shares = (1 - own).clip(0) if len(group) > 1 else np.zeros(0)
            records.append(ClassRecord(EnrolledClass(nothing, nothing, nothing), own[:, None], shares, means))
        self._records = dict(zip(groups, records, strict=True))
        return records, errors

    def _find_copies(self, state: State) -> dict[str, str]:
        """Return the examples that are not used, because they are copies."""
        groups = _groups(state)
        if self._copies[0] != groups:
            self._copies = groups, find_copies(state, self.models.looks, self._sets)
            self._sets = {keys: self._sets[keys] for keys in groups if keys in self._sets}
        return self._copies[1]

    def _report(
        self,
        listed: State,
        state: State,
        records: Sequence[ClassRecord],
        owns: Array,
        errors: Array,
        distances: Array,
    ) -> list[ClassReport]:
        near = {other: key for key, other in self._copies[1].items()} | self._copies[1]
        ids = [entry.id for entry in state.classes]
        ends = _ends(_groups(state))
        parts = zip(np.split(owns, ends), np.split(errors, ends), np.split(distances, ends), strict=True)
        nothing: list[ClassReport] = [
            {"id": entry.id, "explained": {}, "rank": {}, "rival": {}, "near": {}} for entry in listed.classes
        ]
        reports = {report["id"]: report for report in nothing}
        for column, (entry, record, (own_errors, rows, away)) in enumerate(
            zip(state.classes, records, parts, strict=True)
        ):
            own = keys_of(entry)
            ranks, rivals = _compare(own, own_errors, rows, away, column, record.left_out_shares, ids)
            shares = zip(own, record.left_out_shares.tolist(), strict=False)
            reports[entry.id] |= {"explained": {k: x for k, x in shares if x == x}, "rank": ranks, "rival": rivals}
        for entry in listed.classes:  # also those whose photos are all in another class
            reports[entry.id]["near"] = {key: near[key] for key in keys_of(entry) if key in near}
        return list(reports.values())


def keys_of(entry: ClassEntry) -> Keys:
    """Return the keys that determine a class."""
    return tuple(support.key for support in entry.supports)


def _groups(state: State) -> list[Keys]:
    return [keys_of(entry) for entry in state.classes]


def _ends(groups: Sequence[Keys]) -> NDArray[np.intp]:
    """Return the numbers of the first examples of all classes but the first."""
    return np.cumsum([len(group) for group in groups])[:-1]


def _distances(records: Sequence[ClassRecord]) -> Array:
    """Return distances (n, way) of all examples to all classes, to the own class by leave-one-out."""
    counts = [len(record.means) for record in records]
    centres, labels = Centres.of([record.enrolled for record in records]), np.repeat(np.arange(len(records)), counts)
    means = np.concatenate([record.means for record in records])
    return without_itself(centres.distance(means[:, None]), labels.tolist(), counts)


def _left_out(groups: Sequence[Keys], owns: Array, energies: Shares, errors: Array, distances: Array) -> LeaveOneOut:
    """Return what `Classifier.left_out` holds, from errors and distances (n, way) of all examples to all classes.

    `owns` are their errors (n,) by the others of their class, and `energies` (n,) those of their maps.
    """
    owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    rows = [row for row, label in enumerate(owners.tolist()) if len(groups[label]) > 1]
    rows = [row for row in rows[:: stride(len(rows))] if np.isfinite(errors[row]).all()]
    labels, without = owners[rows], errors[rows]
    without[np.arange(len(rows)), labels] = owns[rows]
    return without, labels, energies[rows], distances[rows]


def _allow(
    records: Sequence[ClassRecord], groups: Sequence[Keys], maps: dict[str, Maps], head: HeadParameters
) -> list[ClassRecord]:
    """Return the classes with their allowances, which depend on all classes."""
    more = allowances([np.stack([maps[key] for key in keys]) for keys in groups], head)
    return [
        replace(record, enrolled=replace(record.enrolled, allowance=each))
        for record, each in zip(records, more, strict=True)
    ]


def _allowances_without_one(records: Sequence[ClassRecord]) -> list[float]:
    counts = [len(record.means) for record in records]
    return [without_one(r.enrolled.allowance, count, min(counts)) for r, count in zip(records, counts, strict=True)]


def _form(head: HeadParameters, state: State, records: Sequence[ClassRecord], left_out: LeaveOneOut) -> EnrolledForm:
    """Return the enrolled classes as a classifier stores them, without what only `_report` needs."""
    own_errors = {
        support.key: (entry.name, own)
        for entry, record in zip(state.classes, records, strict=True)
        for support, own in zip(entry.supports, record.own_errors, strict=True)
    }
    classes = {entry.name: record.enrolled for entry, record in zip(state.classes, records, strict=True)}
    return EnrolledForm(head, classes, {}, own_errors, left_out, {})


def _compare(
    keys: Keys, own: Array, errors: Array, distances: Array, column: int, shares: Shares, ids: Sequence[int]
) -> tuple[dict[str, int], dict[str, tuple[int, float, float]]]:
    """Return the number of classes that reconstruct each example better than the rest of its own; and its rival.

    The errors and distances are (k, way), those by the rest of the own class (k,). A rival is the best other class if
    it beats the example's own, with its lead, and with how likely a mistake the example is: distances of mean locations
    find some that errors alone rank low.
    """
    if len(keys) < 2:
        return {}, {}
    others, away = errors.copy(), distances.copy()
    others[:, column] = away[:, column] = np.inf
    counts, known = np.less(others, own[:, None]).sum(1), np.isfinite(errors.sum(axis=1))
    ranks = {key: int(counts[row]) for row, key in enumerate(keys) if known[row]}
    rivals = {}
    for row, key in enumerate(keys):
        if ranks.get(key):
            best = int(others[row].argmin())
            lead = float((own[row] - others[row, best]) / max(own[row], 1e-12) * (1 - shares[row]))
            nearer = float(distances[row, column] - away[row].min())
            rivals[key] = ids[best], lead, lead + DISTANCE_WEIGHT * nearer
    return ranks, rivals
