"""Fine-tuning for the user's classes: a linear map of the channels in closed form, judged on held-out photos.

Photos of one class differ in some directions of the channels for reasons other than the class: light, background,
pose. The map shrinks these directions: with the covariance C of the photos' mean locations within their classes, it is
(C + mean variance I)^(-1/2). The backbone stays unchanged, so every backbone can be fine-tuned.

Shape letters: k photos of a class, r locations, d channels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, summarise
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.inference.enrollment import listed_state, usable_examples
from frn.projects.session import without_copies
from frn.ridge.enrolment import Array, ClassScorer, Floats, pool_rows
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

FOLDS = 4
"""Number of parts; the photos of each part are classified by the others."""
WORTH = 2.0
"""Smallest gain on held-out photos, in percentage points, for which a model is written."""


@dataclass(frozen=True, slots=True)
class FineTuning:
    """A map of the channels, and what it gains on held-out photos of the same classes."""

    channels: Floats
    """Map of the channels, (d, d), from all photos; symmetric."""
    start: Accuracy
    """Accuracy of the unchanged model, with lambda and gamma chosen on enrolment."""
    validation: Accuracy
    """Accuracy with the map, chosen and enrolled without the held-out photos."""
    gain: Accuracy
    """Difference between the two, photo by photo."""
    broken: Sequence[FrnError]
    """Reasons for skipped photos."""

    @property
    def is_worth_it(self) -> bool:
        """Return whether the gain is at least `WORTH`."""
        return self.gain.mean >= WORTH


def finetune(extractor: Extractor, classes: Mapping[str, Sequence[Path]]) -> FineTuning:
    """Fine-tune a model for classes of photos, and measure the gain by cross-validation.

    Raises FrnError if the model has another head than FRN's, or fewer than two classes have `FOLDS` photos.
    """
    if extractor.head is None:
        raise FrnError(
            f"{extractor.where}: was trained as {extractor.method}, but only models with the head frn are fine-tuned"
        )
    read = extractor.read((path for paths in classes.values() for path in paths), store=FeatureStore())
    outcomes = [outcome for _, outcome in read]
    state, copies, broken = usable_examples(listed_state(classes), outcomes)
    maps = {each.key: each.maps for each in outcomes if isinstance(each, Embedded)}
    used = without_copies(state, copies).classes  # copies in several parts would be classified by each other
    pools = [np.stack([maps[support.key] for support in entry.supports]) for entry in used]
    if (large := sum(len(pool) >= FOLDS for pool in pools)) < 2:
        raise FrnError(
            f"{large} of {len(classes)} classes have {FOLDS} photos or more; fine-tuning needs two such classes. Add "
            "photos, or use the model unchanged: `frn classify` needs no training."
        )
    before, after = cross_validate(pools, extractor.prior)
    start, validation, gain = (summarise(right) for right in (before, after, after - before))
    return FineTuning(whitening(pools), start, validation, gain, broken)


def whitening(pools: Sequence[Maps]) -> Floats:
    """Return the map (d, d) that evens out how photos of one class differ; `pools` are maps (k, r, d) of each class.

    The mean energy of the locations stays the same, so that lambda and gamma keep their usual size. Without a class of
    two photos, the map is the identity.
    """
    means = [pool.mean(1, dtype=np.float64) for pool in pools]
    within = np.concatenate([mean - mean.mean(0) for mean in means])
    variances, directions = np.linalg.eigh(within.T @ within)
    usual = variances.mean() or 1.0
    channels = (directions / np.sqrt(variances.clip(0) / usual + 1)) @ directions.T
    moments = sum(rows.T @ rows for rows in map(pool_rows, pools))
    energy, mapped = np.trace(moments), np.trace(channels @ moments @ channels)
    return (channels * np.sqrt(energy / mapped)).astype(np.float32)


def cross_validate(pools: Sequence[Maps], prior: Prior) -> tuple[Array, Array]:
    """Return which held-out photos are classified correctly, as 0 or 1, without the map and with it.

    A class's consecutive photos are often alike, so each part is a block of them. A class whose photos are all
    held out is omitted from that part.
    """
    right: tuple[list[Array], list[Array]] = ([], [])
    parts = [np.array_split(pool, FOLDS) for pool in pools]
    for fold in range(FOLDS):
        pairs = [(np.concatenate(part[:fold] + part[fold + 1 :]), part[fold]) for part in parts]
        supports, held_out = zip(*(pair for pair in pairs if len(pair[0])), strict=True)
        channels = whitening(supports)
        right[0].append(_correct(supports, held_out, prior))
        right[1].append(_correct([pool @ channels for pool in supports], [maps @ channels for maps in held_out], prior))
    return np.concatenate(right[0]), np.concatenate(right[1])


def _correct(supports: Sequence[Maps], queries: Sequence[Maps], prior: Prior) -> Array:
    """Return which queries of each class, (k, r, d), are classified correctly, as 0 or 1."""
    head = tune_by_leave_one_out(supports, prior)
    scorer = ClassScorer(enroll_all(supports, head))
    labels: NDArray[np.intp] = np.repeat(np.arange(len(queries)), [len(maps) for maps in queries])
    return (scorer.class_error(np.concatenate(queries)).argmin(1) == labels).astype(np.float64)


def write_finetuned(model: str, found: FineTuning, path: Path, record: Mapping[str, object]) -> None:
    """Write a model file with the map after the backbone. Raises FrnError if it cannot be written."""
    from frn.models.model import load_model, save_model

    tuned = load_model(model)
    tuned.adapt(found.channels)
    save_model(tuned, path, record)
