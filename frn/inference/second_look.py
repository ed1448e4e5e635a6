"""A second look at photos whose answer is unsure, in views, if leave-one-out says that it gains (`--tta auto`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.inference.map_classifier import MapClassifier
from frn.inference.records import Prediction
from frn.projects.session import State
from frn.ridge.parameters import probabilities


class SecondLook:
    """The classes of a classifier as a second extractor sees them."""

    def __init__(self, extractor: Extractor, store: FeatureStore | None = None) -> None:
        self.closer = MapClassifier(extractor, store)
        self.sure = 0.0
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

        Photos get a second look if it is right for more examples by leave-one-out. They are those whose answer is at
        most as sure as the surest one that it corrects: a smaller limit that is as good for the examples is not for
        other photos (`assets/benchmarks/find.py --tta`).
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
        assert first.left_out is not None and closer.left_out is not None  # noqa: PT018  (both have just been enrolled)
        errors, labels, closer_errors = first.left_out.errors, first.left_out.labels, closer.left_out.errors
        if not len(closer_errors):
            return FrnError("no photo is looked at twice: leave-one-out needs a class with two photos")
        if len(errors) < len(closer_errors):  # the app compares the examples with many classes step by step
            return FrnError("no photo is looked at twice yet: the examples are still being compared")
        right, closer_right = (each.argmin(1) == labels for each in (errors, closer_errors))
        gains = closer_right.sum() > right.sum()
        if gains:
            self.sure = float(probabilities(errors, first.head.gamma).max(1)[closer_right & ~right].max()) + 1e-9
        rates = f"right for {closer_right.mean():.0%} of the examples, the first look for {right.mean():.0%}"
        looks = f"answers below {self.sure:.0%} get a second look" if gains else "no photo gets a second look"
        return FrnError(f"{looks}: by leave-one-out, it is {rates}")

    @property
    def maps(self) -> dict[str, Maps]:
        """Return the second extractor's maps of the examples and the photos of no class, by content key."""
        return {**self.closer.example_maps(), **self.closer.other_maps}

    def left_out_answers(self, first: MapClassifier) -> tuple[NDArray[np.intp], float]:
        """Return the labels (n,) of the examples by leave-one-out, and the share of them that gets a second look."""
        assert first.left_out is not None and self.closer.left_out is not None  # noqa: PT018  (`enroll` has set them)
        errors, closer_errors = first.left_out.errors, self.closer.left_out.errors
        unsure = probabilities(errors, first.head.gamma).max(1) < self.sure
        return np.where(unsure, closer_errors.argmin(1), errors.argmin(1)), float(unsure.mean())

    def again(
        self, first: MapClassifier, seen: Sequence[Embedded], predictions: Sequence[Prediction]
    ) -> dict[int, Embedded]:
        """Return the photos that get a second look, by place, as it sees them; one that is gone gets none."""
        self.closer.threshold_override, self.closer.false_rejections = first.threshold_override, first.false_rejections
        unsure = [place for place, each in enumerate(predictions) if max(each.probabilities.values()) < self.sure]
        closer = self.closer.extractor.look_closer([seen[place] for place in unsure], self.closer.store)
        return {place: each for place, each in zip(unsure, closer, strict=True) if isinstance(each, Embedded)}

    def improve(
        self, first: MapClassifier, seen: Sequence[Embedded], predictions: Sequence[Prediction]
    ) -> list[Prediction]:
        """Return the predictions of photos, after a second look if they are unsure."""
        improved = list(predictions)
        for place, again in self.again(first, seen, predictions).items():
            better = self.closer.predict(again.maps, again.key)
            improved[place] = replace(better, near_copy_of=predictions[place].near_copy_of)
        return improved
