"""Feature extractor in onnxruntime: image files to feature maps, with the head's learned parameters."""

import hashlib
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError, shorten
from frn.features.feature_cache import FeatureStore, Maps, content_key
from frn.features.onnx_runtime import MAX_MODEL_BYTES, Device, ForeignModel, OwnModel, Session, parse_json
from frn.images.boxes import Box
from frn.images.near_copies import look
from frn.images.opening import decode_crop, decode_crops, read_file
from frn.images.stamps import stamp_of
from frn.images.transforms import EvaluationTransform, Pixels
from frn.models.header import ModelConfig
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior
from frn.system.file_sets import read_member
from frn.system.hardware import own_cores

FEATURES_VERSION = "1"
PLAIN = "frn.plain"  # metadata key of an extractor with test-time augmentation: the SHA-256 of the plain one
MISSING = "missing"  # code of the error of a photo whose file does not exist
TTA = "frn.tta"  # metadata key of the test-time augmentation, if it is not `hflip`
Tta = Literal["none", "hflip", "views", "auto"]
"""Test-time augmentation: none, the mean of the maps of a photo and its mirror image, or the joined maps of its views.

The views are four overlapping crops, each of 2/3 of the photo's width and height, so a map has four times as many
locations. With "auto", one view of each photo whose answer is unsure is compared with all views of the examples, which
a second extractor sees (`Extractor.closer`).
"""
VIEWS = 4
BATCH = 16  # images per run: enough to be fast, few enough for an early first answer
AHEAD = 2  # batches in progress beside those in the network: one with the caller, one being decoded
PIXELS = 16 * 256 * 256
"""Maximum pixels in a run: larger images run in smaller batches, which saves gigabytes of memory in the layers."""
USUAL = {"a6801455f96d394f0b55c6acd078cd5018c848b8736ebebe497f396fd1ee47df": (0.487, 0.18)}
"""Usual `ridge.tuning.variety` and largest usual `likeness` of photos by the hash of an extractor: `frn-photo`.
Validation classes of CUB, dogs and mini-ImageNet have 0.50 to 0.58 and at most 0.12, butterflies 0.47 and 0.18;
textures 0.26 and 0.14, steel 0.20 and 0.51, brain scans 0.45 and 0.34."""
MAX_FEATURE = 1e12  # largest allowed feature value; sums of squares of larger ones overflow float32


@dataclass(frozen=True, slots=True)
class Embedded:
    """Feature map of an image file."""

    key: str  # hash of the file's bytes
    maps: Maps  # feature map, (r, d)
    look: bytes  # perceptual hash of the crop (`near_copies`)
    box: Box | None = None  # box that was embedded, if the photo was searched for its subject
    whole: str | None = None  # hash of the whole photo's bytes, if it was searched
    source: Path | Image.Image | None = None  # file or image that was embedded, for a second look
    wide: Pixels | None = None  # the crop of `Extractor.closer`, if it was decoded as well


class Extractor:
    """An opened `features.onnx`: maps pixels (n, S, S, 3) to feature maps (n, r, d)."""

    def __init__(
        self, data: bytes, where: str, *, trusted: bool = False, device: Device = "auto", threads: int = 0
    ) -> None:
        """Open the bytes of a `features.onnx`; error messages refer to it as `where`.

        A trusted file was made by `frn` itself and is not checked. Any other file is checked and run in a child
        process with limits. `threads=0` uses all cores. Raises FrnError if the file is not an extractor of a known
        version, or fails the checks or exceeds the limits of `onnx_runtime`.
        """
        kind = partial(OwnModel, apart=True) if trusted else ForeignModel
        self.threads = threads or own_cores()
        self.session: Session = kind(data, where, device, self.threads)
        self.where, self.data, self.device = where, data, device
        self.sha256 = hashlib.sha256(data).hexdigest()
        metadata = self.session.metadata
        self.plain_sha256 = metadata.get(PLAIN, self.sha256)
        """Hash of the model without test-time augmentation; projects record this one."""
        if (version := metadata.get("frn.version")) != FEATURES_VERSION:
            shown = shorten(version, 40)
            raise FrnError(f"{where}: has format version {shown}; this program reads {FEATURES_VERSION}")
        config = parse_json(metadata, "frn.config", where, ModelConfig)
        self.transform, self.method = config.transform, config.method
        self.untrained_head = config.untrained_head  # if so, its parameters say nothing
        self.tta: Tta = "none"  # test-time augmentation built into this extractor
        if self.sha256 != self.plain_sha256:
            self.tta = "views" if metadata.get(TTA) == "views" else "hflip"
        self.closer: Extractor | None = None  # with `tta` "auto": the same model with views
        self.ahead = False  # whether photos are decoded for `closer` as well, so that no second look decodes them again
        self.view = 0  # with `tta` "views", the number of the view of which `on_grid` arranges a map
        self.grid = parse_json(metadata, "frn.grid", where, tuple[int, int])  # rows and columns of an error map
        self.learned = parse_json(metadata, "frn.head", where, dict[str, float])
        try:
            self.head = HeadParameters.from_metadata(self.learned) if self.method == "frn" else None
        except ValueError as error:
            raise FrnError(f"{where}: its metadata is damaged ({shorten(error)})") from error
        self._check_signature(where)

    @classmethod
    def open(cls, path: Path, *, trusted: bool = False, device: Device = "auto", threads: int = 0) -> "Extractor":
        """Open a file. Raises FrnError if the file cannot be read or is rejected."""
        return cls(read_member(path, MAX_MODEL_BYTES), str(path), trusted=trusted, device=device, threads=threads)

    def _check_signature(self, where: str) -> None:
        side, r = self.transform.size, self.grid[0] * self.grid[1] * (4 if self.tta == "views" else 9) // 9
        both = self.session.inputs, self.session.outputs
        signature = [[(name, kind, shape[1:]) for name, kind, shape in values] for values in both]
        d = signature[1][0][2][-1] if signature[1] and signature[1][0][2] else None
        images, maps = ("images", "tensor(float)", [3, side, side]), ("feature_map", "tensor(float)", [r, d])
        if signature != [[images], [maps]] or not isinstance(d, int) or d < 1:
            raise FrnError(f"{where}: its inputs and outputs do not match an extractor for {side}-pixel images")
        self.shape: tuple[int, int] = (r, d)  # locations r and channels d of a feature map
        self._ready: dict[tuple[Path, object], tuple[Maps, bytes]] = {}

    def on_grid(self, errors: NDArray[np.floating]) -> NDArray[np.floating]:
        """Arrange errors of a map's locations (n, r) on the grid (n, h, w); where views overlap, it has their mean.

        Errors of a single view are zero outside it.
        """
        h, w = self.grid
        if self.tta != "views":
            return errors.reshape(-1, h, w)
        views = errors.reshape(len(errors), -1, h // 3, w // 3).repeat(2, 2).repeat(2, 3)
        total, count = np.zeros((len(errors), h, w), errors.dtype), np.zeros((h, w), errors.dtype)
        for place, view in enumerate(range(VIEWS) if views.shape[1] == VIEWS else [self.view]):
            y, x = divmod(view, 2)
            where = slice(y * h // 3, (y + 2) * h // 3), slice(x * w // 3, (x + 2) * w // 3)
            total[:, *where] += views[:, place]
            count[where] += 1
        return total / count.clip(1)

    @property
    def prior(self) -> Prior:
        """Return the prior of the head's parameters (`ridge.tuning`)."""
        if self.untrained_head or self.head is None:
            return UNTRAINED
        variety, likeness = USUAL.get(self.plain_sha256, (0.0, math.inf))
        return replace(Prior.trained(self.head), variety=variety, likeness=likeness)

    @property
    def batch(self) -> int:
        return max(1, min(BATCH, PIXELS // self.transform.size**2))

    def feature_maps(self, pixels: Pixels) -> Maps:
        """Return the feature maps (n, r, d) of prepared images (n, S, S, 3), uint8."""
        images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32)
        images /= 255
        maps = self.session.run({"images": images})
        if maps.shape != (len(pixels), *self.shape):
            raise FrnError(f"{self.where}: returned maps of shape {maps.shape}, not {(len(pixels), *self.shape)}")
        if not np.abs(maps).max(initial=0) <= MAX_FEATURE:  # also catches NaN
            raise FrnError(
                f"{self.where}: returned a feature map that is not finite, or exceeds {MAX_FEATURE:g}: it is damaged"
            )
        return maps

    def milliseconds(self) -> float:
        """Measure the time per image, one per thread: the median of five runs after a warm-up, without decoding."""
        count = min(self.threads, self.batch)
        pixels = np.zeros((count, self.transform.size, self.transform.size, 3), dtype=np.uint8)
        spent = []
        for _ in range(6):
            start = time.perf_counter()
            self.feature_maps(pixels)
            spent.append(1000 * (time.perf_counter() - start) / count)
        return statistics.median(spent[1:])

    def read(
        self, paths: Iterable[Path], *, store: FeatureStore | None = None, opening: Callable[[Path], None] | None = None
    ) -> Iterator[tuple[Path, Embedded | FrnError]]:
        """Embed image files in order; an unreadable file yields its error.

        Decoding uses as many threads as the network. While the network embeds one batch, the next one is decoded and
        the caller works on the previous one.

        Args:
            paths: image files.
            store: cache to read feature maps from and write new ones to; files that it knows are not opened.
            opening: called with each file before it is read; an exception from it stops the reading.
        """
        remaining = iter(paths)
        runs = -(-self.session.parts // self.batch)  # batches that occupy all cores
        at_once = 1 if opening else runs + AHEAD  # if the caller may stop between two files, no file is read ahead
        with ThreadPoolExecutor(self.threads) as pool, ThreadPoolExecutor(runs) as network:

            def begin() -> "tuple[list[Path], Future[list[Embedded | FrnError]]]":
                batch = []
                for path in islice(remaining, self.batch):
                    if opening:
                        opening(path)
                    batch.append((path, pool.submit(self._look, path, store)))
                return [path for path, _ in batch], network.submit(
                    lambda: self.embed([future.result() for _, future in batch], store)
                )

            batches = deque(begin() for _ in range(at_once))
            try:
                while (batch := batches.popleft())[0]:
                    yield from zip(batch[0], batch[1].result(), strict=True)
                    batches.append(begin())
            finally:
                for executor in (pool, network):
                    executor.shutdown(cancel_futures=True)

    def remember(self, path: Path, stamp: str | None, maps: Maps, pixels: Pixels) -> None:
        """Keep the map of a file that will be read next, and has been embedded from these pixels (S, S, 3).

        It is not used if the file then has another stamp (`stamp_of`).
        """
        self._ready[path, stamp] = maps, look(pixels)
        for unread in list(self._ready)[:-BATCH]:
            self._ready.pop(unread, None)

    def embed(
        self, seen: "Sequence[Embedded | Prepared | FrnError]", store: FeatureStore | None = None
    ) -> list[Embedded | FrnError]:
        """Embed the prepared images of a batch in one run, and store their maps."""
        fresh = [entry for entry in seen if isinstance(entry, Prepared)]
        maps = self.feature_maps(np.stack([entry.pixels for entry in fresh])) if fresh else ()
        new = [
            Embedded(entry.key, each, look(entry.pixels), source=entry.source, wide=entry.wide)
            for entry, each in zip(fresh, maps, strict=True)
        ]
        if store and new:
            store.put(self.sha256, {each.key: each.maps for each in new}, {each.key: each.look for each in new})
        remaining = iter(new)
        return [next(remaining) if isinstance(entry, Prepared) else entry for entry in seen]

    def look_closer(
        self, seen: Sequence[Embedded], views: Sequence[int], store: FeatureStore | None
    ) -> list[Embedded | FrnError]:
        """Embed one view of each photo, given by its number; its map (r, d) has as many locations as a photo."""
        closer = self.closer
        assert closer is not None  # with `tta` "auto"
        side = self.transform.size
        names = [f"{closer.sha256}-{view}" for view in range(VIEWS)]

        def prepared(each: Embedded, view: int) -> "Embedded | Prepared | FrnError":
            if store and (kept := store.get(names[view], each.key, self.shape)):
                return Embedded(each.key, *kept, source=each.source)
            assert each.source is not None  # every door gives it
            if each.wide is not None:
                outcome: Embedded | Prepared | FrnError = Prepared(each.key, each.wide, each.source)
            elif isinstance(each.source, Path):
                outcome = closer._look(each.source, store)
            else:
                outcome = Prepared(each.key, closer.transform(each.source), each.source)
            if isinstance(outcome, Embedded):  # an example, of which all views are stored
                return replace(outcome, maps=np.split(outcome.maps, VIEWS)[view])
            if isinstance(outcome, FrnError):
                return outcome
            top, left = (place * (closer.transform.size - side) for place in divmod(view, 2))
            return replace(outcome, pixels=outcome.pixels[top : top + side, left : left + side])

        with ThreadPoolExecutor(self.threads) as pool:
            parts = list(pool.map(prepared, seen, views))
        embedded = self.embed(parts)
        for name, part, each in zip((names[view] for view in views), parts, embedded, strict=True):
            if store and isinstance(part, Prepared) and isinstance(each, Embedded):
                store.put(name, {each.key: each.maps}, {each.key: each.look})
        return embedded

    def keys(self, paths: Sequence[Path], store: FeatureStore | None) -> list[str | FrnError]:
        """Return the content keys of files, or why they cannot be read; only files that have changed are opened."""
        with ThreadPoolExecutor(self.threads) as pool:
            return [each if isinstance(each, FrnError) else each[0] for each in pool.map(partial(_key, store), paths)]

    def _look(self, path: Path, store: FeatureStore | None) -> "Embedded | Prepared | FrnError":
        """Return a file's stored map, or else the pixels to embed."""
        known = _key(store, path)
        if isinstance(known, FrnError):
            return known
        key, data = known
        if self._ready and (ready := self._ready.pop((path, stamp_of(path)), None)):
            if store:
                store.put(self.sha256, {key: ready[0]}, {key: ready[1]})
            return Embedded(key, *ready, source=path)
        if store and (kept := store.get(self.sha256, key, self.shape)):
            return Embedded(key, *kept, source=path)
        try:
            data = read_file(path) if data is None else data
            if self.closer is None or not self.ahead:
                return Prepared(content_key(data), decode_crop(data, path, self.transform), path)
            crops = decode_crops(data, path, (self.transform, self.closer.transform))
            return Prepared(content_key(data), crops[0], path, crops[1])
        except FrnError as error:
            return error


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the network needs to embed an image: its content key and its crop."""

    key: str
    pixels: Pixels
    source: Path | Image.Image | None = None
    wide: Pixels | None = None


def _key(store: FeatureStore | None, path: Path) -> tuple[str, bytes | None] | FrnError:
    """Return a file's content key, and its bytes if they were read. The error of a missing file has code `MISSING`."""
    stamp = stamp_of(path)
    if store and stamp and (key := store.key_of(path, stamp)):
        return key, None
    try:
        data = read_file(path)
    except FrnError as error:
        return error if stamp is not None else FrnError(str(error), code=MISSING)
    key = content_key(data)
    if store and stamp:
        store.keep_key(path, stamp, key)
    return key, data


def require_fixed(tta: str | None, why: str) -> None:
    """Raise FrnError, with the reason, if test-time augmentation is decided photo by photo."""
    if tta == "auto":
        raise FrnError(f"--tta auto decides for each photo whether to look twice, but {why}. Use --tta views or none.")


def seen_by(transform: EvaluationTransform, tta: Tta) -> EvaluationTransform:
    """Return the transform that a model needs with this test-time augmentation."""
    return transform.whole() if tta == "views" else transform
