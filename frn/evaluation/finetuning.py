"""Fine-tuning for the user's classes: a linear map of the channels in closed form, judged on held-out photos.

Photos of one class differ in some directions of the channels for reasons other than the class: light, background,
pose. The map shrinks these directions: with the covariance C of the photos' mean locations within their classes, it is
(C + mean variance I)^(-1/2). The backbone stays unchanged, so every backbone can be fine-tuned.

Shape letters: k photos of a class, r locations, d channels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, summarise
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.inference.enrollment import listed_state, usable_examples
from frn.projects.copies import without_copies
from frn.ridge.enrolment import Array, ClassScorer, Floats, pool_rows
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

FOLDS = 4  # number of parts; the photos of each part are classified by the others
WORTH = 2.0
"""Smallest gain on held-out photos, in percentage points, for which the map is chosen.

Among many sets of photos, those that gain so much also had luck. The expected gain is therefore measured on photos that
had no part in the choice.
"""


@dataclass(frozen=True, slots=True)
class FineTuning:
    """A map of the channels, and what it gains on held-out photos of the same classes."""

    channels: Floats  # map of the channels, (d, d), from all photos; symmetric
    start: Accuracy  # accuracy of the unchanged model, with lambda and gamma chosen on enrolment
    gain: Accuracy  # gain of the map on held-out photos, photo by photo; it decides whether the map is chosen
    validation: Accuracy  # accuracy on held-out photos if the map is chosen or not without them
    expected: Accuracy
    """Difference between `validation` and `start`, photo by photo: the gain to expect on other photos."""
    broken: Sequence[FrnError]  # reasons for skipped photos

    @property
    def refusal(self) -> str | None:
        """Return why fine-tuning is not worth it, or None if it is."""
        if self.gain.mean < WORTH:
            return f"the gain on held-out photos is {self.gain.mean:+.1f} points, below {WORTH:g}"
        if self.expected.mean <= 0:
            return f"photos that had no part in the choice gain {self.expected.mean:+.1f} points"
        return None


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
    before, after, chosen = cross_validate(pools, extractor.prior)
    start, gain = summarise(before), summarise(after - before)
    return FineTuning(whitening(pools), start, gain, summarise(chosen), summarise(chosen - before), broken)


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


def cross_validate(pools: Sequence[Maps], prior: Prior) -> tuple[Array, Array, Array]:
    """Return which held-out photos are classified correctly, as 0 or 1: without the map, with it, and as chosen.

    The third uses the map if cross-validation of the other parts chooses it.
    """
    before, after, chosen = [], [], []
    for supports, held_out in _folds(pools):
        without, mapped = _both(supports, held_out, prior)
        inner = [_both(*fold, prior) for fold in _folds(supports)]
        gain = 100 * np.concatenate([right - left for left, right in inner]).mean()
        before.append(without)
        after.append(mapped)
        chosen.append(mapped if gain >= WORTH else without)
    return np.concatenate(before), np.concatenate(after), np.concatenate(chosen)


def _folds(pools: Sequence[Maps]) -> Iterator[tuple[Sequence[Maps], Sequence[Maps]]]:
    """Yield the supports and the held-out photos of each class, for each part.

    A class's consecutive photos are often alike, so each part is a block of them. A class whose photos are all
    held out is omitted from that part.
    """
    parts = [np.array_split(pool, FOLDS) for pool in pools]
    for fold in range(FOLDS):
        pairs = [(np.concatenate(part[:fold] + part[fold + 1 :]), part[fold]) for part in parts]
        supports, held_out = zip(*(pair for pair in pairs if len(pair[0])), strict=True)
        yield supports, held_out


def _both(supports: Sequence[Maps], held_out: Sequence[Maps], prior: Prior) -> tuple[Array, Array]:
    """Return which held-out photos are classified correctly without the map, and with that of the supports."""
    channels = whitening(supports)
    mapped, queries = ([maps @ channels for maps in side] for side in (supports, held_out))
    return _correct(supports, held_out, prior), _correct(mapped, queries, prior)


def _correct(supports: Sequence[Maps], queries: Sequence[Maps], prior: Prior) -> Array:
    """Return which queries of each class, (k, r, d), are classified correctly, as 0 or 1."""
    head = tune_by_leave_one_out(supports, prior)
    scorer = ClassScorer(enroll_all(supports, head))
    labels: NDArray[np.intp] = np.repeat(np.arange(len(queries)), [len(maps) for maps in queries])
    return (scorer.class_error(np.concatenate(queries)).argmin(1) == labels).astype(np.float64)


def write_finetuned(model: str, tuning: FineTuning, path: Path, record: Mapping[str, object]) -> None:
    """Write a model file with the map after the backbone. Raises FrnError if it cannot be written."""
    from frn.models.model import load_model, save_model

    tuned = load_model(model)
    tuned.adapt(tuning.channels)
    save_model(tuned, path, record)
