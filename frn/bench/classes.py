"""Photos against many enrolled classes: ours beside one class after the other."""

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from frn.bench.timing import take_turns
from frn.ridge.enrolment import ClassScorer, EnrolledClass, Floats, enroll
from frn.ridge.parameters import HeadParameters

DRAWN = 50
"""Classes that are drawn; others have the same numbers, in memory of their own."""
OURS, PLAIN = "frn", "class by class"


@dataclass(frozen=True, slots=True)
class ClassesCase:
    """What is scored: r locations of d channels a photo, so many photos at once."""

    d: int
    r: int
    shot: int
    way: int
    photos: int


@dataclass(frozen=True, slots=True)
class ClassesTiming:
    """A case and what it took."""

    case: ClassesCase
    milliseconds: dict[str, float]
    """A photo's, by contestant."""
    megabytes: float
    """What the enrolled classes take."""
    more_megabytes: float
    """What scoring takes beside them at most."""

    @property
    def times_as_fast(self) -> float:
        """Ours beside one class after the other."""
        return self.milliseconds[PLAIN] / self.milliseconds[OURS]

    def as_json(self) -> dict[str, object]:
        """Plain numbers, by name."""
        sizes = {"megabytes": self.megabytes, "more_megabytes": self.more_megabytes}
        times = {"milliseconds": self.milliseconds, "times_as_fast": self.times_as_fast}
        return {**asdict(self.case), **times, **sizes}


def time_classes(case: ClassesCase, *, rounds: int | None) -> ClassesTiming:
    """Time scoring, by numpy, whose BLAS should have one thread; `rounds` as for `take_turns`."""
    draws, head = np.random.default_rng(0), HeadParameters()
    sampled = [enroll(draws.standard_normal((case.shot, case.r, case.d)), head) for _ in range(min(case.way, DRAWN))]
    classes = [EnrolledClass(sampled[n % DRAWN].rows.copy(), sampled[n % DRAWN].signs) for n in range(case.way)]
    queries = draws.standard_normal((case.photos, case.r, case.d)).astype(np.float32)
    scorer = ClassScorer(classes)
    more = _peak(lambda: [scorer.class_error(queries) for _ in range(1 + case.d // (case.r * case.photos))])
    ms = take_turns(
        {OURS: lambda: scorer.class_error(queries), PLAIN: lambda: class_by_class(classes, queries)}, rounds=rounds
    )
    taken = sum(enrolled.rows.nbytes for enrolled in classes)
    return ClassesTiming(case, {name: each / case.photos for name, each in ms.items()}, taken / 1e6, more / 1e6)


def class_by_class(classes: Sequence[EnrolledClass], queries: NDArray[np.floating]) -> Floats:
    """Errors (q, way) of maps (q, r, d): a product, a square and a sum for each class."""
    length = np.square(queries).sum(-1)
    errors = [length - np.square(queries @ enrolled.rows.T) @ enrolled.signs for enrolled in classes]
    joined: Floats = np.stack(errors, axis=-1).mean(1)
    return joined


def _peak(work: Callable[[], object]) -> int:
    """Bytes that arrays take at most meanwhile."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
