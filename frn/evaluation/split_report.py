"""Evaluation of a model on a split: features are computed once for several episode shapes."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn.data.pixel_cache import Progress, StoredImages
from frn.episodes import EpisodeShape, check_classes, evaluation_episode
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, Result, as_result, summarise
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import FeatureExtractor
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.enrolment import Array, ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior, tune_by_leave_one_out, tune_on_episodes
from frn.ridge.unlabelled.transductive import refine
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import keep_freed_memory

CONCENTRATION = 2.0
"""Parameter of the Dirichlet distribution of class sizes (Veilleux et al., NeurIPS 2021)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationPlan:
    """Parameters of an evaluation on images."""

    shapes: Sequence[EpisodeShape]
    """Episode shapes, one result each."""
    episodes: int
    seed: int = 0
    head: Head | None = None
    """Scorer that replaces the model's."""
    tune: bool = False
    """Also enroll each episode's classes as `frn classify` does: alpha and gamma chosen by leave-one-out."""
    transductive: bool = False
    """Also let the queries of each episode refine its enrolled classes; implies `tune`."""
    ranks: ProcessGroup = ALONE

    def check(self, images: StoredImages, where: str) -> None:
        """Raise FrnError, naming the class, if there are too few images for one of the shapes."""
        for shape in self.shapes:
            check_classes(images.names, images.sizes, shape, where=where, every_class=True)


def evaluate_images(
    extractor: FeatureExtractor,
    images: StoredImages,
    plan: EvaluationPlan,
    *,
    validation: StoredImages | None = None,
    where: str = "the split",
    extracting: Progress | None = None,
    scoring: Progress | None = None,
) -> list[Result]:
    """Evaluate a model on images prepared by its own transform. The model is unchanged.

    An untrained FRN head is tuned for each shape on `validation`, images of other classes. Error messages call the
    images `where`. `extracting` counts images, `scoring` the episodes of one shape. Raises FrnError if a class is too
    small for one of the shapes, or the model's numbers are not finite.
    """
    keep_freed_memory()
    if validation is not None:
        plan.check(validation, "the validation split")
    plan.check(images, where)
    ranks, head = plan.ranks, plan.head or extractor.new_head()
    tune = plan.tune or plan.transductive
    if tune and not isinstance(head, FRNHead):
        raise FrnError("--tune and --transductive enroll classes: they need a model trained with --method frn")

    def extract(whole: StoredImages) -> Tensor:
        maps = ranks.gather(extractor.extract(whole.portion(ranks.share(len(whole))), extracting), len(whole))
        if not all(numbers.sum().isfinite() for numbers in (maps, *head.state_dict().values())):  # argmax of NaN is 0
            raise FrnError("the model is damaged: its weights or feature maps are not finite")
        return maps

    def whole(shares: NDArray[np.float64]) -> Accuracy:
        own = torch.from_numpy(shares).to(feature_maps.device)
        return summarise(ranks.gather(own, plan.episodes).cpu().numpy())

    feature_maps = extract(images)
    examples = None if validation is None else extract(validation).cpu().numpy()
    results: list[Result] = []
    options: dict[str, Any] = {"episodes": ranks.share(plan.episodes), "seed": plan.seed, "progress": scoring}
    for shape in plan.shapes:
        chosen = None
        if validation is not None and examples is not None and isinstance(head, FRNHead):
            chosen = tune_on_episodes(examples, validation.sizes, shape, seed=plan.seed)
            head.set_parameters(chosen)
        began = time.perf_counter()
        accuracy = whole(episode_accuracies(head, feature_maps, images.sizes, shape, **options))
        result = as_result(accuracy, shape, time.perf_counter() - began)
        if chosen:
            result["head"] = asdict(chosen)
        if tune:
            prior = UNTRAINED if extractor.untrained_head else Prior.trained(HeadParameters.of(head))
            maps = feature_maps.cpu().numpy()
            shares = enrolled_accuracies(prior, maps, images.sizes, shape, transductive=plan.transductive, **options)
            found = [{"accuracy": each.mean, "ci95": each.ci95} for each in map(whole, shares.T)]
            result["tuned"] = found[0]
            if plan.transductive:
                names = ("balanced", "dirichlet_inductive", "dirichlet")
                result["transductive"] = dict(zip(names, found[1:], strict=True))
        results.append(result)
    return results


def enrolled_accuracies(
    prior: Prior,
    feature_maps: NDArray[np.float32],
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    transductive: bool = False,
    progress: Progress | None = None,
) -> Array:
    """Return the fraction of correct answers in each episode, (e, 1), from the maps (n, r, d) of all images by class.

    Each episode is enrolled as in `frn classify` and chooses its own alpha and gamma.

    `transductive` adds three columns, (e, 4): with classes refined by the same queries; for as many queries with
    unequal class sizes; and for these again, with classes refined by them.
    """
    shares = np.empty((len(episodes), 4 if transductive else 1))
    for place, index in enumerate(episodes):
        drawn = evaluation_episode(sizes, shape, seed=seed, index=index)
        pools = list(feature_maps[drawn[:, : shape.shot]])
        head = tune_by_leave_one_out(pools, prior)
        scorer = ClassScorer([enroll(pool, head) for pool in pools])
        asked = [list(drawn[:, shape.shot :])]
        if transductive:
            asked.append(_unequal(drawn, sizes, shape, np.random.default_rng([seed, index])))
        for column, images in enumerate(asked):
            labels = np.repeat(np.arange(shape.way), [len(own) for own in images])
            queries = feature_maps[np.concatenate(images)]
            errors = scorer.class_error(queries).astype(np.float64)
            shares[place, 2 * column] = (errors.argmin(1) == labels).mean()
            if transductive:
                refined, _ = refine(errors, pools, queries, head)
                shares[place, 2 * column + 1] = (refined.argmin(1) == labels).mean()
        if progress:
            progress(place + 1, len(episodes))
    return shares


def _unequal(
    drawn: NDArray[np.int64], sizes: Sequence[int], shape: EpisodeShape, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw as many queries, with class shares from a Dirichlet distribution; fewer if there are not enough images."""
    counts = generator.multinomial(shape.way * shape.queries, generator.dirichlet(np.full(shape.way, CONCENTRATION)))
    ends = np.cumsum(sizes)
    owners = np.searchsorted(ends, drawn[:, 0], side="right")
    images = []
    for supports, owner, count in zip(drawn[:, : shape.shot], owners, counts, strict=True):
        left = np.setdiff1d(np.arange(ends[owner] - sizes[owner], ends[owner]), supports)
        images.append(generator.permutation(left)[:count])
    return images
