"""Cost of int8: accuracy before and after, on the same random episodes of held-out images.

One shot is the hardest case and needs the fewest images.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from frn.data.folders import ClassFolders, scan
from frn.data.pixel_cache import Progress, load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.evaluation.accuracy import summarise
from frn.evaluation.episodes import episode_accuracies
from frn.features.extractor import BATCH, Extractor
from frn.heads.head import Head
from frn.images.transforms import EvaluationTransform, Pixels
from frn.projects.folder_tree import Broken

WAY, SHOT, QUERIES = 5, 1, 5
EPISODES = 1000
SHARE = 6  # every sixth image of a class is used for calibration; the others are held out
NEEDED = 8  # minimum number of images per class: two for calibration, six for an episode


@dataclass(frozen=True, slots=True)
class Sample:
    """Prepared images of class folders, (n, S, S, 3) each."""

    calibration: Pixels
    held_out: Pixels  # held-out images, class by class
    sizes: tuple[int, ...]  # held-out images of each class
    folder: Path
    broken: tuple[Broken, ...]  # files that are not readable images


@dataclass(frozen=True, slots=True)
class Cost:
    """Mean accuracies over the same episodes, in percent."""

    shape: EpisodeShape
    before: float
    after: float
    folder: Path

    def __str__(self) -> str:
        return (
            f"{self.shape} accuracy {self.before:.2f}% in fp32, {self.after:.2f}% in int8, "
            "on images like the calibration images"
        )

    @property
    def drop(self) -> float:
        """Loss of accuracy in percentage points; negative if int8 is more accurate."""
        return self.before - self.after

    def require(self, max_drop: float) -> None:
        """Raise FrnError if the extractor loses more than `max_drop` percentage points."""
        if not self.drop <= max_drop:
            raise FrnError(
                f"int8 loses {self.drop:.2f} points of {self.shape} accuracy on {self.folder} ({self.before:.2f} to "
                f"{self.after:.2f}%); at most {max_drop:g} is allowed. Use --precision fp16, calibrate on "
                "photos like those you will classify, or allow more with --max-drop. Nothing was written."
            )


def draw_sample(folder: Path, transform: EvaluationTransform, progress: Progress | None = None) -> Sample:
    """Read class folders and set every sixth image aside for calibration.

    Raises FrnError if there are fewer than two classes, or one has too few readable images.
    """
    folders = scan(folder)
    # Images used per class, evenly spread; more would only take longer
    thinned = tuple(files[:: -(-len(files) // 60)] for files in folders.files)
    images = load_images(ClassFolders(folders.root, folders.names, thinned), transform, progress=progress)
    if len(images.names) < 2:
        raise FrnError(
            f"{folder}: has 1 class, but checking int8 needs at least 2 with {NEEDED} images each. Add another."
        )
    size, name = min(zip(images.sizes, images.names, strict=True))
    if size < NEEDED:
        raise FrnError(
            f"{folder}: class {name!r} has {size} readable images, but int8 needs {NEEDED} images per class (2 "
            f"to calibrate, {SHOT + QUERIES} for an episode). Add some, or remove the class."
        )
    calibrates = np.concatenate([np.arange(size) % SHARE == 0 for size in images.sizes])
    pixels, sizes = images.images(), tuple(size - -(-size // SHARE) for size in images.sizes)
    return Sample(pixels[calibrates], pixels[~calibrates], sizes, folder, images.broken)


def measure_cost(head: Head, before: bytes, after: bytes, sample: Sample, *, progress: Progress | None = None) -> Cost:
    """Score the same episodes with the features of the float32 and the quantised extractor."""
    shape = EpisodeShape(way=min(WAY, len(sample.sizes)), shot=SHOT, queries=QUERIES)
    total = len(sample.held_out)

    def accuracy(data: bytes, done: int) -> float:
        extractor = Extractor(data, "the exported file", device="cpu")
        maps = []
        for start in range(0, total, BATCH):
            maps.append(extractor.feature_maps(sample.held_out[start : start + BATCH]))
            if progress:
                progress(done + min(start + BATCH, total), 2 * total)
        features = torch.from_numpy(np.concatenate(maps))
        accuracies = episode_accuracies(head, features, sample.sizes, shape, episodes=range(EPISODES), seed=0)
        return summarise(accuracies).mean

    return Cost(shape, accuracy(before, 0), accuracy(after, total), sample.folder)
