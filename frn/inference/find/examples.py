"""Examples of classes whose subjects are searched for: what their boxes teach, their subjects, and leave-one-out.

Shape letters: way classes, n examples, r locations, d channels.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps, content_key
from frn.images.boxes import Box, box_name, split_box
from frn.inference.enrolled_form import FIND_VERSION, LeftOut, keep, recall
from frn.inference.find.finder import SCALE, Finder, Sought
from frn.projects.session import State, Support
from frn.ridge.enrolment import Array, ClassScorer, EnrolledClass, energy, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_classes
from frn.ridge.unequal import as_smallest, without_one

PENALTY, MOST_BOXES = 0.3, 100
"""Penalty of the regression, relative to the mean square of a channel, and how many boxes it learns from."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What boxes of examples teach: a ridge regression of the cells of their photos."""

    finder: Finder
    boxes: tuple[Path, ...]
    key: str  # hash of the content of these boxes, and of the model
    weights: Array  # `Sought.weights`, (d,)

    def without(self, path: Path) -> Array:
        """Return the weights (d,) learned from all boxes, or all but that of an example if there are several."""
        leaves_out = path in self.boxes and len(self.boxes) > 1
        return _regression(self._totals - _sums(self.finder, path) if leaves_out else self._totals)

    @cached_property
    def _totals(self) -> Array:
        return _total(self.finder, self.boxes)


def learn(finder: Finder, examples: Iterable[Path], store: FeatureStore | None, last: Lesson | None = None) -> Lesson:
    """Learn from the boxes of examples; those that cannot be read do not count.

    The lesson that was `last` is returned if it is from the same boxes.
    """
    boxes = [path for path in examples if split_box(path)[1] is not None]
    boxes = boxes[:: max(1, math.ceil(len(boxes) / MOST_BOXES))]
    extractor = finder.extractor
    keys = extractor.keys([split_box(path)[0] for path in boxes], store)
    read = {path: key for path, key in zip(boxes, keys, strict=True) if isinstance(key, str)}
    text = json.dumps([FIND_VERSION, extractor.sha256, [[key, split_box(path)[1]] for path, key in read.items()]])
    key = f"subjects-{content_key(text.encode())}"
    if last is not None and (last.finder, last.boxes, last.key) == (finder, tuple(read), key):
        return last
    stored = recall(store, extractor, key, list[float])
    if stored is not None and len(stored) == extractor.shape[1] and np.isfinite(stored).all():
        return Lesson(finder, tuple(read), key, np.array(stored))
    weights = _regression(_total(finder, read))
    keep(store, extractor, key, weights.tolist())
    return Lesson(finder, tuple(read), key, weights)


def _regression(totals: Array) -> Array:
    squares, products = totals[:, :-1], totals[:, -1]
    d = len(products) - 1
    if not products.any():
        return np.zeros(d)
    penalty = np.full(d + 1, PENALTY * np.trace(squares[:-1, :-1]) / d)
    penalty[-1] = 1e-9  # of the constant
    return np.linalg.solve(squares + np.diag(penalty), products)[:-1].astype(np.float64)


def _total(finder: Finder, boxes: Iterable[Path]) -> Array:
    d = finder.extractor.shape[1]
    total = np.zeros((d + 1, d + 2))
    for path in boxes:
        total += _sums(finder, path)
    return total


def _sums(finder: Finder, path: Path) -> Array:
    """Return the sums (d + 1, d + 2) of the regression over the cells of a photo: squares and products.

    The target of cells within the box is 1, that of the others - 1; the box weighs as much as its surroundings. A box
    without a pixel of the photo does not count.
    """
    file, box = split_box(path)
    assert box is not None  # it is learned from
    nothing = np.zeros((finder.extractor.shape[1] + 1, finder.extractor.shape[1] + 2))
    try:
        pixels, size = finder.pixels(file)
        if box.left >= size[0] or box.top >= size[1] or not box.width * box.height:
            return nothing
        maps = finder.maps(pixels, SCALE)
    except FrnError:  # reading it will say why
        return nothing
    rows, columns, d = maps.shape
    across = np.abs((np.arange(columns) + 0.5) * size[0] / columns - box.left - box.width / 2) / box.width
    down = np.abs((np.arange(rows) + 0.5) * size[1] / rows - box.top - box.height / 2) / box.height
    far = np.maximum(across, down[:, None]).ravel()
    inside = far <= max(0.5, far.min())  # at least the nearest cell
    share = np.where(inside, 0.5 / inside.sum(), 0.5 / max((~inside).sum(), 1))
    cells = np.append(maps.reshape(-1, d), np.ones((len(far), 1)), 1)
    sums: Array = (cells * share[:, None]).T @ np.column_stack([cells, np.where(inside, 1.0, -1.0)])
    return sums


def boxed_examples(finder: Finder, listed: State, store: FeatureStore | None) -> State:
    """Return a state with boxes for the examples without one, found from those of all classes that have one.

    Without any box, all examples stay whole; so do those of a class without a box.
    """
    boxed = [[s.path for s in entry.supports if split_box(s.path)[1] is not None] for entry in listed.classes]
    if not any(boxed):
        return listed
    extractor = finder.extractor
    seeds = [own or [s.path for s in entry.supports] for entry, own in zip(listed.classes, boxed, strict=True)]
    read = [[each for _, each in extractor.read(paths, store=store) if isinstance(each, Embedded)] for paths in seeds]
    if not all(read):
        return listed  # reading it again will say why
    pools = [np.stack([*{each.key: each.maps for each in seen}.values()]) for seen in read]
    head, allowed = tune_classes(pools, extractor.prior)
    classes = [replace(enroll(maps, head), allowance=more) for maps, more in zip(pools, allowed, strict=True)]
    lesson = learn(finder, [path for paths in boxed for path in paths], store)
    sought = Sought(ClassScorer(classes), lesson.weights)
    of = [lesson.key, repr(extractor.prior), [[*{each.key: None for each in seen}] for seen in read]]

    def named(support: Support, own: int) -> Support:
        if not boxed[own] or split_box(support.path)[1] is not None:
            return support
        (key,) = extractor.keys([support.path], store)
        if isinstance(key, FrnError):  # reading it will say why
            return support
        where = f"box-{content_key(json.dumps([*of, own, key]).encode())}"
        box = recall(store, extractor, where, Box)
        if box is None:
            box = split_box(finder.located(support.path, sought, own))[1]
            if box is not None:
                keep(store, extractor, where, box)
        return replace(support, path=Path(box_name(str(support.path), box)), key="") if box else support

    entries = (
        replace(entry, supports=tuple(named(support, own) for support in entry.supports))
        for own, entry in enumerate(listed.classes)
    )
    return replace(listed, classes=tuple(entries))


def left_out(
    extractor: Extractor,
    lesson: Lesson | None,
    state: State,
    examples: Sequence[Support],
    classes: Sequence[EnrolledClass],
    head: HeadParameters,
    feature_maps: Mapping[str, Maps],
    store: FeatureStore | None,
) -> LeftOut:
    """Return the leave-one-out results of examples as new photos.

    With a lesson, the whole photo of each is searched with its class enrolled, and the lesson learned, without it.
    Without one, it is classified whole.
    """
    counts = [len(entry.supports) for entry in state.classes]
    columns = {s.key: column for column, entry in enumerate(state.classes) for s in entry.supports}
    labels = np.array([columns[s.key] for s in examples], dtype=np.intp)
    rest, paths = [], []
    for support, own in zip(examples, labels.tolist(), strict=True):
        others = [feature_maps[s.key] for s in state.classes[own].supports if s.key != support.key]
        more = without_one(classes[own].allowance, counts[own], min(counts))
        rest.append(replace(enroll(np.stack(others), head), allowance=more))
        paths.append(split_box(support.path)[0])
        if lesson is not None:
            scorer = ClassScorer([*classes[:own], rest[-1], *classes[own + 1 :]])
            paths[-1] = lesson.finder.located(paths[-1], Sought(scorer, lesson.without(support.path)))
    read = [outcome for _, outcome in extractor.read(paths, store=store)]
    maps = np.stack(
        [
            outcome.maps if isinstance(outcome, Embedded) else feature_maps[support.key]
            for support, outcome in zip(examples, read, strict=True)
        ]
    )
    together, least = ClassScorer(classes), min(counts)
    errors, distances = together.class_error(maps).astype(np.float64), together.centres.distance(maps)
    smaller = np.full((len(labels), 2), -1.0)
    for row, (each, own) in enumerate(zip(rest, labels.tolist(), strict=True)):
        errors[row, own] = ClassScorer([each]).class_error(maps[row, None])[0, 0]
        offset = maps[row].mean(0, dtype=np.float64) - each.centre
        distances[row, own] = np.square(offset).sum() / together.centres.scale
        if counts[own] > least:
            keys = [s.key for s in state.classes[own].supports]
            pool = np.stack([feature_maps[key] for key in keys])
            error, distance = as_smallest(pool, keys.index(examples[row].key), least, head, maps[row])
            smaller[row] = error, distance / together.centres.scale
    return LeftOut(errors, labels, energy(maps), distances, smaller)
