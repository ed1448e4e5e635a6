"""Classification with heads other than FRN's: torch compares the maps, everything else is the same.

The error of a class is its negative log-probability, and a photo's energy is 1. A class explains one minus its error,
at least 0, and the threshold is calibrated on these values.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import EnrolledForm
from frn.inference.extractor import Extractor
from frn.inference.feature_cache import FeatureStore, Maps
from frn.inference.session import State
from frn.inference.unknown import Shares
from frn.models.zoo import is_exported
from frn.ridge.enrolment import Array, EnrolledClass, Floats
from frn.ridge.parameters import HeadParameters

if TYPE_CHECKING:
    from frn.models.head_scores import HeadScores


def classifier_over(extractor: Extractor, store: FeatureStore | None = None) -> Classifier:
    """Return a classifier without classes for a model with any head.

    Raises:
        FrnError: if the model is exported, and its head is not FRN's.
    """
    if extractor.head is not None:
        return Classifier(extractor, store)
    if is_exported(Path(extractor.where)):
        raise FrnError(
            f"{extractor.where}: contains no {extractor.method} head. Use the model file or the run folder, or a model "
            "trained with --method frn."
        )
    from frn.models.head_scores import head_scores  # torch has just exported the extractor

    return OtherHeadClassifier(extractor, head_scores(Path(extractor.where)), store)


class OtherHeadClassifier(Classifier):
    """Enrolled classes that a torch head compares with queries."""

    def __init__(self, extractor: Extractor, scores: "HeadScores", store: FeatureStore | None = None) -> None:
        super().__init__(extractor, store, HeadParameters())
        self.scores = scores
        self.pools: dict[str, Maps] = {}
        """Supports of each class, (k, r, d)."""

    def adopt(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Enroll the classes of a state, with feature maps (r, d) by content key."""
        self.state = state
        self.pools = {c.name: np.stack([feature_maps[s.key] for s in c.supports]) for c in state.classes}
        nothing = EnrolledClass(np.zeros((0, self.extractor.shape[1]), np.float32), np.zeros(0, np.float32))
        self.classes = dict.fromkeys(self.pools, nothing)
        self._own_errors = {s.key: (c.name, np.zeros(0)) for c in state.classes for s in c.supports}
        self._others = self.maps = None
        self._places = {s.key: place for c in state.classes for place, s in enumerate(c.supports)}
        self.left_out = self._leave_out(feature_maps)
        errors, labels, _ = self.left_out
        own = 1 - errors[np.arange(len(labels)), labels]
        self.leave_one_out = {
            name: own[labels == label].clip(0) for label, name in enumerate(self.pools) if (labels == label).any()
        }

    def error_maps(self, feature_maps: Maps, key: str | None = None) -> Floats:
        """Raise FrnError: only FRN can show where a photo is badly reconstructed."""
        raise FrnError(f"a {self.extractor.method} model has no error maps. Use one trained with --method frn.")

    def _stored_form(self, state: State) -> EnrolledForm | None:
        return None

    def _energy(self, maps: Maps) -> Shares:
        return np.ones(len(maps))

    def _class_errors(self, maps: Maps, keys: Sequence[str | None]) -> Array:
        """Return negative log-probabilities (n, way) of maps (n, r, d); examples are scored without themselves."""
        if not self.pools:
            raise FrnError("there is no class yet: enroll some first")
        errors = -self.scores(list(self.pools.values()), maps)
        for row, key in enumerate(keys):
            if key in self._own_errors:
                errors[row] = self._errors_without(maps[row], key)
        return errors

    def _refined(self, errors: Array, maps: Maps, keys: Sequence[str | None]) -> tuple[Array, float]:
        raise FrnError(
            f"a {self.extractor.method} model does not support transductive inference. Use one trained with "
            "--method frn."
        )

    def _errors_without(self, query: Maps, key: str) -> Array:
        """Return errors (way,) of an example; if its class has no other example, that class explains nothing."""
        own, _ = self._own_errors[key]
        rest = np.delete(self.pools[own], self._places[key], axis=0)
        pools = {name: rest if name == own else pool for name, pool in self.pools.items()}
        present = {name: pool for name, pool in pools.items() if len(pool)}
        errors = np.ones(len(pools))
        if present:
            (scores,) = self.scores(list(present.values()), query[None])
            errors[[name in present for name in pools]] = -scores
            errors[[name not in present for name in pools]] = max(1.0, -scores.min())
        return errors
