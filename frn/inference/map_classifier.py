"""Enrolled classes as one extractor sees them: feature maps to predictions, and the rule for unknown photos."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.images.near_copies import Looks, nearest_copies
from frn.inference.enrolled_form import (
    EnrolledForm,
    LeftOut,
    are_alike,
    as_project_head,
    classes_key,
    form_key,
    head_of,
    keep,
    stored_head,
)
from frn.inference.enrollment import Enrollment, keys_of, left_out_places
from frn.inference.find.examples import Lesson, left_out
from frn.inference.find.finder import Finder
from frn.inference.records import Prediction
from frn.inference.scorers import Comparison, OtherHead, Reconstruction, Scorer
from frn.inference.unknown.calibration import FALSE_REJECTIONS, Calibration, calibrate
from frn.inference.unknown.rule import KnownRule, Measures, Shares, explained
from frn.projects.session import State, Support
from frn.ridge.enrolment import EnrolledClass, Floats
from frn.ridge.parameters import HeadParameters, probabilities
from frn.ridge.tuning import with_gamma

CHUNK = 64  # number of examples that are compared with all classes at once


class MapClassifier:
    """An extractor with enrolled classes, for feature maps. Classes may have different numbers of photos."""

    def __init__(
        self,
        extractor: Extractor,
        store: FeatureStore | None = None,
        other: OtherHead | None = None,
        finder: Finder | None = None,
    ) -> None:
        """Start without classes. The store keeps the feature maps of example images from one run to the next.

        A head other than FRN's is `other` or found next to the model; `finder` searches photos for their subject.
        Raises FrnError as `OtherHead.find`.
        """
        self.extractor = extractor
        self.store = store
        self.head = extractor.head or HeadParameters()
        """Alpha, beta and gamma; chosen again whenever the classes change (`ridge.tuning`)."""
        self.other = None if extractor.head else other or OtherHead.find(extractor)  # the head of a model without FRN
        self.enrollment = Enrollment(extractor, store)  # of an edit, it computes only what has changed
        self.uses_project_head = False
        """True if the head is the project's (`State.head`) and differs from the one that these examples would get."""
        self.state = State()
        self.threshold_override: float | None = None  # minimum `known` of an image; None calibrates it on the examples
        self.false_rejections = FALSE_REJECTIONS  # fraction of known images that the calibrated rule rejects
        self.classes: dict[str, EnrolledClass] = {}
        """Enrolled classes by name; empty with another head, whose classes are the maps of their examples, `pools`."""
        self.pools: dict[str, Maps] = {}
        self._finder = finder
        self.lesson: Lesson | None = None
        """What the boxes of the examples teach, if subjects are searched for."""
        self.maps: Mapping[str, Maps] | None = None
        """Feature maps (r, d) of the examples by content key; None until they are needed."""
        # These are parts of the enrolled form, which describes them.
        self.leave_one_out: dict[str, Shares] = {}
        """How much of each example the rest of its class explains, for classes of two or more; NaN if not compared."""
        self.looks: dict[str, bytes] = {}
        self._looks: list[tuple[Looks, list[Support]]] | None = None
        """The looks and the examples of each class; None until they are needed."""
        self._scorer: Scorer | None = None
        self.left_out: LeftOut | None = None
        self.other_maps: Mapping[str, Maps] = {}
        """Feature maps (r, d), by content key, of photos that the user marked as none of the classes."""
        self.others: Measures | None = None  # errors (n, way), energies (n,) and distances (n, way) of these photos
        self._calibration: tuple[tuple[object, ...], Calibration] | None = None  # the last one, with its arguments

    @property
    def rule(self) -> KnownRule:
        """Rule that decides whether an image is unknown."""
        rule, threshold = self.calibration.rule, self.threshold_override
        return rule if threshold is None else replace(rule, threshold=threshold)

    @property
    def threshold(self) -> float:
        """Probability of belonging to one of the classes below which an image is unknown."""
        return self.rule.threshold

    @property
    def calibration(self) -> Calibration:
        """Rule calibrated on the examples, and its expected error rates."""
        if self.left_out is None:
            raise FrnError("no classes yet: enroll some first")
        errors, labels, energies, distances, smaller = self.left_out
        arguments = (self.left_out, self.head, self.false_rejections, self.others)
        if self._calibration is None or any(map(is_not, arguments, self._calibration[0])):
            measures = errors, energies, distances
            counts = [len(entry.supports) for entry in self.state.classes]
            calibrated = calibrate(
                measures, labels, self.head.gamma, self.false_rejections, self.others, counts, smaller
            )
            self._calibration = arguments, calibrated
        return self._calibration[1]

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.state.classes]

    @property
    def scorer(self) -> Scorer:
        """Return what compares photos with the classes. Raises FrnError if there are no classes."""
        if self._scorer is None:
            raise FrnError("no classes yet: enroll some first")
        return self._scorer

    @property
    def finder(self) -> Finder:
        """Return what searches photos for their subject. Raises FrnError if the model cannot."""
        if self._finder is None:
            self._finder = Finder(self.extractor)
        return self._finder

    @property
    def left_out_photos(self) -> list[Support]:
        """Return the examples for leave-one-out: all in classes of two or more, or an even selection of many."""
        return [entry.supports[place] for entry, place in left_out_places(self.state)]

    def measures(self, maps: Maps, keys: Sequence[str | None]) -> Measures:
        """Return errors (n, way), energies (n,) and distances (n, way) of maps (n, r, d); examples by leave-one-out."""
        scorer = self.scorer
        return scorer.class_errors(maps, keys), scorer.energy(maps), scorer.distances(maps, keys)

    def mark_others(self, maps: Mapping[str, Maps]) -> None:
        """Calibrate with maps (r, d), by content key, of photos of none of the classes; examples do not count."""
        holders = self.state.holders()
        self.other_maps = {key: each for key, each in maps.items() if key not in holders}
        others = [*self.other_maps.values()]
        self.others = self.measures(np.stack(others), [None] * len(others)) if others else None

    def use_stored(self, state: State) -> bool:
        """Use the classes of a state if they are stored; return whether they are."""
        if self.other is not None or (form := self.enrollment.stored(state)) is None:
            return False
        self.use(state, form)
        self.uses_project_head = self.enrollment.uses_project_head
        return True

    def use(self, state: State, form: EnrolledForm, scorer: Reconstruction | None = None) -> None:
        """Use classes that are already enrolled, and their scorer if there is one."""
        self.head, self.classes, self.leave_one_out = form.head, form.classes, form.leave_one_out
        self.left_out, self.looks = form.left_out, form.looks
        self._start(
            replace(state, head=as_project_head(form.head, state, self.extractor)), scorer or Reconstruction(form)
        )

    def hold(
        self, state: State, feature_maps: Mapping[str, Maps], check: Callable[[], None] = lambda: None
    ) -> EnrolledForm | None:
        """Enroll the classes of a state from feature maps (r, d), given by content key, without leave-one-out results.

        `check` is called between classes and may raise; nothing has changed then. Returns None with another head.
        """
        if self.other is None:
            form = replace(self.enrollment.enroll(state, feature_maps, check), looks=self.looks)
            self.use(state, form, self.enrollment.scorer(form))
            self.uses_project_head = self.enrollment.uses_project_head
            return form
        self.pools = {c.name: np.stack([feature_maps[s.key] for s in c.supports]) for c in state.classes}
        self._start(state, Comparison(self.other, self.pools, {c.name: keys_of(c) for c in state.classes}))
        return None

    def _start(self, state: State, scorer: Scorer) -> None:
        self.state, self.maps, self._looks = state, None, None
        self._scorer = scorer if scorer.names else None
        self.mark_others({})

    def adopt(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Enroll the classes of a state from feature maps (r, d), given by content key."""
        form = self.hold(state, feature_maps)
        self.complete(state, form, self._leave_out(feature_maps))

    def complete(self, state: State, form: EnrolledForm | None, left_out: LeftOut) -> None:
        """Add the leave-one-out results of the examples to the classes that `hold` returned, and store them.

        If subjects are searched for, gamma is fitted to these results.
        """
        self.left_out = left_out
        if form is None:
            shares = 1 - left_out.errors[np.arange(len(left_out.labels)), left_out.labels]
            compared = dict(zip([photo.key for photo in self.left_out_photos], shares.clip(0), strict=True))
            self.leave_one_out = {
                entry.name: np.array([compared.get(support.key, np.nan) for support in entry.supports])
                for entry in state.classes
                if len(entry.supports) > 1
            }
            return
        if state.search != "none" and len(left_out.labels):
            form = replace(form, head=self._with_gamma(state), left_out=left_out)
            self.use(state, form)
        if form.classes:
            key = form_key(state, self.extractor, form.head)
            with suppress(UnicodeEncodeError):  # MessagePack stores no class name that is not UTF-8
                keep(self.store, self.extractor, key, replace(form, left_out=self.left_out))

    def _leave_out(self, feature_maps: Mapping[str, Maps]) -> LeftOut:
        """Return the leave-one-out results of the examples of classes with at least two."""
        if self.state.search != "none" and self.left_out_photos:
            return self.leave_out_photos(self.left_out_photos, feature_maps)
        keys, way = [photo.key for photo in self.left_out_photos], len(self.state.classes)
        parts: list[Measures] = [(np.zeros((0, way)), np.zeros(0), np.zeros((0, way)))]
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            parts.append(self.measures(np.stack([feature_maps[key] for key in chunk]), chunk))
        errors, energies, distances = map(np.concatenate, zip(*parts, strict=True))
        return self.left_out_of(keys, (errors, energies, distances))

    def left_out_of(self, keys: Sequence[str], measures: Measures) -> LeftOut:
        """Return the leave-one-out results of examples from their measures."""
        errors, energies, distances = measures
        columns = {s.key: column for column, entry in enumerate(self.state.classes) for s in entry.supports}
        labels = np.array([columns[key] for key in keys], dtype=np.intp)
        return LeftOut(errors, labels, energies, distances, self.scorer.smaller(keys))

    def leave_out_photos(self, examples: Sequence[Support], feature_maps: Mapping[str, Maps]) -> LeftOut:
        """Return the leave-one-out results of examples as new photos: searched, if subjects are, or whole."""
        classes = [*self.classes.values()]
        return left_out(self.extractor, self.lesson, self.state, examples, classes, self.head, feature_maps, self.store)

    def _with_gamma(self, state: State) -> HeadParameters:
        """Return the head with gamma for searched photos, whose margins are larger; a project keeps its own."""
        assert self.left_out is not None  # just computed
        counts = [len(entry.supports) for entry in state.classes]
        head = with_gamma(self.head, self.left_out.errors, self.left_out.labels, counts, self.extractor.prior)
        kept = head_of(state, self.extractor) or head
        if kept is not head:  # its alpha may be foreign: that of the classes' own head is stored
            head = replace(stored_head(self.store, state, self.extractor) or kept, gamma=head.gamma)
        if are_alike(kept, replace(head, gamma=kept.gamma)):  # gamma was fitted with the classes' own alpha
            keep(self.store, self.extractor, classes_key(state, self.extractor), head)
        self.uses_project_head = not are_alike(kept, head)
        return kept

    def example_maps(self) -> Mapping[str, Maps]:
        """Return the feature maps (r, d) of every example by content key; most are in the store.

        Raises FrnError if an example cannot be read, or has changed since it was enrolled.
        """
        if self.maps is None:
            sha256, shape = self.extractor.sha256, self.extractor.shape
            stored = {key: self.store and self.store.get(sha256, key, shape) for key in self.state.holders()}
            maps = {key: kept[0] for key, kept in stored.items() if kept}
            known = {s.path: s.key for entry in self.state.classes for s in entry.supports if s.key not in maps}
            for path, outcome in self.extractor.read(known, store=self.store):
                if isinstance(outcome, FrnError):
                    raise outcome
                if outcome.key != known[path]:
                    raise FrnError(f"{path}: has changed since the classes were loaded. Load them again.")
                maps[outcome.key] = outcome.maps
            self.maps = maps
        return self.maps

    def near_copies(self, looks: Sequence[bytes], errors: NDArray[np.floating]) -> list[Support | None]:
        """Return the example that each image is a near copy of, or None, from its class errors (n, way).

        Only examples of the best class are compared: that of the original reconstructs a copy best.
        """
        if not self.looks:  # the classes were adopted without looks
            return [None] * len(looks)
        if self._looks is None:
            groups = [[s for s in entry.supports if s.key in self.looks] for entry in self.state.classes]
            self._looks = [(Looks([self.looks[s.key] for s in group]), group) for group in groups]
        copies: list[Support | None] = [None] * len(looks)
        seen, columns = Looks(looks), errors.argmin(1)
        for column in set(columns.tolist()):
            rows, (examples, supports) = np.flatnonzero(columns == column), self._looks[column]
            for row, place in zip(rows.tolist(), nearest_copies(seen[rows], examples), strict=True):
                copies[row] = None if place is None else supports[place]
        return copies

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
        scorer, gamma = self.scorer, self.head.gamma
        measures, rule = self.measures(maps, keys), self.rule
        errors, explains, known = measures[0], explained(*measures[:2]), rule.known(measures)
        twins = self.near_copies(looks, errors) if looks is not None else [None] * len(maps)
        if transductive:
            errors, gamma = scorer.refined(errors, maps, keys, self._pools)
        shares = probabilities(errors, gamma)

        def by_class(row: NDArray[np.floating]) -> dict[str, float]:
            return dict(zip(scorer.names, row.tolist(), strict=True))

        return [
            Prediction(
                by_class(share),
                by_class(error),
                by_class(reconstructed),
                chance,
                chance < rule.threshold,
                example,
                None if example else twin,
                transductive,
                key,
            )
            for share, error, reconstructed, chance, example, twin, key in zip(
                shares, errors, explains, known.tolist(), map(scorer.example_of, keys), twins, keys, strict=True
            )
        ]

    def error_maps(self, feature_maps: Maps, key: str | None = None) -> Floats:
        """Return the squared error of each location by each class, (r, d) to (way, h, w); examples by leave-one-out.

        Raises FrnError with a head other than FRN's, which cannot show which parts are badly reconstructed.
        """
        errors = self.scorer.location_errors(feature_maps, key)
        return self.extractor.on_grid(errors.T)

    def _pools(self) -> list[Maps]:
        examples = self.example_maps()
        return [np.stack([examples[s.key] for s in entry.supports]) for entry in self.state.classes]
