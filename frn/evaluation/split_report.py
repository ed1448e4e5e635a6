"""A model measured on a split: several episode shapes from features that are computed once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from frn.data.pixel_cache import Progress, StoredImages
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import summarise
from frn.evaluation.enrolled import enrolled_accuracies
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import FeatureExtractor
from frn.evaluation.open_set import Unknown, doubled, measure_open_set
from frn.evaluation.tally import Tally
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import UNTRAINED, Prior, tune_on_episodes
from frn.system.distributed import ALONE, ProcessGroup
from frn.system.precision import keep_freed_memory


class Result(TypedDict):
    """One shape's accuracy; `accuracy` and `ci95` in percent."""

    way: int
    shot: int
    queries: int
    episodes: int
    accuracy: float
    ci95: float
    seconds: float
    tuned: NotRequired[dict[str, float]]
    """Accuracy and ci95 of the same episodes, enrolled as `frn classify` does."""
    transductive: NotRequired[dict[str, dict[str, float]]]
    """Accuracy and ci95 if the queries refine these classes: of the same episodes, and with unequal classes."""
    unknown: NotRequired[Unknown]
    head: NotRequired[dict[str, float]]
    """What was chosen from the validation split, for a head that nobody trained."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One shape's result, and what it was made from."""

    result: Result
    seed: int
    head: Head
    feature_maps: Tensor
    """(n, r, d) of `images`."""
    images: StoredImages
    tally: Tally


Inspect = Callable[[Inspection], None]
"""Is shown each shape's answers before the next one begins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationPlan:
    """What is measured."""

    shapes: Sequence[EpisodeShape]
    """One result each."""
    episodes: int
    """Per shape."""
    seed: int = 0
    """The same seed draws the same episodes."""
    head: Head | None = None
    """In place of the model's own."""
    tune: bool = False
    """Also enroll the classes of each episode as `frn classify` does: alpha and gamma chosen by leave-one-out."""
    transductive: bool = False
    """Also let the queries of each episode refine its enrolled classes; implies `tune`."""
    unknown: bool = False
    """Also measure how well unknown classes are detected; needs twice as many classes."""
    ranks: ProcessGroup = ALONE
    """Processes that share images and episodes."""

    def check(self, images: StoredImages, where: str) -> None:
        """Refuse images that cannot serve one of the shapes; an FrnError names the class that is too small."""
        for shape in self.shapes:
            needed = doubled(shape) if self.unknown else shape
            check_classes(images.names, images.sizes, needed, where=where, every_class=True)


def evaluate_images(
    extractor: FeatureExtractor,
    images: StoredImages,
    plan: EvaluationPlan,
    *,
    validation: StoredImages | None = None,
    where: str = "the split",
    extracting: Progress | None = None,
    scoring: Progress | None = None,
    inspect: Inspect | None = None,
) -> list[Result]:
    """Evaluate a model on images prepared by its own transform. The model stays as it is.

    An untrained FRN head is tuned on `validation`, images of other classes, for each shape. An error calls the images
    `where`; progress counts images, and over the episodes of one shape; `inspect` is shown each shape's answers.
    FrnError if a class is too small for one of the shapes, or the model's numbers are not finite.
    """
    keep_freed_memory()
    if validation is not None:
        replace(plan, unknown=False).check(validation, "the validation split")
    plan.check(images, where)
    ranks, head = plan.ranks, plan.head or extractor.new_head()
    tune = plan.tune or plan.transductive
    if tune and not isinstance(head, FRNHead):
        raise FrnError("--tune and --transductive enroll classes: they need a model trained with --method frn")
    if plan.unknown and not isinstance(head, FRNHead):
        raise FrnError("--unknown asks how much of a query is rebuilt: it needs a model trained with --method frn")

    def extract(whole: StoredImages) -> Tensor:
        maps = ranks.gather(extractor.extract(whole.portion(ranks.share(len(whole))), extracting), len(whole))
        if not all(numbers.sum().isfinite() for numbers in (maps, *head.state_dict().values())):  # all would be class 0
            raise FrnError("the model has weights, or made feature maps, that are not finite: it is damaged")
        return maps

    feature_maps = extract(images)
    examples = None if validation is None else extract(validation).cpu().numpy()
    results: list[Result] = []
    for shape in plan.shapes:
        chosen = None
        if validation is not None and examples is not None and isinstance(head, FRNHead):
            chosen = tune_on_episodes(examples, validation.sizes, shape, seed=plan.seed)
            head.set_parameters(chosen)
        began = time.perf_counter()
        tally = Tally(images.sizes, shape, plan.episodes) if inspect else None
        own = episode_accuracies(
            head,
            feature_maps,
            images.sizes,
            shape,
            episodes=ranks.share(plan.episodes),
            seed=plan.seed,
            progress=scoring,
            tally=tally,
        )
        accuracy = summarise(ranks.gather(torch.from_numpy(own).to(feature_maps.device), plan.episodes).cpu().numpy())
        result: Result = {
            "way": shape.way,
            "shot": shape.shot,
            "queries": shape.queries,
            "episodes": plan.episodes,
            "accuracy": accuracy.mean,
            "ci95": accuracy.ci95,
            "seconds": round(time.perf_counter() - began, 3),
        }
        if chosen:
            result["head"] = asdict(chosen)
        if tune:
            prior = UNTRAINED if extractor.untrained_head else Prior.trained(HeadParameters.of(head))
            shares = enrolled_accuracies(
                prior,
                feature_maps.cpu().numpy(),
                images.sizes,
                shape,
                episodes=ranks.share(plan.episodes),
                seed=plan.seed,
                transductive=plan.transductive,
                progress=scoring,
            )
            every = ranks.gather(torch.from_numpy(shares).to(feature_maps.device), plan.episodes).cpu().numpy()
            columns = [{"accuracy": found.mean, "ci95": found.ci95} for found in map(summarise, every.T)]
            result["tuned"] = columns[0]
            if plan.transductive:
                names = ("balanced", "dirichlet_inductive", "dirichlet")
                result["transductive"] = dict(zip(names, columns[1:], strict=True))
        if plan.unknown:
            learned = HeadParameters.of(head)
            result["unknown"] = measure_open_set(
                learned,
                feature_maps.cpu().numpy(),
                images.sizes,
                shape,
                episodes=plan.episodes,
                seed=plan.seed,
                progress=scoring,
            )
        results.append(result)
        if inspect and tally:
            inspect(Inspection(result, plan.seed, head, feature_maps, images, tally))
    return results
