"""What the classes say of photos, and how well they tell their own examples apart."""

import numpy as np

from frn.errors import FrnError
from frn.inference.extractor import Embedded as Found
from frn.inference.feature_cache import Maps
from frn.inference.session import ClassEntry
from frn.inference.unknown import energy, explained
from frn.ridge.enrolment import ClassScorer, Floats, enroll
from frn.ridge.parameters import probabilities
from frn_tui.client.protocol import MAPPED, AskClasses, ClassScore, Confusion, HideAndTest
from frn_tui.engine.classes.embedding import Embedding, describe
from frn_tui.engine.classes.enrolled_classes import Classes, EnrolledClasses, keys_of
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

CHUNK = 16
"""Queries scored together."""
SEED = 0
"""Seed of the examples that are hidden: the same each time, so that two tests can be compared."""


class Queries:
    """Asks the classes in use."""

    def __init__(self, models: Models, embedding: Embedding, classes: EnrolledClasses) -> None:
        self._models = models
        self._embedding = embedding
        self._classes = classes
        self._directions: dict[str, Floats] = {}
        """Directions of the features of examples, averaged over locations, (d,); by key."""
        self._sha256 = ""
        """Model of these."""

    def query(self, request: AskClasses, job: Job) -> None:
        """Ask about photos; one that cannot be read has its reason for an answer and stops nothing."""
        paths = request.paths
        classes = self._classes.current
        for done, (name, outcome) in enumerate(self._embedding.read(job, paths), 1):
            if isinstance(outcome, FrnError):
                job.event("answer", describe(name, outcome))
            else:
                job.event("answer", self._answer(classes, name, outcome, with_maps=len(paths) == 1))
            job.progress(done, len(paths))

    def _answer(self, classes: Classes, name: str, found: Found, *, with_maps: bool) -> dict[str, object]:
        model = self._models.model
        location_errors = classes.bank.location_error(found.maps[None])  # 1, r, way
        if own := classes.own_errors(found.key):  # an example is judged without itself
            location_errors[0, :, own[0]] = own[1]
        errors = location_errors.mean(1)
        threshold = float(classes.rule.thresholds(errors, energy(found.maps[None]))[0])
        shares = explained(errors, found.maps[None])[0]
        order = np.argsort(errors[0], kind="stable")
        numbers = np.stack([probabilities(errors[0], classes.head.gamma), errors[0], shares], axis=1).tolist()
        scores = [
            ClassScore(id=entry.id, probability=probability, error=error, explained=share)
            for entry, (probability, error, share) in zip(classes.entries, numbers, strict=True)
        ]
        answer = {
            **describe(name, found),
            "scores": [scores[place] for place in order],
            "nearest": self._nearest(classes.entries[order[0]], found),
            "threshold": threshold,
            "unknown": bool(shares[order[0]] < threshold),
        }
        if with_maps:
            maps = location_errors[0].T.reshape(-1, *model.extractor.grid)
            answer["maps"] = {str(classes.entries[place].id): maps[place].tolist() for place in order[:MAPPED]}
        return answer

    def _nearest(self, entry: ClassEntry, found: Found) -> str:
        """Key of the other example of a class whose features, averaged over locations, point most nearly its way."""
        keys = [key for key in keys_of(entry) if key != found.key and self._direction(key) is not None]
        if not keys:
            return ""
        likeness = np.stack([self._directions[key] for key in keys]) @ found.maps.mean(0)
        return keys[int(likeness.argmax())]

    def _direction(self, key: str) -> Floats | None:
        sha256 = self._models.model.extractor.sha256
        if sha256 != self._sha256:
            self._directions, self._sha256 = {}, sha256
        if key not in self._directions and (maps := self._embedding.find(key)) is not None:
            mean = maps.mean(0)
            self._directions[key] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return self._directions.get(key)

    def hide_and_test(self, request: HideAndTest, job: Job) -> Confusion:
        shot = max(request.shot, 1)
        entries = [entry for entry in self._classes.current.entries if len(entry.supports) > shot]
        if len(entries) < 2:
            raise FrnError(
                f"testing with {shot} example{'s' * (shot > 1)} per class needs two classes with more than that; there "
                f"{'is 1' if entries else 'is none'}. Use fewer examples or add some."
            )
        bank, hidden = self._hide(entries, shot, job.check)
        counts = np.zeros((len(entries), len(entries)), dtype=np.int64)
        for first in range(0, len(hidden), CHUNK):
            job.check()
            chunk = hidden[first : first + CHUNK]
            named = bank.class_error(np.stack([self._maps(key) for _, key in chunk])).argmin(1)
            for (true, _), name in zip(chunk, named.tolist(), strict=True):
                counts[true, name] += 1
            job.progress(min(first + CHUNK, len(hidden)), len(hidden))
        return {
            "ids": [entry.id for entry in entries],
            "counts": counts.tolist(),
            "accuracy": float(np.trace(counts) / counts.sum()),
        }

    def _hide(self, entries: list[ClassEntry], shot: int, check: Check) -> tuple[ClassScorer, list[tuple[int, str]]]:
        """A bank of the drawn examples, and the others with their class's place."""
        generator = np.random.default_rng(SEED)
        pools, hidden = [], []
        for place, entry in enumerate(entries):
            check()
            keys = [keys_of(entry)[i] for i in generator.permutation(len(entry.supports))]
            pools.append(np.stack([self._maps(key) for key in keys[:shot]]))
            hidden += [(place, key) for key in sorted(keys[shot:])]
        head = self._models.model.choose_head(pools)
        return ClassScorer([enroll(pool, head) for pool in pools]), hidden

    def _maps(self, key: str) -> Maps:
        maps = self._embedding.find(key)
        if maps is None:
            raise FrnError("feature maps of some examples are gone; embed the examples again")
        return maps
