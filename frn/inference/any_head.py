"""Classification with heads other than FRN's: only the comparison of maps differs.

The error of a class is its negative log-probability, and a photo's energy is 1. A class explains one minus its error,
at least 0, and the threshold is calibrated on these values. The head of an exported model is the `head.onnx` next to
it. A head without that file runs in torch, from the model file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.features.onnx_runtime import MAX_BYTES, ForeignModel, Session
from frn.inference.classifier import Classifier
from frn.inference.unknown import Shares
from frn.models.zoo import HEAD_FILE, WEIGHTS, is_exported
from frn.projects.session import State
from frn.ridge.enrolment import Array, EnrolledClass, Floats
from frn.ridge.parameters import HeadParameters
from frn.system.extras import needs_torch
from frn.system.file_sets import read_member

Logits = Callable[[Maps, Maps], Floats]
"""A head: logits (n, way) from supports (way, k, r, d) and queries (n, r, d)."""


def classifier_over(extractor: Extractor, store: FeatureStore | None = None) -> Classifier:
    """Return a classifier without classes for a model with any head.

    Raises FrnError if the model is exported and its head is missing or belongs to another model.
    """
    if extractor.head is not None:
        return Classifier(extractor, store)
    where = Path(extractor.where)
    graph, weights = where.with_name(HEAD_FILE), where.with_name(WEIGHTS) if is_exported(where) else where
    if is_exported(where) and graph.is_file():
        data = read_member(graph, MAX_BYTES)
        return OtherHeadClassifier(extractor, ForeignModel(data, str(graph), "cpu", extractor.threads), store, data)
    if not weights.is_file():
        raise FrnError(
            f"{where}: its {extractor.method} head must be in the same folder, as {HEAD_FILE}. Export the model again "
            "(with --weights if this head cannot be exported), or pass the model file or the run folder."
        )
    try:
        from frn.models.model import head_logits
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FrnError(needs_torch(f"{where}: its {extractor.method} head is only in {WEIGHTS}, which")) from error
    return OtherHeadClassifier(extractor, head_logits(weights), store)


def as_shots(pools: Sequence[Maps]) -> Maps:
    """Return supports (way, k, r, d) for classes of different sizes; photos of smaller classes are repeated."""
    most = max(map(len, pools))
    return np.stack([pool[np.arange(most) % len(pool)] for pool in pools])


class OtherHeadClassifier(Classifier):
    """A classifier whose head compares queries with the enrolled classes."""

    def __init__(
        self,
        extractor: Extractor,
        head: Logits | Session,
        store: FeatureStore | None = None,
        graph: bytes | None = None,
    ) -> None:
        """Use a head: a function, or an open `head.onnx` with its bytes in `graph`.

        Raises FrnError if the file is not the head of this extractor.
        """
        super().__init__(extractor, store, HeadParameters())
        if isinstance(head, Session):
            session = head
            found = {name: tuple(shape[-2:]) for name, _, shape in session.inputs}
            if found != dict.fromkeys(("support", "query"), extractor.shape):
                raise FrnError(f"{extractor.where}: the {HEAD_FILE} next to it is not the head of this model")
            self.logits: Logits = lambda support, query: session.run({"support": support, "query": query})
        else:
            self.logits = head
        self.graph = graph
        self.pools: dict[str, Maps] = {}
        """Supports of each class, (k, r, d)."""

    def adopt(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Enroll the classes of a state, with feature maps (r, d) by content key."""
        self.hold(state, feature_maps)
        self.left_out = self._leave_out(feature_maps)
        errors, labels, *_ = self.left_out
        own = 1 - errors[np.arange(len(labels)), labels]
        self.leave_one_out = {
            name: own[labels == label].clip(0) for label, name in enumerate(self.pools) if (labels == label).any()
        }

    def hold(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Take the classes of a state like `adopt`, without the leave-one-out errors, which take a run per example."""
        self.state = state
        self.pools = {c.name: np.stack([feature_maps[s.key] for s in c.supports]) for c in state.classes}
        nothing = np.array([], np.float32)
        self.classes = dict.fromkeys(self.pools, EnrolledClass(nothing, nothing, nothing))
        self._own_errors = {s.key: (c.name, np.array([])) for c in state.classes for s in c.supports}
        self.maps = None
        self.mark_others({})
        self._places = {s.key: place for c in state.classes for place, s in enumerate(c.supports)}

    def error_maps(self, feature_maps: Maps, key: str | None = None) -> Floats:
        """Raise FrnError: only FRN can show which parts of a photo are badly reconstructed."""
        raise FrnError(f"a {self.extractor.method} model has no error maps. Use one trained with --method frn.")

    def _use_stored(self, state: State) -> bool:
        return False

    def energy(self, maps: Maps) -> Shares:
        """Return 1 for each map."""
        return np.ones(len(maps))

    def _distances(self, maps: Maps, keys: Sequence[str | None]) -> Array:
        """Return 1 for each map and class, because other heads need not compare mean locations."""
        return np.ones((len(maps), len(self.pools)))

    def _class_errors(self, maps: Maps, keys: Sequence[str | None]) -> Array:
        """Return negative log-probabilities (n, way) of maps (n, r, d); examples by leave-one-out."""
        if not self.pools:
            raise FrnError("no classes yet: enroll some first")
        errors = self._compare(list(self.pools.values()), maps)
        for row, key in enumerate(keys):
            if key in self._own_errors:
                errors[row] = self.errors_without(maps[row], key)
        return errors

    def _compare(self, pools: Sequence[Maps], maps: Maps) -> Array:
        """Return negative log-probabilities (n, way) of maps (n, r, d) from the supports of each class."""
        if len(pools) == 1:
            return np.zeros((len(maps), 1))
        logits = self.logits(as_shots(pools), maps).astype(np.float64)
        above = logits - logits.max(1, keepdims=True)
        return np.log(np.exp(above).sum(1, keepdims=True)) - above

    def _refined(self, errors: Array, maps: Maps, keys: Sequence[str | None]) -> tuple[Array, float]:
        raise FrnError(
            f"a {self.extractor.method} model does not support transductive inference. Use one trained with "
            "--method frn."
        )

    def errors_without(self, query: Maps, key: str) -> Array:
        """Return errors (way,) of an example; if its class has no other example, that class explains nothing."""
        own, _ = self._own_errors[key]
        rest = np.delete(self.pools[own], self._places[key], axis=0)
        pools = {name: rest if name == own else pool for name, pool in self.pools.items()}
        present = {name: pool for name, pool in pools.items() if len(pool)}
        errors = np.ones(len(pools))
        if present:
            (found,) = self._compare(list(present.values()), query[None])
            errors[[name in present for name in pools]] = found
            errors[[name not in present for name in pools]] = max(1.0, found.max())
        return errors
