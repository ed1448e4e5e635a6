"""Check of a data set before training."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from frn.data.folders import scan
from frn.data.pixel_cache import Progress
from frn.errors import FrnError
from frn.images.near_copies import LEAST_SAVED, Looks, copy_sets, look, same_photos
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.projects.folder_tree import Broken
from frn.system.hardware import cores


class SplitReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of a split."""

    folder: str
    classes: dict[str, int]  # number of readable images per class
    smallest: tuple[int, int]  # smallest width and smallest height
    largest: tuple[int, int]
    broken: list[Broken]
    too_small: dict[str, int]  # classes with fewer images than any episode needs: one support and one query
    skipped: list[Broken]  # entries that are not images, with the reason
    copies: list[tuple[str, str]]  # near copies: of a photo of the same class, or of another class or split

    def __str__(self) -> str:
        counts = self.classes.values()
        return (
            f"{len(self.classes)} classes, {sum(counts)} images, {min(counts)} to {max(counts)} per class, "
            "{} x {} to {} x {} pixels".format(*self.smallest, *self.largest)
        )


MANY = 10_000  # images up to which those of different classes and splits are compared, in about a minute
CROP = EvaluationTransform(size=192, resize=216)


@dataclass(slots=True)
class Seen:
    """The looks of images (`near_copies`), and the class of each."""

    paths: list[str] = field(default_factory=list)
    looks: list[bytes] = field(default_factory=list)
    classes: list[Path] = field(default_factory=list)

    def copies(self) -> list[tuple[str, str]]:
        """Return near copies, each with the photo that it copies: of the same class, then of others."""
        pairs, places = [], dict[Path, list[int]]()
        for place, home in enumerate(self.classes):
            places.setdefault(home, []).append(place)
        for members in places.values():
            for first, *others in copy_sets([self.looks[place] for place in members], LEAST_SAVED):
                pairs += [(members[other], members[first]) for other in others]
        if len(self.paths) <= MANY:
            every = Looks(self.looks)
            both = {(max(pair), min(pair)) for pair in same_photos(every, every)}
            pairs += sorted(pair for pair in both if self.classes[pair[0]] != self.classes[pair[1]])
        return [(self.paths[one], self.paths[other]) for one, other in pairs]


def check_splits(folders: Sequence[Path], progress: Progress | None = None) -> list[SplitReport]:
    """Decode every image of some splits, count those of each class, and find near copies.

    Raises FrnError if a folder has no class folders, or one is empty.
    """
    seen = Seen()
    reports = [_check_split(folder, seen, progress) for folder in folders]
    copies = seen.copies()
    return [
        replace(report, copies=[pair for pair in copies if Path(pair[0]).is_relative_to(report.folder)])
        for report in reports
    ]


def _check_split(folder: Path, seen: Seen, progress: Progress | None) -> SplitReport:
    folders = scan(folder)
    labels = [name for name, files in zip(folders.names, folders.files, strict=True) for _ in files]
    paths = folders.paths

    def measure(path: Path) -> tuple[tuple[int, int], bytes] | Broken:
        try:
            image = open_image(path)
            return image.size, look(CROP(image))
        except FrnError as error:
            return Broken(str(path.relative_to(folder)), str(error))

    sizes = dict.fromkeys(folders.names, 0)
    widths, heights, broken = [], [], []
    with ThreadPoolExecutor(cores()) as pool:
        measured = zip(labels, paths, pool.map(measure, paths), strict=True)
        for done, (label, path, result) in enumerate(measured, start=1):
            if isinstance(result, Broken):
                broken.append(result)
            else:
                sizes[label] += 1
                (width, height), seen_as = result
                widths.append(width)
                heights.append(height)
                seen.paths.append(str(path))
                seen.looks.append(seen_as)
                seen.classes.append(folder / label)
            if progress and done % 64 == 0:
                progress(done, len(paths))
    smallest, largest = ((ends(widths, default=0), ends(heights, default=0)) for ends in (min, max))
    too_small = {name: size for name, size in sizes.items() if size < 2}
    return SplitReport(str(folder), sizes, smallest, largest, broken, too_small, [*folders.skipped], [])
