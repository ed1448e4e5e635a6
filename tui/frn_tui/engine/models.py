"""Open model, an exported feature extractor in onnxruntime, and feature maps of files, computed once.

Maps are cached in memory up to a limit, and in the user's cache.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, cast

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Embedded, Extractor, Tta
from frn.features.feature_cache import FeatureStore, Maps
from frn.images.stamps import stamp_of
from frn.inference.scorers import OtherHead
from frn.inference.second_look import SecondLook
from frn.models.zoo import require_exported
from frn.projects.session import Support
from frn.system.hardware import cores
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import EmbedImages, Model, OpenModel, split_suffix
from frn_tui.engine.worker_queues import Job

BATCH = 4  # images per run: small, so that cancelling and progress are quick
MAX_CACHED = 512 << 20
"""Bytes of maps to keep in memory: about 9,700 photos of the default model, since every edit reads all examples."""


class Models:
    """The open model, and the feature maps of files by content key.

    Only `opened` and `has_changed` are for other threads.
    """

    def __init__(self) -> None:
        self.name = ""
        self.opened: Extractor | None = None
        self._file: tuple[Path, str | None] | None = None  # file of the open model, and its stamp before it was read
        self.other: OtherHead | None = None  # head of the open model if it is not FRN's
        self.second: SecondLook | None = None  # with `--tta auto`: what looks again at photos whose answer is unsure
        self._maps: ByteLimitedCache[Maps] = ByteLimitedCache(MAX_CACHED)
        """Maps by the hash of their extractor and their content key."""
        self.looks: dict[str, bytes] = {}  # perceptual hashes of all images that were embedded or found
        self._keys: dict[str, tuple[str | None, str]] = {}  # stamp and content key of each file that was read

    @property
    def extractor(self) -> Extractor:
        """Return the open model. Raises FrnError if there is no open model."""
        if self.opened is None:
            raise FrnError("no model is loaded yet")
        return self.opened

    def open(self, request: OpenModel, job: Job) -> Model:
        """Open a model in place of the current one, which stays open if the new one is rejected."""
        name, tta = split_suffix(request.model)
        path = require_exported(name)
        threads, stamp = max(1, cores() - 1), stamp_of(path)  # leave one core for the app
        extractor = load_extractor(name, "cpu", cast(Tta, tta), threads)  # not on CUDA, which takes a second to start
        other = None if extractor.head else OtherHead.find(extractor)
        second = SecondLook(extractor.closer, self.store) if extractor.closer else None
        self.other, self.second = other, second
        self.name, self.opened, self._file = name, extractor, (path, stamp)
        self._maps, self.looks = ByteLimitedCache(MAX_CACHED), {}
        return {
            "sha256": extractor.plain_sha256,
            "bytes": len(extractor.data),
            "head": extractor.method,
            "has_maps": extractor.head is not None,
        }

    @property
    def has_changed(self) -> bool:
        return self._file is not None and stamp_of(self._file[0]) != self._file[1]

    def embed(self, request: EmbedImages, job: Job) -> None:
        """Embed files; each gets an event with its key, or the reason why it cannot be used."""
        paths = request.paths
        for done, (name, outcome) in enumerate(self.read(job, paths, closer=True), 1):
            job.event("embedded", describe(name, outcome))
            if done % BATCH == 0 or done == len(paths):
                job.progress(done, len(paths))

    def read(
        self, job: Job, names: Iterable[str], *, closer: bool = False
    ) -> Iterator[tuple[str, Embedded | FrnError]]:
        """Yield feature maps of files in order, until the request is cancelled.

        With `closer`, they are also seen by the extractor of second looks.
        """
        second, named = self.extractor.closer if closer else None, iter(names)
        while batch := list(islice(named, BATCH)):
            stamps = [stamp_of(Path(name)) for name in batch]  # before reading: a later change has another
            if second is not None:
                for _, again in second.read(map(Path, batch), store=self.store):
                    if not isinstance(again, FrnError):
                        self._keep(second, again.key, again.maps)
            outcomes = self.extractor.read(map(Path, batch), store=self.store, opening=lambda path: job.check())
            for name, stamp, (_, outcome) in zip(batch, stamps, outcomes, strict=True):
                if not isinstance(outcome, FrnError):
                    self._keys[name] = stamp, outcome.key
                    self.looks[outcome.key] = outcome.look
                    self._keep(self.extractor, outcome.key, outcome.maps)
                yield name, outcome
                job.check()

    def state_of(self, photo: Support) -> Literal["as it was", "missing", "to read"]:
        """Return whether the file of a photo still has its content, without reading it."""
        name = str(photo.path)
        if (stamp := stamp_of(photo.path)) is None:
            return "missing"
        if self._keys.get(name, ("", ""))[0] != stamp and (key := self.store.key_of(photo.path, stamp)):
            self._keys[name] = stamp, key
        return "as it was" if self._keys.get(name) == (stamp, photo.key) else "to read"

    def find(self, key: str, extractor: Extractor | None = None) -> Maps | None:
        """Return the feature maps (r, d) of an image that was embedded before, by default those of the open model."""
        extractor = extractor or self.extractor
        if (maps := self._maps.get((extractor.sha256, key))) is not None:
            return maps
        stored = self.store.get(extractor.sha256, key, extractor.shape)
        if stored is None:
            return None
        if extractor is self.extractor:
            self.looks[key] = stored[1]
        self._keep(extractor, key, stored[0])
        return stored[0]

    def known(self, key: str, extractor: Extractor | None = None) -> Maps:
        """Return the feature maps (r, d) of an example as `find`. Raises FrnError if they are being computed again."""
        if (maps := self.find(key, extractor)) is None:
            raise FrnError("the classes are being read again. Try again in a moment.")
        return maps

    @cached_property
    def store(self) -> FeatureStore:
        return FeatureStore()  # created late: SQLite requires the same thread

    def _keep(self, extractor: Extractor, key: str, maps: Maps) -> None:
        if self._maps.get((extractor.sha256, key)) is None:
            self._maps.put((extractor.sha256, key), maps.copy())  # a view would keep its whole batch in memory


def describe(name: str, outcome: Embedded | FrnError) -> dict[str, object]:
    """Describe a file to the app under its given name."""
    if isinstance(outcome, FrnError):
        return {"path": name, "reason": " ".join(str(outcome).splitlines())}
    support = Support.of(Path(name), outcome.key)
    return {"path": name, "key": support.key, "size": support.size, "mtime_ns": support.mtime_ns}
