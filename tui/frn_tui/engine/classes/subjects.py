"""Subjects of photos, if the project searches for them: those of examples, for leave-one-out and of queries."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import Maps
from frn.images.boxes import split_box
from frn.images.stamps import stamp_of
from frn.images.transforms import Pixels
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import EnrolledForm, LeftOut, classes_key
from frn.inference.find.examples import boxed_examples
from frn.inference.find.finder import Finder, Sought
from frn.inference.find.windows import Fractions
from frn.projects.session import State, Support
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import FoundBox
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job

SECONDS = 0.5  # seconds per call for searching examples; the others wait for the next call, and an edit comes between
MAX_MAPS, MAX_PIXELS = 128 << 20, 96 << 20  # bytes of maps to keep (300 photos of the default model), and of pixels


class CachingFinder(Finder):
    """A finder that keeps what does not depend on the classes, because every edit searches all photos again."""

    def __init__(self, extractor: Extractor) -> None:
        super().__init__(extractor)
        self._job: Job | None = None
        self._done = self._total = 0
        self._maps: ByteLimitedCache[Maps] = ByteLimitedCache(MAX_MAPS)
        self._pixels: ByteLimitedCache[Pixels] = ByteLimitedCache(MAX_PIXELS)
        self._sizes: dict[object, tuple[int, int]] = {}

    @contextmanager
    def serving(self, job: Job, total: int = 0) -> Iterator[None]:
        """Search for a job, which may be cancelled between two runs of the network, and show it its progress."""
        self._job, self._done, self._total = job, 0, total
        try:
            yield
        finally:
            self._job = None
            if self._done:
                job.progress(total, total)

    def best(self, pixels: Pixels, sought: Sought, own: int | None = None) -> tuple[Fractions, Maps]:
        if self._job and self._total:
            self._job.progress(min(self._done, self._total - 1), self._total)
            self._done += 1
        return super().best(pixels, sought, own)

    def maps(self, pixels: Pixels, scale: float) -> Maps:
        return self._kept(pixels, scale, lambda: super(CachingFinder, self).maps(pixels, scale))

    def look(self, pixels: Pixels) -> Maps:
        return self._kept(pixels, None, lambda: super(CachingFinder, self).look(pixels))

    def _kept(self, pixels: Pixels, scale: float | None, compute: Callable[[], Maps]) -> Maps:
        if self._job:
            self._job.check()
        key = hashlib.blake2b(pixels.tobytes(), digest_size=16).digest(), pixels.shape, scale
        if (maps := self._maps.get(key)) is None:
            self._maps.put(key, maps := compute())
        return maps

    def pixels(self, path: Path) -> tuple[Pixels, tuple[int, int]]:
        key = path, stamp_of(path)
        if (kept := self._pixels.get(key)) is None:
            kept, self._sizes[key] = super().pixels(path)
            self._pixels.put(key, kept)
        return kept, self._sizes[key]


class Subjects:
    """Searches photos for the subject of the enrolled classes of one model."""

    def __init__(self, models: Models, finder: CachingFinder) -> None:
        self._models, self.finder = models, finder
        self.listed: dict[str, Support] = {}  # examples without a box, by the content key of their subject
        self._boxed: tuple[object, State] = None, State()  # the last listed classes, and these with their subjects
        self._left_out_of: object = None
        self._left_out: dict[str, LeftOut] = {}  # leave-one-out results of these examples as new photos, by content key

    def examples(self, listed: State, job: Job) -> State:
        """Return a state in which examples are their subjects, searched for in those that have no box."""
        if self._boxed[0] != (listed.classes, listed.search):
            with self.finder.serving(job, unboxed(listed)):
                boxed = boxed_examples(self.finder, listed, self._models.store)
            pairs = [
                (str(new.path), old)
                for entry, other in zip(boxed.classes, listed.classes, strict=True)
                for new, old in zip(entry.supports, other.supports, strict=True)
                if new.path != old.path
            ]
            read = dict(self._models.read(job, [name for name, _ in pairs]))
            embedded = {name: one for name, one in read.items() if not isinstance(one, FrnError)}
            places = {old.key: Support.of(Path(name), embedded[name].key) for name, old in pairs if name in embedded}
            classes = (
                replace(
                    entry, supports=tuple({(new := places.get(s.key, s)).key: new for s in entry.supports}.values())
                )
                for entry in listed.classes
            )
            self._boxed = (listed.classes, listed.search), replace(listed, classes=tuple(classes))
            self.listed = {places[old.key].key: old for _, old in pairs if old.key in places}
        return replace(listed, classes=self._boxed[1].classes)

    def key(self, key: str) -> str:
        """Return the content key of an example, as the app lists it, by that of its subject."""
        return self.listed[key].key if key in self.listed else key

    @property
    def boxes(self) -> dict[str, FoundBox]:
        """Return the subjects that were found in examples without a box, by content key."""
        boxes = {s.key: split_box(s.path)[1] for entry in self._boxed[1].classes for s in entry.supports}
        return {
            support.key: FoundBox(box=list(box), key=key)
            for key, support in self.listed.items()
            if (box := boxes[key]) is not None
        }

    def left_out(
        self, classifier: Classifier, state: State, form: EnrolledForm, maps: Mapping[str, Maps], job: Job
    ) -> int:
        """Calibrate the classes on their examples, each searched like a new photo, or return how many must wait."""
        examples = classifier.left_out_photos
        of = classes_key(state, classifier.extractor), (form.head.alpha, form.head.beta)  # gamma does not decide errors
        if self._left_out_of != of:
            self._left_out_of, self._left_out = of, {}
        until = time.monotonic() + SECONDS
        with self.finder.serving(job):
            for support in examples:
                if support.key not in self._left_out and time.monotonic() < until:
                    self._left_out[support.key] = classifier.leave_out_photos([support], maps)
        if waiting := len(examples) - len(self._left_out):
            return waiting
        if examples:
            rows = [self._left_out[support.key] for support in examples]
            classifier.complete(state, form, LeftOut(*map(np.concatenate, zip(*rows, strict=True))))
        return 0

    def read(self, classifier: Classifier, job: Job, names: Iterable[str]) -> Iterator[tuple[str, Embedded | FrnError]]:
        """Yield the feature maps of the subject of each photo, and its box."""
        with self.finder.serving(job):
            for name in names:
                (key,) = classifier.extractor.keys([Path(name)], self._models.store)
                photo_key = None if isinstance(key, FrnError) else key
                where = classifier.subject(Path(name), photo_key)
                ((_, outcome),) = self._models.read(job, [str(where)])  # at once: a search takes much longer
                box = split_box(where)[1]
                yield name, outcome if isinstance(outcome, FrnError) else replace(outcome, box=box, whole=photo_key)


def unboxed(state: State) -> int:
    """Return the number of examples without a box in classes with one, whose subjects are searched for."""
    boxed = [[split_box(s.path)[1] is not None for s in entry.supports] for entry in state.classes]
    return sum(each.count(False) for each in boxed if any(each))
