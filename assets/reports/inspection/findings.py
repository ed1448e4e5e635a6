"""Contents of an evaluation report: counts, calibration, and the hardest photos and episodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from inspection import tallies
from inspection.open_set import judge_episode
from numpy.typing import NDArray
from torch import Tensor

from frn.data.pixel_cache import StoredImages
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.accuracy import Result
from frn.evaluation.labelled import Counts, ReliabilityDiagram, Shares
from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.images.transforms import Pixels
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters

HARDEST_IMAGES, HARDEST_EPISODES = 12, 4
OPEN_SET_EPISODES = 200
"""Number of episodes for the histogram of explained shares, enough to make it smooth."""
MISTAKES = 6
"""Number of wrong answers that are shown for each class of an episode."""

Maps = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result for one shape of episodes, with the data behind it."""

    result: Result
    seed: int
    head: Head
    feature_maps: Tensor
    """Feature maps (n, r, d) of `images`."""
    images: StoredImages
    tally: tallies.Tally


@dataclass(frozen=True, slots=True)
class Mistake:
    """A photo and its wrong answer."""

    crop: Pixels
    """The crop that the network sees, (S, S, 3)."""
    number: int
    """Number of the photo in the split."""
    truth: str
    answer: str
    probability: float


@dataclass(frozen=True, slots=True)
class HardImage:
    """A photo that was often misclassified, with its most confident mistake."""

    mistake: Mistake
    asked: int
    wrong: int
    supports: dict[str, list[Pixels]]
    """Crops of the examples, for the photo's own class and for the predicted class."""
    error_maps: dict[str, NDArray[np.floating]]
    """Error maps (h, w) of both classes; empty if the head does not reconstruct or the feature maps are not square."""


@dataclass(frozen=True, slots=True)
class HardEpisode:
    """An episode with few correct answers."""

    number: int
    accuracy: float
    """Accuracy in percent."""
    supports: dict[str, list[Pixels]]
    mistakes: dict[str, list[Mistake]]
    """Up to `MISTAKES` mistakes for each class, the most confident first."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The details that the report shows for one shape of episodes."""

    result: Result
    names: tuple[str, ...]
    recall: tuple[Shares, Shares]
    confusion: Counts
    calibration: ReliabilityDiagram
    explained: tuple[NDArray[np.floating], NDArray[np.floating]] | None
    """Explained share of the best class, for known and for unknown queries; None if it was not measured."""
    images: list[HardImage]
    episodes: list[HardEpisode]


def find(inspection: Inspection) -> Findings:
    """Collect the contents of the report for one shape of episodes."""
    tally, images = inspection.tally, inspection.images
    return Findings(
        inspection.result,
        images.names,
        tallies.recall(tally),
        tallies.confusion(tally),
        tally.calibration(),
        _open_set(inspection),
        [_hard_image(inspection, int(image)) for image in tallies.hardest_images(tally, HARDEST_IMAGES)],
        [_hard_episode(inspection, int(episode)) for episode in tallies.hardest_episodes(tally, HARDEST_EPISODES)],
    )


def _open_set(inspection: Inspection) -> tuple[NDArray[np.floating], NDArray[np.floating]] | None:
    shape, sizes, head = inspection.tally.shape, inspection.images.sizes, inspection.head
    if not isinstance(head, FRNHead) or len(sizes) < 2 * shape.way:
        return None
    learned, feature_maps = HeadParameters.of(head), inspection.feature_maps.cpu().numpy()
    found = [
        judge_episode(learned, feature_maps, sizes, shape, seed=inspection.seed, index=index).explained
        for index in range(min(OPEN_SET_EPISODES, inspection.result["episodes"]))
    ]
    return np.concatenate([known for known, _ in found]), np.concatenate([unknown for _, unknown in found])


def _sampled(inspection: Inspection, episode: int) -> NDArray[np.int64]:
    shape: EpisodeShape = inspection.tally.shape
    return evaluation_episode(inspection.images.sizes, shape, seed=inspection.seed, index=episode)


def _mistake(inspection: Inspection, episode: int, query: int) -> Mistake:
    tally, images = inspection.tally, inspection.images
    image = int(tally.image[episode, query])
    truth, answer = int(tally.class_of(tally.image[episode, query])), int(tally.answer[episode, query])
    probability = float(tally.probability[episode, query])
    return Mistake(_crops(inspection, [image])[0], image, images.names[truth], images.names[answer], probability)


def _crops(inspection: Inspection, numbers: Sequence[int] | NDArray[np.int64]) -> list[Pixels]:
    return list(inspection.images.gather(numbers)[0])


def _hard_image(inspection: Inspection, image: int) -> HardImage:
    tally, shape = inspection.tally, inspection.tally.shape
    asked, wrong = tallies.asked(tally)
    episode, query = tallies.surest_mistake(tally, image)
    mistake, sampled = _mistake(inspection, episode, query), _sampled(inspection, episode)
    labels = [inspection.images.names[int(tally.class_of(row[0]))] for row in sampled]
    rows = {name: sampled[labels.index(name), : shape.shot] for name in (mistake.truth, mistake.answer)}
    supports = {name: _crops(inspection, row) for name, row in rows.items()}
    maps = _error_maps(inspection, rows, image)
    return HardImage(mistake, int(asked[image]), int(wrong[image]), supports, maps)


def _error_maps(
    inspection: Inspection, rows: dict[str, NDArray[np.int64]], image: int
) -> dict[str, NDArray[np.floating]]:
    """Return the squared errors (h, w) of an image for each class, given the numbers of the class's examples."""
    head, r = inspection.head, inspection.feature_maps.shape[1]
    side = math.isqrt(r)
    if not isinstance(head, FRNHead) or side * side != r:
        return {}
    learned = HeadParameters.of(head)
    bank = ClassScorer([enroll(inspection.feature_maps[row].cpu().numpy(), learned) for row in rows.values()])
    errors = bank.location_error(inspection.feature_maps[[image]].cpu().numpy())[0]  # r, 2
    return {name: error.reshape(side, side) for name, error in zip(rows, errors.T, strict=True)}


def _hard_episode(inspection: Inspection, episode: int) -> HardEpisode:
    tally, shape, sampled = inspection.tally, inspection.tally.shape, _sampled(inspection, episode)
    wrong = np.flatnonzero(~tally.right[episode])
    wrong = wrong[np.argsort(-tally.probability[episode, wrong], kind="stable")]
    supports: dict[str, list[Pixels]] = {}
    mistakes: dict[str, list[Mistake]] = {}
    for place, row in enumerate(sampled):
        name = inspection.images.names[int(tally.class_of(row[0]))]
        supports[name] = _crops(inspection, row[: shape.shot])
        own = [query for query in wrong if query // shape.queries == place][:MISTAKES]
        mistakes[name] = [_mistake(inspection, episode, int(query)) for query in own]
    return HardEpisode(episode, 100 * float(tally.right[episode].mean()), supports, mistakes)
