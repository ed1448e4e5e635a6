"""Feature maps of image files, computed once, cached in memory up to a limit and in the user's cache."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

from frn.errors import FrnError
from frn.inference.extractor import Embedded as Found
from frn.inference.feature_cache import FeatureStore, Maps
from frn.inference.session import Support
from frn.system.lru import ByteLimitedCache
from frn_tui.client.protocol import EmbedImages
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job

BATCH = 4
"""Images per run: small, so that cancelling and progress are quick."""
MAX_CACHED = 128 << 20
"""Bytes of maps to keep in memory."""


class Embedding:
    """Feature maps of the open model by content key. For one thread."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._maps: ByteLimitedCache[Maps] = ByteLimitedCache(MAX_CACHED)
        """Cached maps by the model's hash and the image's key."""
        self._looks: dict[tuple[str, str], bytes] = {}
        """Perceptual hashes of all images that were embedded or found, by the same keys."""

    def embed(self, request: EmbedImages, job: Job) -> None:
        """Embed files; each gets an event with its key, or the reason why it cannot be used."""
        paths = request.paths
        for done, (name, outcome) in enumerate(self.read(job, paths), 1):
            job.event("embedded", describe(name, outcome))
            if done % BATCH == 0 or done == len(paths):
                job.progress(done, len(paths))

    def read(self, job: Job, names: Iterable[str]) -> Iterator[tuple[str, Found | FrnError]]:
        """Yield feature maps of files in order, until the request is cancelled."""
        extractor = self._models.extractor
        named = iter(names)
        while batch := list(islice(named, BATCH)):
            found = extractor.read(map(Path, batch), store=self._store, opening=lambda path: job.check())
            for name, (_, outcome) in zip(batch, found, strict=True):
                if not isinstance(outcome, FrnError):
                    self._keep(outcome.key, outcome.maps, outcome.look)
                yield name, outcome
                job.check()

    def find(self, key: str) -> Maps | None:
        """Return the feature maps (r, d) of an image that was embedded before."""
        extractor = self._models.extractor
        if (maps := self._maps.get((extractor.sha256, key))) is not None:
            return maps
        stored = self._store.get_with_look(extractor.sha256, key, extractor.shape)
        if stored is None:
            return None
        self._keep(key, *stored)
        return stored[0]

    def look(self, key: str) -> bytes:
        """Return the perceptual hash of an image that was found."""
        return self._looks[self._models.extractor.sha256, key]

    @cached_property
    def _store(self) -> FeatureStore:
        return FeatureStore()  # created late: SQLite requires the same thread

    def _keep(self, key: str, maps: Maps, look: bytes) -> None:
        place = self._models.extractor.sha256, key
        self._looks[place] = look
        if self._maps.get(place) is None:
            self._maps.put(place, maps.copy())  # a view would keep its whole batch in memory


def describe(name: str, outcome: Found | FrnError) -> dict[str, object]:
    """Describe a file to the app under its given name."""
    if isinstance(outcome, FrnError):
        return {"path": name, "reason": " ".join(str(outcome).splitlines())}
    support = Support.of(Path(name), outcome.key)
    return {"path": name, "key": support.key, "size": support.size, "mtime_ns": support.mtime_ns}
