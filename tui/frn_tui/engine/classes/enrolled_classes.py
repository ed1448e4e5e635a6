"""Enrolled classes. A class is enrolled again only if its examples change, so adding one example is fast.

Shape letters: way classes, n examples of all classes together, k examples of a class, r locations, d channels.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.feature_cache import Maps
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import as_project_head
from frn.inference.enrollment import Enrollment, Keys, keys_of
from frn.inference.explanation import weights_of
from frn.inference.scorers import Comparison, Reconstruction
from frn.inference.unknown import Shares, stride
from frn.projects.session import ClassEntry, KnownCopies, ProjectHead, State, find_copies, without, without_copies
from frn.ridge.enrolment import Array, Floats, energy
from frn.ridge.parameters import probabilities
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import ClassReport, ClassReports, SetClasses
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

LeaveOneOut = tuple[Array, NDArray[np.intp], Shares, Array]
SECONDS = 1.0
"""Seconds per call for the leave-one-out errors of heads other than FRN's; further examples wait for the next call."""
MAX_WEIGHTS, MAX_LEFT_OUT = 256 << 20, 50
"""Bytes of examples and their weights to keep: about 2,900 examples of the default model; largest class in which an
example is explained by the others."""
DISTANCE_WEIGHT = 0.5
"""Weight of the distances between mean locations in the order of misfits."""


class EnrolledClasses:
    """Enrollment of the app's classes. For one thread."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._forget()
        self._nothing = "no class has an example yet"
        """Reason why there are no classes."""

    def _forget(self) -> None:
        """Forget the classes of another model."""
        self._enrollment: Enrollment | None = None
        self._scorer: Reconstruction | None = None
        self._class_errors, self._errors_of = ClassErrors(), (0.0, 0.0)
        """Errors of the classes, and alpha and beta with which they were enrolled."""
        self._copies: tuple[list[Keys], dict[str, str]] = [], {}
        """The examples of all classes, and those that are not used (`session.find_copies`)."""
        self._known = KnownCopies()
        self._means: dict[Keys, Array] = {}
        """Mean location of each example, (k, d), by the keys of its class."""
        self._rows: dict[str, Array] = {}
        """Leave-one-out errors (way,) of the examples of the classes in use, for heads other than FRN's."""
        self._weights: ByteLimitedCache[Floats] = ByteLimitedCache(MAX_WEIGHTS)
        """Locations and weights (`explanation.weights_of`) of examples, (2, p, d), by their keys and the head."""
        self._current: Classifier | None = None

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

    def set_classes(self, request: SetClasses, job: Job) -> ClassReports:
        """Enroll the classes of a state, without missing photos; if photos have to be read, nothing changes."""
        extractor, before = self.models.extractor, self._current
        if before is not None and before.extractor.sha256 != extractor.sha256:
            self._forget()
            before = None
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
                reports=[], threshold=state.threshold or 0.0, known={}, expected="", unread=unread, away=away,
                unranked=0,
            )  # fmt: skip
        keys = [key for group in groups for key in group]
        self._means = {
            group: means
            if (means := self._means.get(group)) is not None
            else np.stack([maps[key].mean(0, dtype=np.float64) for key in group])
            for group in groups
        }
        same = before is not None and _groups(before.state) == groups
        classifier, origin = Classifier(extractor, self.models.store, self.models.other), ""
        if classifier.other is not None:
            self._rows = self._rows if same else {}
            errors = self._compare_all(classifier.hold(state, maps), groups, maps, job.check)
        else:
            enrollment = self._enrollment = self._enrollment or Enrollment(extractor, self.models.store)
            form = enrollment.enroll(state, maps, job.check)
            last = self._scorer if same and self._scorer and self._scorer.head == form.head else None
            scorer = self._scorer = Reconstruction(form, last.joined if last else None)
            classifier.use(state, form, scorer)
            origin = "; lambda and gamma come from the project" if enrollment.uses_project_head else ""
            if state.search != "none":
                origin += "; the app classifies whole photos, the project searches for subjects"
            errors = self._reconstruct_all(scorer, groups, maps, job.check)
        distances = classifier.scorer.distances(np.concatenate([*self._means.values()])[:, None], keys)
        energies = classifier.scorer.energy(np.stack([maps[key] for key in keys]))
        rows, classifier.left_out = _left_out(groups, energies, errors, distances)
        classifier.threshold_override = state.threshold
        classifier.looks = {key: self.models.looks[key] for key in maps}
        classifier.mark_others(others)
        self._current = classifier
        shares = classifier.leave_one_out or {
            entry.name: (1 - own[:, column]).clip(0)
            for column, (entry, own) in enumerate(zip(state.classes, np.split(errors, _ends(groups)), strict=True))
            if len(own) > 1
        }
        return {
            "reports": self._report(listed, state, shares, errors, distances, classifier.head.gamma),
            "threshold": classifier.threshold,
            "known": dict(zip([keys[row] for row in rows], classifier.calibration.known.tolist(), strict=True)),
            "expected": classifier.calibration.describe() + origin,
            "unread": [],
            "away": away,
            "unranked": int(np.isnan(errors).any(1).sum()),
        }

    def _reconstruct_all(
        self, scorer: Reconstruction, groups: Sequence[Keys], maps: Mapping[str, Maps], check: Check
    ) -> Array:
        """Return the leave-one-out errors (n, way) of examples; those that must wait are NaN."""
        if self._errors_of != (of := (scorer.head.alpha, scorer.head.beta)):
            self._class_errors, self._errors_of = ClassErrors(), of
        keys, classes = [key for group in groups for key in group], list(scorer.classes.values())
        errors = self._class_errors.errors(groups, classes, maps, check)
        energies = energy(np.stack([maps[key] for key in keys]))
        if any(one.allowance for one in classes):  # as in `ClassScorer.class_error`
            errors += energies[:, None] * [one.allowance for one in classes]
        scorer.leave_out(errors, keys, energies.__getitem__)
        return errors

    def _compare_all(self, scorer: Comparison, groups: Sequence[Keys], maps: Mapping[str, Maps], check: Check) -> Array:
        """Return the leave-one-out errors (n, way) of examples; those that must wait are NaN.

        The first examples of all classes come first, so that the threshold is calibrated on all classes.
        """
        until, keys = time.monotonic() + SECONDS, [key for group in groups for key in group]
        for key in sorted(keys, key={key: place for group in groups for place, key in enumerate(group)}.__getitem__):
            if key not in self._rows and time.monotonic() < until:
                check()
                self._rows[key] = scorer.errors_without(maps[key], key)
        waiting = np.full(len(groups), np.nan)
        return np.stack([self._rows.get(key, waiting) for key in keys])

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
            keys, own = keys_of(entry), shares.get(entry.name, np.zeros(0))
            ranks, rivals = _compare(keys, rows, away, column, own, ids, gamma)
            explained = {key: share for key, share in zip(keys, own.tolist(), strict=False) if share == share}
            reports[entry.id] |= {"explained": explained, "rank": ranks, "rival": rivals}
        for entry in listed.classes:  # also those whose photos are all in another class
            reports[entry.id]["near"] = {key: near[key] for key in keys_of(entry) if key in near}
        return list(reports.values())


def _groups(state: State) -> list[Keys]:
    return [keys_of(entry) for entry in state.classes]


def _ends(groups: Sequence[Keys]) -> NDArray[np.intp]:
    """Return the numbers of the first examples of all classes but the first."""
    return np.cumsum([len(group) for group in groups])[:-1]


def _left_out(
    groups: Sequence[Keys], energies: Shares, errors: Array, distances: Array
) -> tuple[list[int], LeaveOneOut]:
    """Return the examples for leave-one-out, and what `Classifier.left_out` holds of them.

    The errors and distances (n, way) are those of all examples, by leave-one-out.
    """
    owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    rows = [row for row, label in enumerate(owners.tolist()) if len(groups[label]) > 1]
    rows = [row for row in rows[:: stride(len(rows))] if np.isfinite(errors[row]).all()]
    return rows, (errors[rows], owners[rows], energies[rows], distances[rows])


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
    own, others, away = errors[:, column], errors.copy(), distances.copy()
    others[:, column] = away[:, column] = np.inf
    counts, known = np.less(others, own[:, None]).sum(1), np.isfinite(errors.sum(axis=1))
    ranks = {key: int(counts[row]) for row, key in enumerate(keys) if known[row]}
    rivals = {}
    for row, key in enumerate(keys):
        if ranks.get(key):
            best = int(others[row].argmin())
            lead = float((own[row] - others[row, best]) / max(own[row], 1e-12) * (1 - shares[row]))
            nearer = float(distances[row, column] - away[row].min())
            chance = float(probabilities(errors[row : row + 1], gamma)[0, best])
            rivals[key] = ids[best], lead, lead + DISTANCE_WEIGHT * nearer, chance
    return ranks, rivals
