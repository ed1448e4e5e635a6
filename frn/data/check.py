"""Check of a split before training."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from frn.data.folders import scan
from frn.data.pixel_cache import Progress
from frn.errors import FrnError
from frn.images.opening import open_image
from frn.projects.folder_tree import Broken
from frn.system.hardware import cores


class SplitReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of a split."""

    folder: str
    classes: dict[str, int]
    """Number of readable images per class."""
    smallest: tuple[int, int]
    """Smallest width and smallest height."""
    largest: tuple[int, int]
    broken: list[Broken]
    too_small: dict[str, int]
    """Classes with too few images for an episode."""
    skipped: list[Broken]
    """Entries that are not images, with the reason."""

    def __str__(self) -> str:
        counts = self.classes.values()
        return (
            f"{len(self.classes)} classes, {sum(counts)} images, {min(counts)} to {max(counts)} per class, "
            "{} x {} to {} x {} pixels".format(*self.smallest, *self.largest)
        )


def check_split(folder: Path, per_class: int, progress: Progress | None = None) -> SplitReport:
    """Decode every image of a split and count those of each class; an episode needs `per_class` images of a class.

    Raises FrnError if the folder has no class folders, or one is empty.
    """
    folders = scan(folder)
    labels = [name for name, files in zip(folders.names, folders.files, strict=True) for _ in files]
    paths = folders.paths

    def measure(path: Path) -> tuple[int, int] | Broken:
        try:
            return open_image(path).size
        except FrnError as error:
            return Broken(str(path.relative_to(folder)), str(error))

    sizes = dict.fromkeys(folders.names, 0)
    widths, heights, broken = [], [], []
    with ThreadPoolExecutor(cores()) as pool:
        for done, (label, result) in enumerate(zip(labels, pool.map(measure, paths), strict=True), start=1):
            if isinstance(result, Broken):
                broken.append(result)
            else:
                sizes[label] += 1
                widths.append(result[0])
                heights.append(result[1])
            if progress and done % 64 == 0:
                progress(done, len(paths))
    smallest, largest = ((ends(widths, default=0), ends(heights, default=0)) for ends in (min, max))
    too_small = {name: size for name, size in sizes.items() if size < per_class}
    return SplitReport(str(folder), sizes, smallest, largest, broken, too_small, [*folders.skipped])
