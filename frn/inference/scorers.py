"""Compare photos with enrolled classes: FRN's by reconstruction, those of other heads by running the head.

Both give an error for each class, of which the least decides, and score examples by leave-one-out. FRN's error is
Eq. 4. With any other head, the error of a class is its negative log-probability, and a photo's energy is 1. So a class
explains one minus its error, at least 0, and the threshold is calibrated on these values. The head of an exported model
is the `head.onnx` next to it. A head without that file runs in torch, from the model file.

Shape letters: way classes, k examples of a class, n photos, r locations, d channels.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import MAX_MODEL_BYTES, ForeignModel, Session
from frn.inference.enrolled_form import EnrolledForm
from frn.inference.unknown.rule import Shares, without_itself
from frn.models.zoo import HEAD_FILE, WEIGHTS, is_exported
from frn.ridge.enrolment import Array, ClassScorer, Floats, allowed, energy
from frn.ridge.unequal import by_content, without_one
from frn.ridge.unlabelled.transductive import refine
from frn.system.extras import needs_torch
from frn.system.file_sets import read_member

Logits = Callable[[Maps, Maps], Floats]  # a head: logits (n, way) from supports (way, k, r, d) and queries (n, r, d)
Key = str | None  # content key of a photo, which tells whether it is an example; None if it is not one


class Scorer(Protocol):
    """Compares photos with the classes of a state."""

    names: list[str]

    def example_of(self, key: Key) -> str | None:
        """Return the class that has the photo with this content key among its examples."""

    def energy(self, maps: Maps) -> Shares:
        """Return the energies (n,) of maps (n, r, d), which are what errors are compared with."""

    def class_errors(self, maps: Maps, keys: Sequence[Key]) -> Array:
        """Return class errors (n, way) of maps (n, r, d); examples by leave-one-out."""

    def distances(self, maps: Maps, keys: Sequence[Key]) -> Array:
        """Return distances (n, way) from maps (n, r, d) to the classes' centres; examples by leave-one-out."""

    def smaller(self, keys: Sequence[Key]) -> Shares:
        """Return errors and distances (n, 2) of examples for their class as if it were as small as the smallest.

        They are negative if they are not known.
        """

    def location_errors(self, maps: Maps, key: Key) -> Floats:
        """Return the squared error of each location of a map (r, d) by each class, (r, way); examples leave-one-out."""

    def refined(
        self, errors: Array, maps: Maps, keys: Sequence[Key], pools: Callable[[], Sequence[Maps]]
    ) -> tuple[Array, float]:
        """Return errors (n, way) of classes that the maps (n, r, d) refine, and gamma; examples keep their errors.

        `pools` returns the examples (k, r, d) of each class.
        """


class Reconstruction:
    """Classes that reconstruct photos."""

    def __init__(self, form: EnrolledForm, joined: ClassScorer | None = None) -> None:
        """Use enrolled classes, and the scorer of their rows if there is one."""
        self.names = list(form.classes)
        self.head, self.classes, self.own_errors = form.head, form.classes, form.own_errors
        self._joined = joined
        self._columns = {name: column for column, name in enumerate(self.names)}
        self._smaller = form.smaller
        counts = Counter(name for name, _ in form.own_errors.values())
        self._counts = [counts[name] for name in self.names]

    @cached_property
    def joined(self) -> ClassScorer:
        return self._joined or ClassScorer(list(self.classes.values()))

    def example_of(self, key: Key) -> str | None:
        return self.own_errors[key][0] if key in self.own_errors else None

    def energy(self, maps: Maps) -> Shares:
        return energy(maps)

    def class_errors(self, maps: Maps, keys: Sequence[Key]) -> Array:
        errors = self.joined.class_error(maps).astype(np.float64)
        self.leave_out(errors, keys, lambda row: float(energy(maps[row, None])[0]))
        return errors

    def leave_out(self, errors: Array, keys: Sequence[Key], energy_of: Callable[[int], float]) -> None:
        """Put the leave-one-out errors of examples into class errors (n, way); `energy_of` is that of a row."""
        least = min(self._counts)
        for row, key in enumerate(keys):
            if key in self.own_errors:
                name, without = self.own_errors[key]
                column = self._columns[name]
                more, error = without_one(self.classes[name].allowance, self._counts[column], least), without.mean()
                errors[row, column] = error + (allowed(error, energy_of(row), *more) if more.share else 0.0)

    def distances(self, maps: Maps, keys: Sequence[Key]) -> Array:
        labels = [self._columns[self.own_errors[key][0]] if key in self.own_errors else None for key in keys]
        return without_itself(self.joined.centres.distance(maps), labels, self._counts)

    def smaller(self, keys: Sequence[Key]) -> Shares:
        scale = self.joined.centres.scale
        results = [self._smaller.get(key or "") for key in keys]
        return np.array([(each[0], each[1] / scale) if each else (-1.0, -1.0) for each in results]).reshape(-1, 2)

    def location_errors(self, maps: Maps, key: Key) -> Floats:
        error = self.joined.location_error(maps[None])[0]
        if key in self.own_errors:
            name, without = self.own_errors[key]
            error[:, self._columns[name]] = without
        return error

    def refined(
        self, errors: Array, maps: Maps, keys: Sequence[Key], pools: Callable[[], Sequence[Maps]]
    ) -> tuple[Array, float]:
        first: dict[object, int] = {}  # a photo that is listed twice refines the classes once
        for row, key in enumerate(keys):
            if key not in self.own_errors:
                first.setdefault(row if key is None else key, row)
        if not first:
            return errors, self.head.gamma
        queries = list(first.values())
        refined, gamma = refine(errors[queries], pools(), maps[queries], self.head)
        errors[queries] = self.joined.with_allowances(refined, energy(maps[queries]))
        for row, key in enumerate(keys):
            errors[row] = errors[first.get(key, row)]
        return errors, gamma


@dataclass(slots=True)
class OtherHead:
    """A head other than FRN's, which compares photos with the examples of each class."""

    method: str
    logits: Logits
    graph: bytes | None = None  # bytes of its `head.onnx`; None if it runs in torch
    unequal: str = ""  # what stands for classes of different sizes, as `as_shots` describes

    @classmethod
    def of_graph(cls, session: Session, graph: bytes, extractor: Extractor) -> "OtherHead":
        """Return the head of an open `head.onnx`. Raises FrnError if it is not that of this extractor."""
        sizes = {name: tuple(shape[-2:]) for name, _, shape in session.inputs}
        if sizes != dict.fromkeys(("support", "query"), extractor.shape):
            raise FrnError(f"{extractor.where}: the {HEAD_FILE} next to it is not the head of this model")
        return cls(
            extractor.method,
            lambda support, query: session.run({"support": support, "query": query}),
            graph,
            session.metadata.get(UNEQUAL, ""),
        )

    @classmethod
    def find(cls, extractor: Extractor) -> "OtherHead":
        """Open the head of a model.

        Raises FrnError if the model is exported and its head is missing or belongs to another model.
        """
        where = Path(extractor.where)
        graph, weights = where.with_name(HEAD_FILE), where.with_name(WEIGHTS) if is_exported(where) else where
        if is_exported(where) and graph.is_file():
            data = read_member(graph, MAX_MODEL_BYTES)
            return cls.of_graph(ForeignModel(data, str(graph), "cpu", extractor.threads), data, extractor)
        if not weights.is_file():
            raise FrnError(
                f"{where}: its {extractor.method} head must be in the same folder, as {HEAD_FILE}. Export the model "
                "again (with --weights if this head cannot be exported), or pass the model file or the run folder."
            )
        try:
            from frn.models.model import head_logits
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise FrnError(needs_torch(f"{where}: its {extractor.method} head is only in {WEIGHTS}, which")) from error
        logits, unequal = head_logits(weights)
        return cls(extractor.method, logits, unequal=unequal)


class Comparison:
    """Classes whose examples a head compares with photos."""

    def __init__(self, head: OtherHead, pools: Mapping[str, Maps], keys: Mapping[str, Sequence[str]]) -> None:
        """Use a head, and the maps (k, r, d) and content keys of each class's examples."""
        self.names, self.pools, self._head = list(pools), dict(pools), head
        self._places = {key: (name, place) for name in pools for place, key in enumerate(keys[name])}

    def example_of(self, key: Key) -> str | None:
        return self._places[key][0] if key in self._places else None

    def energy(self, maps: Maps) -> Shares:
        return np.ones(len(maps))

    def class_errors(self, maps: Maps, keys: Sequence[Key]) -> Array:
        errors = self._compare(list(self.pools.values()), maps)
        for row, key in enumerate(keys):
            if key in self._places:
                errors[row] = self.errors_without(maps[row], key)
        return errors

    def errors_without(self, query: Maps, key: str) -> Array:
        """Return errors (way,) of an example; if its class has no other example, that class explains nothing."""
        owner, place = self._places[key]
        pools = self.pools | {owner: np.delete(self.pools[owner], place, axis=0)}
        present = {name: pool for name, pool in pools.items() if len(pool)}
        errors = np.ones(len(pools))
        if present:
            (of_present,) = self._compare(list(present.values()), query[None])
            errors[[name in present for name in pools]] = of_present
            errors[[name not in present for name in pools]] = max(1.0, of_present.max())
        return errors

    def _compare(self, pools: Sequence[Maps], maps: Maps) -> Array:
        """Return negative log-probabilities (n, way) of maps (n, r, d) from the supports of each class."""
        if len(pools) == 1:
            return np.zeros((len(maps), 1))
        logits = self._head.logits(as_shots(pools, self._head.unequal), maps).astype(np.float64)
        above = logits - logits.max(1, keepdims=True)
        return np.log(np.exp(above).sum(1, keepdims=True)) - above

    def distances(self, maps: Maps, keys: Sequence[Key]) -> Array:
        return np.ones((len(maps), len(self.names)))  # other heads need not compare mean locations

    def smaller(self, keys: Sequence[Key]) -> Shares:
        return np.full((len(keys), 2), -1.0)

    def location_errors(self, maps: Maps, key: Key) -> Floats:
        raise FrnError(f"a {self._head.method} model has no error maps. Use one trained with --method frn.")

    def refined(
        self, errors: Array, maps: Maps, keys: Sequence[Key], pools: Callable[[], Sequence[Maps]]
    ) -> tuple[Array, float]:
        raise FrnError(
            f"a {self._head.method} model does not support transductive inference. Use one trained with --method frn."
        )


UNEQUAL = "frn.unequal"  # metadata of `head.onnx`: the `unequal` of the head
MOST_REPEATED = 60  # largest number of photos of a class after repeats: the least common multiple of up to 6


def as_shots(pools: Sequence[Maps], unequal: str = "") -> Maps:
    """Return supports (way, k, r, d) for classes of different sizes.

    Args:
        pools: maps (k, r, d) of the photos of each class.
        unequal: the head's, as `frn.heads.head` describes it. With "mean", the mean map stands for a class; with
            "repeat", k is the least common multiple of the sizes, up to `MOST_REPEATED`. Otherwise, k is the largest
            size, and some photos of smaller classes are repeated (`unequal.by_content`).
    """
    if unequal == "mean":
        return np.stack([pool.mean(0, keepdims=True) for pool in pools])
    sizes = [len(pool) for pool in pools]
    common = math.lcm(*sizes)
    shots = common if unequal == "repeat" and common <= MOST_REPEATED else max(sizes)
    return np.stack([pool[by_content(pool)[np.arange(shots) % len(pool)]] for pool in pools])
