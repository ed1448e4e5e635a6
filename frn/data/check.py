"""Looking a split over before hours are spent on it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from frn.data.folders import Broken, scan
from frn.data.pixel_cache import Progress
from frn.errors import FrnError
from frn.images.opening import open_image
from frn.system.hardware import cores


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What a split holds."""

    folder: Path
    sizes: dict[str, int]
    """Readable images of each class."""
    extents: tuple[tuple[int, int], tuple[int, int]]
    """Smallest and largest (width, height), each side for itself."""
    broken: list[Broken]
    too_small: dict[str, int]
    """Classes that cannot serve an episode."""
    skipped: list[Broken]
    """What is not an image by its name or place."""

    def __str__(self) -> str:
        counts = self.sizes.values()
        (least_w, least_h), (most_w, most_h) = self.extents
        return (
            f"{len(self.sizes)} classes, {sum(counts)} images, {min(counts)} to {max(counts)} per class, "
            f"{least_w} x {least_h} to {most_w} x {most_h} pixels"
        )

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "folder": str(self.folder),
            "classes": self.sizes,
            "smallest": self.extents[0],
            "largest": self.extents[1],
            "broken": [{"path": entry.path, "reason": entry.reason} for entry in self.broken],
            "too_small": self.too_small,
            "skipped": [{"path": entry.path, "reason": entry.reason} for entry in self.skipped],
        }


def check_split(folder: Path, per_class: int, progress: Progress | None = None) -> SplitReport:
    """Decode every image of a split; an episode takes `per_class` images from a class.

    FrnError if the folder holds no class folders, or one is empty.
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
    extents = ((min(widths, default=0), min(heights, default=0)), (max(widths, default=0), max(heights, default=0)))
    too_small = {name: size for name, size in sizes.items() if size < per_class}
    return SplitReport(folder, sizes, extents, broken, too_small, [*folders.skipped])
