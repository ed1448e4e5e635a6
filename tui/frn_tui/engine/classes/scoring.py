"""Scores of photos, and the confusion of the classes' own examples."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from frn.errors import FrnError
from frn.evaluation.labelled import wilson
from frn.inference.extractor import Embedded as Found
from frn.inference.feature_cache import Maps
from frn.inference.session import ClassEntry
from frn.inference.unknown import explained
from frn.ridge.enrolment import ClassScorer, Floats, energy, enroll
from frn.ridge.parameters import probabilities
from frn.ridge.unlabelled.groups import group
from frn.ridge.unlabelled.transductive import refine
from frn_tui.client.protocol import MAPPED, AskClasses, ClassScore, Confusion, GroupPhotos, HideAndTest
from frn_tui.engine.classes.embedding import Embedding, describe
from frn_tui.engine.classes.enrolled_classes import Classes, EnrolledClasses, keys_of
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Check, Job

CHUNK = 16
"""Queries scored at a time."""
SEED = 0
"""Seed for hiding examples: constant, so that tests are comparable."""


class Queries:
    """Queries to the classes in use."""

    def __init__(self, models: Models, embedding: Embedding, classes: EnrolledClasses) -> None:
        self._models = models
        self._embedding = embedding
        self._classes = classes
        self._directions: dict[str, Floats] = {}
        """Unit vectors of examples' features, averaged over locations, (d,); by key."""
        self._sha256 = ""
        """Hash of their model."""

    def query(self, request: AskClasses, job: Job) -> None:
        """Classify photos; an unreadable one gets the reason as its answer, and the others continue."""
        paths = request.paths
        classes = self._classes.current
        read = self._embedding.read(job, paths)
        done, jointly = 0, request.jointly and len(paths) > 1
        while batch := list(islice(read, None if jointly else CHUNK)):
            found = [outcome for _, outcome in batch if not isinstance(outcome, FrnError)]
            answers = iter(self._answers(classes, found, with_maps=len(paths) == 1, jointly=jointly))
            for name, outcome in batch:
                answer = {} if isinstance(outcome, FrnError) else next(answers)
                job.check()
                job.event("answer", {**describe(name, outcome), **answer})
            done += len(batch)
            job.progress(done, len(paths))

    def _answers(
        self, classes: Classes, found: Sequence[Found], *, with_maps: bool, jointly: bool
    ) -> Iterator[dict[str, object]]:
        """Score photos together, (q, r, d): one product for all is several times faster than one product each.

        If `jointly`, they refine the classes first; whether they are unknown depends on the errors before that.
        """
        if not found:
            return
        maps = np.stack([each.maps for each in found])
        if with_maps:
            location_errors = classes.bank.location_error(maps)  # q, r, way
            errors = location_errors.mean(1)
        else:
            errors = classes.bank.class_error(maps).astype(np.float64)
        for row, each in enumerate(found):
            if own := classes.own_errors(each.key):  # score an example by leave-one-out
                errors[row, own[0]] = own[1].mean()
                if with_maps:
                    location_errors[row, :, own[0]] = own[1]
        distances = classes.distances([each.key for each in found], maps)
        thresholds, shares = classes.rule.thresholds(errors, energy(maps), distances), explained(errors, maps)
        known = shares.max(1) >= thresholds
        chances = probabilities(errors, classes.head.gamma)
        fresh = [row for row, each in enumerate(found) if jointly and classes.own_errors(each.key) is None]
        if fresh:  # examples are scored as before
            pools = [np.stack([self._maps(key) for key in keys_of(entry)]) for entry in classes.entries]
            errors[fresh], gamma = refine(errors[fresh], pools, maps[fresh], classes.head)
            chances[fresh] = probabilities(errors[fresh], gamma)
        for row, each in enumerate(found):
            order = np.argsort(errors[row], kind="stable")
            numbers = np.stack([chances[row], errors[row], shares[row]], axis=1).tolist()
            scores = [
                ClassScore(id=entry.id, probability=probability, error=error, explained=share)
                for entry, (probability, error, share) in zip(classes.entries, numbers, strict=True)
            ]
            answer = {
                "scores": [scores[place] for place in order],
                "nearest": self._nearest(classes.entries[order[0]], each),
                "threshold": float(thresholds[row]),
                "unknown": not known[row],
            }
            if with_maps:
                heat = location_errors[row].T.reshape(-1, *self._models.model.extractor.grid)
                answer["maps"] = {str(classes.entries[place].id): heat[place].tolist() for place in order[:MAPPED]}
            yield answer

    def _nearest(self, entry: ClassEntry, found: Found) -> str:
        """Key of the example of a class whose location-averaged features are most similar in direction."""
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

    def group(self, request: GroupPhotos, job: Job) -> list[list[str]]:
        """Group photos; near copies are in the group of their photo, and unreadable photos in none."""
        read: dict[str, tuple[str, Found]] = {}
        for name, outcome in self._embedding.read(job, request.paths):
            if not isinstance(outcome, FrnError):
                read.setdefault(outcome.key, (name, outcome))
            job.progress(len(read), len(request.paths))
        if not read:
            raise FrnError("no photos to group")
        names, found = zip(*read.values(), strict=True)
        maps, looks = np.stack([each.maps for each in found]), [each.look for each in found]
        groups = group(maps, looks, self._models.model.extractor.prior)
        return [[names[place] for near in own for place in near] for own in groups]

    def hide_and_test(self, request: HideAndTest, job: Job) -> Confusion:
        shot = max(request.shot, 1)
        entries = [entry for entry in self._classes.current.entries if len(entry.supports) > shot]
        if len(entries) < 2:
            raise FrnError(
                f"testing with {shot} example{'s' * (shot > 1)} per class needs two classes with more examples, but "
                f"there {'is 1' if entries else 'are 0'}. Use fewer examples or add some."
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
            "interval": wilson(int(np.trace(counts)), int(counts.sum())),
        }

    def _hide(self, entries: list[ClassEntry], shot: int, check: Check) -> tuple[ClassScorer, list[tuple[int, str]]]:
        """Return a scorer of the drawn examples, and the hidden ones with the index of their class."""
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
            raise FrnError("some examples have no feature maps; add them again")
        return maps
