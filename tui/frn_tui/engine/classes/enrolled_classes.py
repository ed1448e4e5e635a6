"""Enrolled classes. A class is enrolled again only if its examples change, so adding one example is fast.

Shape letters: way classes, n examples of all classes together, k examples of a class, r locations, d channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from frn.errors import FrnError
from frn.images.near_copies import nearest_copies
from frn.inference.enrolled_form import head_document, head_of
from frn.inference.feature_cache import Maps
from frn.inference.session import ClassEntry, State
from frn.inference.unknown import (
    Calibration,
    RejectRule,
    Shares,
    calibrate,
    explained,
    familiarity,
    stride,
    without_itself,
)
from frn.ridge.enrolment import Array, Centres, ClassScorer, EnrolledClass, energy, enroll
from frn.ridge.leave_one_out import left_out_location_error
from frn.ridge.parameters import HeadParameters
from frn_tui.client.protocol import ClassReport, ClassReports, SetClasses
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.classes.embedding import Embedding
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

Keys = tuple[str, ...]
DISTANCE_WEIGHT = 0.5
"""Weight of the distances between mean locations in the order of misfits."""
MAX_CACHED = 96 << 20
"""Bytes of unused enrolled classes to keep for undo."""


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
    means = maps.mean(1, dtype=np.float64)
    if len(maps) < 2:
        return ClassRecord(enroll(maps, head), np.square(maps, dtype=np.float64).sum(-1), np.zeros(0), means)
    errors = left_out_location_error(maps, head)
    return ClassRecord(enroll(maps, head), errors, explained(errors.mean(1)[:, None], maps)[:, 0], means)


@dataclass(frozen=True)
class Classes:
    """Classes that have examples and answer queries."""

    sha256: str
    """Hash of the model with which they were enrolled."""
    head: HeadParameters
    """Head parameters chosen with these classes."""
    entries: tuple[ClassEntry, ...]
    members: tuple[ClassRecord, ...]
    bank: ClassScorer
    rule: RejectRule
    """Rule that decides when a photo is unknown."""

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Class of every example and its index there, by content key."""
        return {key: (place, row) for place, entry in enumerate(self.entries) for row, key in enumerate(keys_of(entry))}

    def own_errors(self, key: str) -> tuple[int, Array] | None:
        """Return the index of the class that has a photo as an example, and its leave-one-out errors (r,)."""
        if key not in self._places:
            return None
        place, row = self._places[key]
        return place, self.members[place].own_errors[row]

    def distances(self, keys: Sequence[str], maps: Maps) -> Array:
        """Return distances (q, way) from photos (q, r, d) to the classes; for examples, by leave-one-out."""
        labels = [self._places[key][0] if key in self._places else None for key in keys]
        counts = [len(entry.supports) for entry in self.entries]
        return without_itself(self.bank.centres.distance(maps), labels, counts)


class EnrolledClasses:
    """Enrollment of the app's classes. For one thread."""

    def __init__(self, models: Models, embedding: Embedding) -> None:
        self._models = models
        self._embedding = embedding
        self._members: dict[Keys, ClassRecord] = {}
        self._sha256 = ""
        self._head: HeadParameters | None = None
        """Head with which the members were enrolled."""
        self._class_errors = ClassErrors()
        self._current: Classes | None = None
        self.kept_head: object = None
        """The head stored in the open project; it is used as long as the classes are the project's."""

    def head_document(self, state: State) -> object:
        """Return the head to store in a project with these classes; None if different classes are in use."""
        current = self._current
        if current is None or _groups(current.entries) != [keys_of(entry) for entry in state.classes if entry.supports]:
            return None
        return head_document(current.head, state, self._models.model.extractor.prior)

    @property
    def current(self) -> Classes:
        """The classes in use. Raises FrnError if there are none, or they belong to another model."""
        sha256 = self._models.model.extractor.sha256
        if self._current is None or self._current.sha256 != sha256:
            raise FrnError("no class has an example yet")
        return self._current

    def set_classes(self, request: SetClasses, job: Job) -> ClassReports:
        """Enroll the classes of a state; if feature maps are missing, the classes stay unchanged."""
        state = request.state
        self._follow_model()
        entries = tuple(entry for entry in state.classes if entry.supports)
        maps, missing = self._find_maps(entries, job.check)
        others = [each for other in state.others if (each := self._embedding.find(other.key)) is not None]
        if missing:
            return ClassReports(reports=[], threshold=0.0, calibrated=0.0, expected="", missing=missing, unranked=0)
        head = self._choose_head(entries, maps, state)
        members = [self._member(entry, maps, head, job.check) for entry in entries]
        groups = _groups(entries)
        enrolled = [member.enrolled for member in members]
        errors = self._class_errors.errors(groups, enrolled, maps, job.check) if groups else np.zeros((0, 0))
        distances = _distances(members) if groups else np.zeros((0, 0))
        calibration = _calibrate(groups, members, maps, errors, distances, _familiarity(enrolled, others))
        calibrated = calibration.typical
        threshold = calibrated if state.threshold is None else state.threshold
        reports = self._report(entries, members, maps, errors, distances) if entries else []
        self._use(entries, members, head, calibration.rule if state.threshold is None else RejectRule(threshold))
        empty = [c.id for c in state.classes if not c.supports]
        reports += [{"id": number, "explained": {}, "rank": {}, "rival": {}, "near": {}} for number in empty]
        return {
            "reports": reports,
            "threshold": threshold,
            "calibrated": calibrated,
            "expected": calibration.describe() if entries else "",
            "missing": [],
            "unranked": int(np.isnan(errors).any(1).sum()),
        }

    def _follow_model(self) -> None:
        """Discard everything computed with another model."""
        sha256 = self._models.model.extractor.sha256
        if sha256 != self._sha256:
            self._members, self._class_errors = {}, ClassErrors()
            self._sha256, self._current = sha256, None

    def _choose_head(self, entries: Sequence[ClassEntry], maps: dict[str, Maps], state: State) -> HeadParameters:
        """Choose the head of these classes; discard classes enrolled with another one."""
        before, groups = self._current, _groups(entries)
        if before and _groups(before.entries) == groups:
            head = before.head
        else:
            kept = head_of(self.kept_head, state, self._models.model.extractor.prior)
            pools = (np.stack([maps[key] for key in keys]) for keys in groups)
            head = kept or self._models.model.choose_head(pools)
        if self._head is None or (head.alpha, head.beta) != (self._head.alpha, self._head.beta):
            self._members, self._class_errors = {}, ClassErrors()
        self._head = head  # enrolled classes do not depend on gamma
        return head

    def _find_maps(self, entries: Sequence[ClassEntry], check: Check) -> tuple[dict[str, Maps], list[str]]:
        found: dict[str, Maps | None] = {}
        for key in (support.key for entry in entries for support in entry.supports):
            check()
            found[key] = self._embedding.find(key)
        known = {key: maps for key, maps in found.items() if maps is not None}
        return known, [key for key in found if key not in known]

    def _member(self, entry: ClassEntry, maps: dict[str, Maps], head: HeadParameters, check: Check) -> ClassRecord:
        check()
        keys = keys_of(entry)
        if keys not in self._members:
            self._members[keys] = enroll_class(np.stack([maps[key] for key in keys]), head)
        return self._members[keys]

    def _use(
        self, entries: tuple[ClassEntry, ...], members: Sequence[ClassRecord], head: HeadParameters, rule: RejectRule
    ) -> None:
        if not entries:
            self._current = None
            return
        before = self._current
        same = before and _groups(before.entries) == _groups(entries)
        bank = before.bank if before and same else ClassScorer([member.enrolled for member in members])
        self._current = Classes(self._sha256, head, entries, tuple(members), bank, rule)
        used = {keys_of(entry) for entry in entries}
        unused = [keys for keys in self._members if keys not in used]
        kept = sum(self._members[keys].enrolled.rows.nbytes for keys in unused)
        for keys in unused:  # oldest first
            if kept > MAX_CACHED:
                kept -= self._members.pop(keys).enrolled.rows.nbytes

    def _report(
        self,
        entries: Sequence[ClassEntry],
        members: Sequence[ClassRecord],
        maps: dict[str, Maps],
        errors: Array,
        distances: Array,
    ) -> list[ClassReport]:
        groups, all_keys = _groups(entries), list(maps)
        twins = nearest_copies([self._embedding.look(key) for key in all_keys])
        near = {key: all_keys[twin] for key, twin in zip(all_keys, twins, strict=True) if twin is not None}
        reports: list[ClassReport] = []
        first, ids = 0, [entry.id for entry in entries]
        for column, (entry, member) in enumerate(zip(entries, members, strict=True)):
            keys = groups[column]
            rows = slice(first, first + len(keys))
            first += len(keys)
            ranks, rivals = _compare(keys, errors[rows], distances[rows], column, member, ids)
            reports.append(
                {
                    "id": entry.id,
                    "explained": dict(zip(keys, member.left_out_shares.tolist(), strict=False)),
                    "rank": ranks,
                    "rival": rivals,
                    "near": {key: near[key] for key in keys if key in near},
                }
            )
        return reports


def keys_of(entry: ClassEntry) -> Keys:
    """Return the keys that determine a class."""
    return tuple(support.key for support in entry.supports)


def _groups(entries: Sequence[ClassEntry]) -> list[Keys]:
    return [keys_of(entry) for entry in entries]


def _distances(members: Sequence[ClassRecord]) -> Array:
    """Return distances (n, way) of all examples to all classes, to the own class by leave-one-out."""
    counts = [len(member.means) for member in members]
    centres, labels = Centres.of([member.enrolled for member in members]), np.repeat(np.arange(len(members)), counts)
    means = np.concatenate([member.means for member in members])
    return without_itself(centres.distance(means[:, None]), labels.tolist(), counts)


def _calibrate(
    groups: Sequence[Keys],
    members: Sequence[ClassRecord],
    maps: dict[str, Maps],
    errors: Array,
    distances: Array,
    others: Shares,
) -> Calibration:
    """The rule for unknown photos, from errors and distances (n, way) of all examples under all classes.

    `others` is the familiarity of photos that belong to none of them.
    """
    keys = [(label, key) for label, group in enumerate(groups) for key in group]
    owns = [own.mean() for member in members for own in member.own_errors]
    rows = [row for row, (label, _) in enumerate(keys) if len(groups[label]) > 1]
    rows = [row for row in rows[:: stride(len(rows))] if np.isfinite(errors[row]).all()]
    labels = np.array([keys[row][0] for row in rows], dtype=np.intp)
    without = errors[rows]
    without[np.arange(len(rows)), labels] = [owns[row] for row in rows]
    if not rows:
        return calibrate(without, labels, np.zeros(0), without, others=others)
    energies = np.concatenate([energy(maps[keys[row][1]][None]) for row in rows])
    return calibrate(without, labels, energies, distances[rows], others=others)


def _familiarity(classes: Sequence[EnrolledClass], others: Sequence[Maps]) -> Shares:
    """Return how familiar photos (n, r, d) are to the classes, (n,)."""
    if not classes or not others:
        return np.zeros(0)
    photos, scorer = np.stack(others), ClassScorer(classes)
    return familiarity(scorer.class_error(photos), energy(photos), scorer.centres.distance(photos))


def _compare(
    keys: Keys, errors: Array, distances: Array, column: int, member: ClassRecord, ids: Sequence[int]
) -> tuple[dict[str, int], dict[str, tuple[int, float, float]]]:
    """Return the number of classes that reconstruct each example better than the rest of its own; and its rival.

    The errors and distances are (k, way). A rival is the best other class if it beats the example's own, with its lead,
    and with how likely a mistake the example is: distances of mean locations find some that errors alone rank low.
    """
    if len(keys) < 2:
        return {}, {}
    own, others, away = member.own_errors.mean(1), errors.copy(), distances.copy()
    others[:, column] = away[:, column] = np.inf
    counts, known = np.less(others, own[:, None]).sum(1), np.isfinite(errors.sum(axis=1))
    ranks = {key: int(counts[row]) for row, key in enumerate(keys) if known[row]}
    rivals = {}
    for row, key in enumerate(keys):
        if ranks.get(key):
            best = int(others[row].argmin())
            lead = float((own[row] - others[row, best]) / max(own[row], 1e-12) * (1 - member.left_out_shares[row]))
            nearer = float(distances[row, column] - away[row].min())
            rivals[key] = ids[best], lead, lead + DISTANCE_WEIGHT * nearer
    return ranks, rivals
