"""A second look at photos whose answer is unsure, at one part of them, if leave-one-out says that it gains.

With `--tta auto`, the examples are enrolled a second time, from four overlapping views of each. The errors of a photo's
locations say which of its views a class explains most clearly, so only this one is embedded. A second look thus takes
as long as the first one. It is also more accurate than one at all four views, three of which often show no subject.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import VIEWS, Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps, content_key
from frn.inference.enrolled_form import EnrolledForm, LeftOut, form_key, keep, recall
from frn.inference.find.windows import margins
from frn.inference.map_classifier import MapClassifier
from frn.inference.records import Prediction
from frn.inference.scorers import Reconstruction
from frn.inference.unknown.rule import Measures
from frn.projects.session import State
from frn.ridge.parameters import probabilities
from frn.ridge.tuning import with_gamma
from frn.ridge.unequal import as_smallest

SHARE = 0.5
"""Largest share of the examples that get a second look, so that photos take about 1.5 times as long as with one look.
The mean of four pasted sets is then above that of all views of every photo (`assets/benchmarks/find.py --tta`)."""
LEAST = 3
"""Least gain in examples. Of 50 examples that their subject fills, a second look gained up to two by chance, and then
cost 0.6 points of accuracy on other photos; of those with a pasted subject, it gained one to 13."""
ALIKE = 1e-4
"""Difference of margins below which the first view is taken, so that rounding does not decide."""


class SecondLook:
    """The classes of a classifier as a second extractor sees them."""

    def __init__(self, extractor: Extractor, store: FeatureStore | None = None) -> None:
        self.closer = MapClassifier(extractor, store)
        """The classes, enrolled from all views of the examples."""
        self.views: list[MapClassifier] = []
        """The same classes for photos of which only one view was seen, by its number."""
        self.sure: float
        """Probability of the best class below which a photo gets a second look."""

    @staticmethod
    def require_whole(state: State) -> None:
        """Raise FrnError if photos are searched for their subject."""
        if state.search != "none":
            raise FrnError("--tta auto looks at whole photos again, and --find at their subject. Use one of them.")

    def enroll(self, first: MapClassifier, maps: Mapping[str, Maps] | None = None) -> FrnError:
        """Enroll the classes of a classifier, and choose which photos get a second look; return what to report.

        `maps` are the second extractor's maps of examples and photos of no class, by content key; by default they are
        read from the files.

        Photos get a second look if it is right for `LEAST` more examples by leave-one-out. They are those whose answer
        is at most as sure as the surest one that it corrects: a smaller limit that is as good for the examples is not
        for other photos. `SHARE` bounds the limit.
        """
        closer, state = self.closer, first.state
        closer.state, closer.maps, self.sure = state, maps, 0.0
        if not closer.use_stored(state):
            closer.adopt(state, closer.example_maps())
        if maps is not None:
            closer.maps = maps
        else:
            read = closer.extractor.read([photo.path for photo in state.others], store=closer.store)
            maps = {each.key: each.maps for _, each in read if isinstance(each, Embedded)}
        closer.mark_others({photo.key: maps[photo.key] for photo in state.others if photo.key in maps})
        self._enroll_views(state)
        assert first.left_out is not None  # both have just been enrolled
        assert closer.left_out is not None
        errors, labels = first.left_out.errors, first.left_out.labels
        if not len(closer.left_out.errors):
            return FrnError("no photo is looked at twice: leave-one-out needs a class with two photos")
        if len(errors) < len(closer.left_out.errors):  # the app compares the examples with many classes step by step
            return FrnError("no photo is looked at twice yet: the examples are still being compared")
        self._calibrate(first)
        right, closer_right = (each.argmin(1) == labels for each in (errors, self._left_out.errors))
        gains = closer_right.sum() >= right.sum() + LEAST
        if gains:
            sureness = probabilities(errors, first.head.gamma).max(1)
            self.sure = min(float(sureness[closer_right & ~right].max()) + 1e-9, float(np.quantile(sureness, SHARE)))
        first.extractor.ahead = bool(gains)
        rates = f"right for {closer_right.mean():.0%} of the examples, the first look for {right.mean():.0%}"
        looks = f"answers below {self.sure:.0%} get a second look" if gains else "no photo gets a second look"
        return FrnError(f"{looks}: by leave-one-out, it is {rates}")

    def _enroll_views(self, state: State) -> None:
        """Enroll the classes for photos of which one view was seen; the errors of an example are those of its view."""
        closer = self.closer
        assert isinstance(closer.scorer, Reconstruction)  # other heads have no views
        whole, self.views = closer.scorer, []
        for view in range(VIEWS):
            own = {key: (name, np.split(errors, VIEWS)[view]) for key, (name, errors) in whole.own_errors.items()}
            form = EnrolledForm(closer.head, closer.classes, closer.leave_one_out, own, {}, closer.left_out, {})
            extractor = copy.copy(closer.extractor)
            extractor.view = view
            each = MapClassifier(extractor, closer.store)
            each.use(state, form, Reconstruction(form, whole.joined))
            each.maps = closer.maps
            self.views.append(each)

    def _calibrate(self, first: MapClassifier) -> None:
        """Choose gamma, and calibrate the rule for unknown photos, for one view of each example."""
        closer, state = self.closer, first.state
        keys = [form_key(state, each.extractor, each.head) for each in (first, closer)]
        key = f"views-{content_key(json.dumps(keys).encode())}"
        form = recall(closer.store, closer.extractor, key, EnrolledForm)
        if form is None:
            left_out = self._leave_out(first)
            counts = [len(entry.supports) for entry in state.classes]
            head = with_gamma(closer.head, left_out.errors, left_out.labels, counts, closer.extractor.prior)
            form = EnrolledForm(head, {}, {}, {}, {}, left_out, {})
            keep(closer.store, closer.extractor, key, form)
        others = [*closer.other_maps]
        views = [self._view_of(first, first.other_maps[key]) for key in others]
        measures = self._measures([closer.other_maps[key] for key in others], others, views) if others else None
        for each in self.views:
            each.head, each.left_out, each.others = form.head, form.left_out, measures

    def _leave_out(self, first: MapClassifier) -> LeftOut:
        """Return the leave-one-out results of one view of each example."""
        closer, seen, maps = self.closer, first.example_maps(), self.closer.example_maps()
        scorer = closer.scorer
        assert closer.left_out is not None  # it has just been enrolled
        assert isinstance(scorer, Reconstruction)
        keys = [support.key for support in closer.left_out_photos]
        views = [self._view_of(first, seen[key], key) for key in keys]
        smaller = closer.left_out.smaller.copy()
        counts = [len(entry.supports) for entry in closer.state.classes]
        for row in np.flatnonzero(smaller[:, 0] >= 0).tolist():
            supports = closer.state.classes[closer.left_out.labels[row]].supports
            pool, place = np.stack([maps[s.key] for s in supports]), [s.key for s in supports].index(keys[row])
            part = np.split(pool[place], VIEWS)[views[row]]
            error, distance = as_smallest(pool, place, min(counts), closer.head, part)
            smaller[row] = error, distance / scorer.joined.centres.scale
        errors, energies, distances = self._measures([maps[key] for key in keys], keys, views)
        return LeftOut(errors, closer.left_out.labels, energies, distances, smaller)

    def _measures(self, maps: Sequence[Maps], keys: Sequence[str], views: Sequence[int]) -> Measures:
        """Return errors (n, way), energies (n,) and distances (n, way) of the given view of each map (4 r, d)."""
        rows = [
            self.views[view].measures(np.split(each, VIEWS)[view][None], [key])
            for each, key, view in zip(maps, keys, views, strict=True)
        ]
        errors, energies, distances = map(np.concatenate, zip(*rows, strict=True))
        return errors, energies, distances

    @staticmethod
    def _view_of(first: MapClassifier, maps: Maps, key: str | None = None) -> int:
        """Return the view in which the best class leads most, by the first look's map (r, d) of a photo."""
        scorer = first.scorer
        assert isinstance(scorer, Reconstruction)  # other heads have no views
        lengths = np.vecdot(maps, maps, dtype=np.float64)[:, None]
        errors = scorer.location_errors(maps, key)
        h, w = first.extractor.grid
        high, wide = round(2 * h / 3), round(2 * w / 3)
        cells, parts = np.hstack([errors, lengths]).reshape(h, w, -1), []
        for view in range(VIEWS):
            top, left = view // 2 * (h - high), view % 2 * (w - wide)
            parts.append(cells[top : top + high, left : left + wide].mean((0, 1)))
        means = np.stack(parts)
        leads, _ = margins(scorer.joined.with_allowances(means[:, :-1], means[:, -1]), means[:, -1])
        return int((leads >= (1 - ALIKE) * leads.max()).argmax())

    @property
    def _left_out(self) -> LeftOut:
        left_out = self.views[0].left_out
        assert left_out is not None  # `enroll` has set it
        return left_out

    @property
    def maps(self) -> dict[str, Maps]:
        """Return the second extractor's maps of the examples and the photos of no class, by content key."""
        return {**self.closer.example_maps(), **self.closer.other_maps}

    def left_out_answers(self, first: MapClassifier) -> tuple[NDArray[np.intp], float]:
        """Return the labels (n,) of the examples by leave-one-out, and the share of them that gets a second look."""
        assert first.left_out is not None  # `enroll` has used it
        errors = first.left_out.errors
        unsure = probabilities(errors, first.head.gamma).max(1) < self.sure
        return np.where(unsure, self._left_out.errors.argmin(1), errors.argmin(1)), float(unsure.mean())

    def again(
        self, first: MapClassifier, seen: Sequence[Embedded], predictions: Sequence[Prediction]
    ) -> dict[int, tuple[MapClassifier, Embedded]]:
        """Return the photos that get a second look, by place, and what classifies them; one that is gone gets none."""
        unsure = [place for place, each in enumerate(predictions) if max(each.probabilities.values()) < self.sure]
        views = [self._view_of(first, seen[place].maps, seen[place].key) for place in unsure]
        looks = first.extractor.look_closer([seen[place] for place in unsure], views, self.closer.store)
        for each in self.views:
            each.threshold_override, each.false_rejections = first.threshold_override, first.false_rejections
        return {
            place: (self.views[view], look)
            for place, view, look in zip(unsure, views, looks, strict=True)
            if isinstance(look, Embedded)
        }

    def improve(
        self, first: MapClassifier, seen: Sequence[Embedded], predictions: Sequence[Prediction]
    ) -> list[Prediction]:
        """Return the predictions of photos, after a second look if they are unsure."""
        improved = list(predictions)
        for place, (closer, look) in self.again(first, seen, predictions).items():
            improved[place] = replace(closer.predict(look.maps, look.key), near_copy_of=predictions[place].near_copy_of)
        return improved
