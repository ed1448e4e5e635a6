"""Measure how fast photos are scored against many enrolled classes, all at once and one class after the other."""

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Annotated

import numpy as np
import typer
from bench import AnyRounds, AsJson, run
from bench.timing import take_turns
from numpy.typing import NDArray

from frn.cli.shell.console import print_json, print_table, progress_bar, stdout, user_errors
from frn.ridge.enrolment import ClassScorer, EnrolledClass, Floats, enroll
from frn.ridge.parameters import HeadParameters

DRAWN = 50
"""Number of classes with random features; all further classes are copies in separate memory."""
OURS, PLAIN = "frn", "class by class"


@dataclass(frozen=True, slots=True)
class ClassesCase:
    """The size of a test: r locations of d channels per photo, and the number of photos that are scored at once."""

    d: int
    r: int
    shot: int
    way: int
    photos: int


@dataclass(frozen=True, slots=True)
class ClassesTiming:
    """The measurements for one size of data."""

    case: ClassesCase
    milliseconds: dict[str, float]
    """Milliseconds per photo for each method."""
    megabytes: float
    """Megabytes of the enrolled classes."""
    more_megabytes: float
    """Megabytes that scoring needs in addition, at its peak."""

    @property
    def times_as_fast(self) -> float:
        """Return how many times as fast all classes at once are as one class after the other."""
        return self.milliseconds[PLAIN] / self.milliseconds[OURS]

    def as_json(self) -> dict[str, object]:
        """Return the record that `classes.py --json` prints."""
        sizes = {"megabytes": self.megabytes, "more_megabytes": self.more_megabytes}
        times = {"milliseconds": self.milliseconds, "times_as_fast": self.times_as_fast}
        return {**asdict(self.case), **times, **sizes}


def time_classes(case: ClassesCase, *, rounds: int | None) -> ClassesTiming:
    """Measure how long numpy takes to score photos. `rounds` is passed to `take_turns`; BLAS should use one thread."""
    draws, head = np.random.default_rng(0), HeadParameters()
    sampled = [enroll(draws.standard_normal((case.shot, case.r, case.d)), head) for _ in range(min(case.way, DRAWN))]
    classes = [replace(sampled[n % DRAWN], rows=sampled[n % DRAWN].rows.copy()) for n in range(case.way)]
    queries = draws.standard_normal((case.photos, case.r, case.d)).astype(np.float32)
    scorer = ClassScorer(classes)
    more = _peak(lambda: [scorer.class_error(queries) for _ in range(1 + case.d // (case.r * case.photos))])
    ms = take_turns(
        {OURS: lambda: scorer.class_error(queries), PLAIN: lambda: class_by_class(classes, queries)}, rounds=rounds
    )
    taken = sum(enrolled.rows.nbytes for enrolled in classes)
    return ClassesTiming(case, {name: each / case.photos for name, each in ms.items()}, taken / 1e6, more / 1e6)


def class_by_class(classes: Sequence[EnrolledClass], queries: NDArray[np.floating]) -> Floats:
    """Compute the errors (q, way) of maps (q, r, d) class by class, each with a product, a square and a sum."""
    length = np.square(queries).sum(-1)
    errors = [length - np.square(queries @ enrolled.rows.T) @ enrolled.signs for enrolled in classes]
    joined: Floats = np.stack(errors, axis=-1).mean(1)
    return joined


def _peak(work: Callable[[], object]) -> int:
    """Return the largest number of bytes that arrays take during a call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main(
    way: Annotated[
        list[int] | None, typer.Option(min=1, help="Enrolled classes.", show_default="100, 1,000 and 10,000")
    ] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Photos of each.", show_default="1, 5 and 20")] = None,
    d: Annotated[int, typer.Option(min=1, help="Channels.")] = 64,
    r: Annotated[int, typer.Option(min=1, help="Locations of a map.")] = 25,
    photos: Annotated[list[int] | None, typer.Option(min=1, help="Scored at once.", show_default="1 and 16")] = None,
    rounds: AnyRounds = None,
    as_json: AsJson = False,
) -> None:
    """Score feature maps of photos against many classes, all at once and one class after the other, on one thread.

    The command also measures how much memory the classes and the scoring take. 10,000 classes of 5 photos at d = 640
    take 3 GB.
    """
    with user_errors():
        cases = [
            ClassesCase(d=d, r=r, shot=k, way=n, photos=at_once)
            for k, n, at_once in product(shot or (1, 5, 20), way or (100, 1000, 10_000), photos or (1, 16))
        ]
        timings = []
        with progress_bar("measuring") as show:
            for case in cases:
                timings.append(time_classes(case, rounds=rounds))
                show(len(timings), len(cases))
    found = [timing.as_json() for timing in timings]
    if as_json:
        print_json(found)
        return
    print_table(
        ("classes", "at once", "ms a photo", PLAIN, "times as fast", "MB", "more MB"),
        (
            (
                f"{t.case.way:,} of {t.case.shot}",
                str(t.case.photos),
                f"{t.milliseconds[OURS]:,.2f}",
                f"{t.milliseconds[PLAIN]:,.2f}",
                f"{t.times_as_fast:,.1f}",
                f"{t.megabytes:,.0f}",
                f"{t.more_megabytes:,.0f}",
            )
            for t in timings
        ),
    )
    stdout().print(f"d = {d}, r = {r}; MB: of the enrolled classes, and what scoring takes beside them at most")


if __name__ == "__main__":
    run(main)
