"""Find the subject of a photo: the window that one class explains much better than the others do.

A convolutional network maps a larger image to a larger map, and every window of cells is a map of what the window
shows. The errors of a class on all windows are means of its location errors, so box filters over integral images give
them all at once. The margin of a window is the mean error of the other classes minus that of the best one. It is
absolute: a share of the window's energy would favour plain background.

Boxes of examples also show what subjects of all classes have in common, and their surroundings lack: a ridge regression
of the cells of these photos, to 1 within the box and to - 1 outside. Its mean over a window is added to the margin.

Margins of windows of different sizes cannot be compared: means over fewer cells vary more, so the smallest windows
would always win. So the best window of each size is cut from the photo and read at the model's size, and so is the
whole photo. Of these, the one with the largest margin is the subject.

Shape letters: H x W cells of a map, h x w cells of a window, d channels, way classes.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.features.any_size import any_size
from frn.features.extractor import MAX_FEATURE, Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.features.onnx_runtime import ForeignModel, OwnModel
from frn.images.boxes import Box, box_name, split_box
from frn.images.opening import decode_whole, read_file
from frn.images.transforms import Pixels
from frn.inference.enrolled_form import FIND_VERSION, LeftOut, from_bytes, to_bytes
from frn.projects.session import State, Support
from frn.ridge.enrolment import Array, ClassScorer, EnrolledClass, energy, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_classes
from frn.ridge.unequal import as_smallest, without_one

SCALE = 1.5
"""Shorter side at which a photo is searched, relative to the model's."""
PARTS = (1.0, 2 / 3, 1 / 3)
"""Sides of the windows relative to the model's map: 2/3, 4/9 and 2/9 of the photo's shorter side."""
MOST, SHARED = 16, 0.15
"""Maximum number of subjects in a photo, and the largest part of one that may lie within another."""
LEARNED, PENALTY, MOST_BOXES = 0.1, 0.3, 100
"""Weight of the regression, which then spreads as much as the margin; its penalty, relative to the mean square of a
channel; and how many boxes it learns from."""
LEAST_KNOWN = 0.2
"""Least `known` of one of several subjects, because two examples that the search misses can lower the threshold so far
that background reaches it. In ten draws of pasted birds, butterflies and dogs, the number of subjects is then off by
0.25 of 2.3, instead of 0.48."""
STRIP = 10
"""Largest aspect ratio that is kept; longer strips are squeezed, which bounds the memory."""
LONGEST = 1024
"""Longest side at which a photo is searched, in pixels; bounds the work for panoramas."""


def window_means(values: NDArray[np.floating], grid: tuple[int, int]) -> Array:
    """Return the means of all windows of h x w cells: (H, W, way) to (H - h + 1, W - w + 1, way)."""
    h, w = grid
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    np.cumsum(np.cumsum(values, 0, dtype=np.float64), 1, out=sums[1:, 1:])
    return (sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]) / (h * w)


def location_errors(maps: Maps, scorer: ClassScorer) -> tuple[Array, Array]:
    """Return the errors (..., way) of the locations of maps (..., d), with allowances, and squared lengths (..., 1).

    One product over all of them takes a quarter of the time of one for each row.
    """
    lengths = np.vecdot(maps, maps, dtype=np.float64)[..., None]
    errors = scorer.location_error(maps.reshape(1, -1, maps.shape[-1])).reshape(*maps.shape[:-1], -1)
    return errors + lengths * scorer.allowances, lengths


def margins(
    errors: Array, energies: Array, own: int | NDArray[np.intp] | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """Return the margins (...) of errors (..., way) and the best class of each, or those of the class `own`, (...).

    A single class has its energies (...) as the error of the others.
    """
    best = errors.argmin(-1) if own is None else np.broadcast_to(own, errors.shape[:-1])
    least = np.take_along_axis(errors, best[..., None], -1)[..., 0]
    way = errors.shape[-1]
    others = (errors.sum(-1) - least) / (way - 1) if way > 1 else energies
    return others - least, best


Fractions = tuple[float, float, float, float]
"""Left and top edge, width and height of a part of a photo, as fractions of the photo's width and height."""
WHOLE: Fractions = (0.0, 0.0, 1.0, 1.0)


class Finder:
    """Searches photos for the subject of enrolled classes."""

    def __init__(self, extractor: Extractor) -> None:
        """Open the extractor for images of any size.

        Raises FrnError if its network is not convolutional, or its head is not FRN's.
        """
        if extractor.head is None:
            raise FrnError(f"a {extractor.method} model cannot search photos. Use one trained with --method frn.")
        self.extractor, self.where = extractor, extractor.where
        kind = OwnModel if isinstance(extractor.session, OwnModel) else ForeignModel
        self.session = kind(any_size(extractor.data, self.where), self.where, extractor.device, extractor.threads)
        views = extractor.tta == "views"
        self.weights: Array = np.zeros(extractor.shape[1])
        """What was learned from boxes, (d,): cells of subjects have larger products with it."""
        self._learned, self._key = tuple[Path, ...](), ""
        self._totals: Array | None = None
        self.side = extractor.transform.size * 2 // 3 if views else extractor.transform.size
        self.grid = (extractor.grid[0] // 3, extractor.grid[1] // 3) if views else extractor.grid

    def learn(self, examples: Iterable[Path], store: FeatureStore | None) -> None:
        """Learn from the boxes of examples; those that cannot be read do not count."""
        boxes = tuple(path for path in examples if split_box(path)[1] is not None)
        boxes = boxes[:: max(1, -(-len(boxes) // MOST_BOXES))]
        keys = self.extractor.keys([split_box(path)[0] for path in boxes], store)
        read = [(path, key) for path, key in zip(boxes, keys, strict=True) if isinstance(key, str)]
        content = [[key, split_box(path)[1]] for path, key in read]
        text = json.dumps([FIND_VERSION, self.extractor.sha256, content])
        key = "subjects-" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        if key == self._key:
            return
        self._learned, self._totals, self._key = tuple(path for path, _ in read), None, key
        stored = from_bytes(store.get_bytes(self.extractor.sha256, key) if store else None, key, list[float])
        if stored is not None and len(stored) == len(self.weights) and np.isfinite(stored).all():
            self.weights = np.array(stored)
        else:
            self.weights = self._regression()
            if store:
                store.put_bytes(self.extractor.sha256, key, to_bytes(self.weights.tolist(), key))

    def _regression(self, without: Path | None = None) -> Array:
        """Return weights learned from all boxes, or all but one of several."""
        if self._totals is None:
            size = len(self.weights) + 1
            self._totals = np.zeros((size, size + 1))
            for path in self._learned:
                self._totals += self._sums(path)
        totals = self._totals
        if without is not None and without in self._learned and len(self._learned) > 1:
            totals = totals - self._sums(without)
        squares, products = totals[:, :-1], totals[:, -1]
        if not products.any():
            return np.zeros(len(self.weights))
        penalty = np.full(len(products), PENALTY * np.trace(squares[:-1, :-1]) / len(self.weights))
        penalty[-1] = 1e-9  # of the constant
        return np.linalg.solve(squares + np.diag(penalty), products)[:-1].astype(np.float64)

    def _sums(self, path: Path) -> Array:
        """Return the sums (d + 1, d + 2) of the regression over the cells of a photo: squares and products.

        The box weighs as much as its surroundings.
        """
        file, box = split_box(path)
        assert box is not None  # it is learned from
        try:
            pixels, size = self.pixels(file)
            maps = self.maps(pixels, SCALE)
        except FrnError:  # reading it will say why
            return np.zeros((len(self.weights) + 1, len(self.weights) + 2))
        rows, columns, d = maps.shape
        across = np.abs((np.arange(columns) + 0.5) * size[0] / columns - box.left - box.width / 2) / box.width
        down = np.abs((np.arange(rows) + 0.5) * size[1] / rows - box.top - box.height / 2) / box.height
        far = np.maximum(across, down[:, None]).ravel()
        inside = far <= max(0.5, far.min())  # at least the nearest cell
        share = np.where(inside, 0.5 / inside.sum(), 0.5 / max((~inside).sum(), 1))
        cells = np.append(maps.reshape(-1, d), np.ones((len(far), 1)), 1)
        sums: Array = (cells * share[:, None]).T @ np.column_stack([cells, np.where(inside, 1.0, -1.0)])
        return sums

    def box(self, path: Path, scorer: ClassScorer, own: int | None = None) -> Path:
        """Return a photo's name with the box of its subject, or without one if the whole photo has the largest margin.

        A photo that has a box is returned unchanged. With `own`, the subject is the part that this class explains best,
        compared with the others, and not the whole photo. Raises FrnError if the photo cannot be read.
        """
        if split_box(path)[1] is not None:
            return path
        pixels, size = self.pixels(path)
        part, maps = self.best(pixels, scorer, own)
        subject = path if part is WHOLE else Path(box_name(str(path), pixel_box(part, size)))
        if pixels.shape[1::-1] == size:  # not scaled down: reading it would give the same map
            self.extractor.remember(subject, maps, self.extractor.transform(Image.fromarray(cut(pixels, part))))
        return subject

    def box_in(self, image: Image.Image, scorer: ClassScorer) -> Box | None:
        """Return the box of the subject of an upright RGB image that is not a file; None is the whole image."""
        small = image.copy()
        small.thumbnail((LONGEST, LONGEST), Image.Resampling.BILINEAR)
        part, _ = self.best(np.asarray(small), scorer)
        return None if part is WHOLE else pixel_box(part, image.size)

    def best(self, pixels: Pixels, scorer: ClassScorer, own: int | None = None) -> tuple[Fractions, Maps]:
        """Return the part with the largest margin, which with `own` is not `WHOLE`, and its map."""
        windows = self.windows(self.maps(pixels, SCALE), scorer, own)
        parts = [parts[margin.argmax()] for margin, parts in windows]
        looks = [self.look(cut(pixels, part)) for part in parts]
        if own is None:  # in a class with boxes, the subject is a part of the photo
            parts, looks = [WHOLE, *parts], [self.look(pixels), *looks]
        errors, lengths = location_errors(np.stack(looks), scorer)
        best = margins(errors.mean(1), lengths.mean((1, 2)), own)[0].argmax()
        return parts[best], looks[best]

    def look(self, pixels: Pixels) -> Maps:
        """Return the map (r, d) of a part of a photo, read like a photo."""
        return self.extractor.feature_maps(self.extractor.transform(Image.fromarray(pixels))[None])[0]

    def pixels(self, path: Path) -> tuple[Pixels, tuple[int, int]]:
        """Return the pixels of a photo, scaled down if it is large, and its full width and height.

        Raises FrnError if it cannot be read.
        """
        return decode_whole(read_file(path), path, LONGEST)

    def candidates(self, path: Path, scorer: ClassScorer) -> tuple[list[Box], Maps]:
        """Return the parts of a photo that may be subjects, and their maps: the windows with the largest margins.

        Those of one size overlap little. Raises FrnError if the photo cannot be read.
        """
        pixels, size = self.pixels(path)
        found: dict[Box, Maps] = {}
        for margin, parts in self.windows(self.maps(pixels, SCALE), scorer):
            boxes = {pixel_box(parts[place], size): parts[place] for place in np.argsort(-margin).tolist()}
            found |= {box: self.look(cut(pixels, boxes[box])) for box in distinct(boxes, MOST)}
        return [*found], np.stack([*found.values()])

    def located(self, path: Path, scorer: ClassScorer, own: int | None = None) -> Path:
        """Return what `box` does, or the name of a photo that cannot be read."""
        try:
            return self.box(path, scorer, own)
        except FrnError:  # reading it will say why
            return path

    def boxed_examples(self, listed: State, store: FeatureStore | None) -> State:
        """Return a state with boxes for the examples without one, found from those of all classes that have one.

        Without any box, all examples stay whole; so do those of a class without a box.
        """
        boxed = [[s.path for s in entry.supports if split_box(s.path)[1] is not None] for entry in listed.classes]
        self.learn([path for paths in boxed for path in paths], store)
        if not any(boxed):
            return listed
        given = [own or [s.path for s in entry.supports] for entry, own in zip(listed.classes, boxed, strict=True)]
        pools, seeds = [], []
        for paths in given:
            read = [outcome for _, outcome in self.extractor.read(paths, store=store)]
            seen = {each.key: each.maps for each in read if isinstance(each, Embedded)}
            if not seen:
                return listed  # reading it again will say why
            pools.append(np.stack([*seen.values()]))
            seeds.append(list(seen))
        head, allowed = tune_classes(pools, self.extractor.prior)
        classes = [replace(enroll(maps, head), allowance=more) for maps, more in zip(pools, allowed, strict=True)]
        scorer = ClassScorer(classes)

        def named(support: Support, own: int) -> Support:
            if (
                not boxed[own]
                or split_box(support.path)[1] is not None
                or isinstance(self.extractor.keys([support.path], store)[0], FrnError)  # reading it will say why
            ):
                return support
            (key,) = self.extractor.keys([support.path], store)
            text = json.dumps([self._key, repr(self.extractor.prior), seeds, own, key])
            where = "box-" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
            stored = store.get_bytes(self.extractor.sha256, where) if store else None
            if found := from_bytes(stored, where, Box):
                return replace(support, path=Path(box_name(str(support.path), found)), key="")
            path = self.located(support.path, scorer, own)
            if store and (box := split_box(path)[1]) is not None:
                store.put_bytes(self.extractor.sha256, where, to_bytes(box, where))
            return replace(support, path=path, key="")

        entries = (
            replace(entry, supports=tuple(named(support, own) for support in entry.supports))
            for own, entry in enumerate(listed.classes)
        )
        return replace(listed, classes=tuple(entries))

    def left_out(
        self,
        state: State,
        examples: Sequence[Support],
        classes: Sequence[EnrolledClass],
        head: HeadParameters,
        feature_maps: Mapping[str, Maps],
        store: FeatureStore | None,
        *,
        whole: bool = False,
    ) -> LeftOut:
        """Return the leave-one-out results of examples as new photos.

        The whole photo of each is searched with its class enrolled without it or, with `whole`, classified whole.
        """
        counts = [len(entry.supports) for entry in state.classes]
        columns = {s.key: column for column, entry in enumerate(state.classes) for s in entry.supports}
        labels = np.array([columns[s.key] for s in examples], dtype=np.intp)
        rest, paths, weights = [], [], self.weights
        for support, own in zip(examples, labels.tolist(), strict=True):
            others = [feature_maps[s.key] for s in state.classes[own].supports if s.key != support.key]
            more = without_one(classes[own].allowance, counts[own], min(counts))
            rest.append(replace(enroll(np.stack(others), head), allowance=more))
            scorer = ClassScorer([*classes[:own], rest[-1], *classes[own + 1 :]])
            photo = split_box(support.path)[0]
            if whole:
                paths.append(photo)
                continue
            self.weights = self._regression(without=support.path)
            try:
                paths.append(self.located(photo, scorer))
            finally:
                self.weights = weights
        read = [outcome for _, outcome in self.extractor.read(paths, store=store)]
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

    def windows(
        self, maps: Maps, scorer: ClassScorer, own: int | None = None
    ) -> Iterator[tuple[Array, list[Fractions]]]:
        """Yield the margins (n,) and places of all windows of each size in a map (H, W, d).

        The margins include what was learned from boxes.
        """
        rows, columns = maps.shape[:2]
        errors, lengths = location_errors(maps, scorer)
        learned = LEARNED * (maps @ self.weights)[..., None]
        for h, w in self.sizes:
            margin, _ = margins(window_means(errors, (h, w)), window_means(lengths, (h, w))[..., 0], own)
            margin = margin + window_means(learned, (h, w))[..., 0]
            places = [(x / columns, y / rows, w / columns, h / rows) for y, x in np.ndindex(margin.shape)]
            yield margin.ravel(), places

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Return the rows and columns of windows."""
        return [(max(1, round(part * self.grid[0])), max(1, round(part * self.grid[1]))) for part in PARTS]

    def maps(self, pixels: Pixels, scale: float) -> Maps:
        """Return the map (H, W, d) of a photo whose shorter side is `scale` times that of the model's images."""
        (h, w), side = self.grid, self.side
        height, width = pixels.shape[:2]
        unit = scale / min(height, width)
        longest = STRIP * scale
        rows, columns = (
            min(max(least, round(least * length * unit)), round(least * longest))
            for least, length in ((h, height), (w, width))
        )
        size = round(columns * side / w), round(rows * side / h)
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)
        images = np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)[None], np.float32)
        images /= 255
        (maps,) = self.session.run({self.session.inputs[0][0]: images})
        whole = energy(maps.reshape(1, -1, maps.shape[-1]))[0]
        if not np.abs(maps).max(initial=0) <= MAX_FEATURE or not whole:
            raise FrnError(f"{self.where}: returned a feature map that is not finite, or zero: it is damaged")
        # A network that normalises its maps does so for the whole image, whatever its size.
        return maps * np.float32(1 / np.sqrt(whole))


def distinct(boxes: Iterable[Box], most: int) -> list[Box]:
    """Return up to `most` boxes in order, without those that are largely within an earlier one, or contain it."""
    kept: list[Box] = []
    for box in boxes:
        if len(kept) == most:
            break
        if all(_shared(box, other) < SHARED for other in kept):
            kept.append(box)
    return kept


def _shared(one: Box, other: Box) -> float:
    """Return the fraction of the smaller box that lies within the other."""
    across = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
    down = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
    return max(across, 0) * max(down, 0) / min(one.width * one.height, other.width * other.height)


def cut(pixels: Pixels, part: Fractions) -> Pixels:
    """Return a part of an image (height, width, 3)."""
    left, top, width, height = pixel_box(part, (pixels.shape[1], pixels.shape[0]))
    return pixels[top : top + height, left : left + width]


def pixel_box(box: Fractions, size: tuple[int, int]) -> Box:
    """Return a box in pixels of a photo of this (width, height), from fractions."""
    left, top = int(box[0] * size[0]), int(box[1] * size[1])
    return Box(left, top, max(1, round(box[2] * size[0])), max(1, round(box[3] * size[1])))
