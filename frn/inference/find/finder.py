"""The search of a photo for its subject, or all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.features.any_size import any_size
from frn.features.extractor import MAX_FEATURE, Extractor
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import ForeignModel, OwnModel
from frn.images.boxes import Box, box_name, split_box
from frn.images.opening import decode_whole, read_file
from frn.images.stamps import stamp_of
from frn.images.transforms import Pixels
from frn.inference.find.windows import (
    WHOLE,
    Fractions,
    cut,
    distinct,
    location_errors,
    margins,
    pixel_box,
    window_means,
)
from frn.ridge.enrolment import Array, ClassScorer, energy

SCALE = 1.5
"""Shorter side at which a photo is searched, relative to the model's."""
PARTS = (1.0, 2 / 3, 1 / 3)
"""Sides of the windows relative to the model's map: 2/3, 4/9 and 2/9 of the photo's shorter side."""
LEARNED = 0.4
"""Weight of what boxes teach. Six draws of four boards gain 3 points over 0.1, with one box per class 7; 0.8 gains no
more, and nine kinds change by less than their standard error."""
MOST = 16
"""Maximum number of subjects in a photo."""
LEAST_KNOWN = 0.2
"""Least `known` of one of several subjects, because two examples that the search misses can lower the threshold so far
that background reaches it. In ten draws of pasted birds, butterflies and dogs, the number of subjects is then off by
0.25 of 2.3, instead of 0.48."""
STRIP = 10
"""Largest aspect ratio that is kept; longer strips are squeezed, which bounds the memory."""
LONGEST = 1024
"""Longest side at which a photo is searched, in pixels; bounds the work for panoramas."""


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """The subjects to search for."""

    scorer: ClassScorer
    """The enrolled classes."""
    weights: Array
    """What boxes of examples teach (`examples.Lesson`), (d,): cells of subjects have larger products with it."""


class Finder:
    """Searches photos for subjects."""

    def __init__(self, extractor: Extractor) -> None:
        """Open the extractor for images of any size.

        Raises FrnError if its network is not convolutional, or its head is not FRN's.
        """
        if extractor.head is None:
            raise FrnError(f"a {extractor.method} model cannot search photos. Use one trained with --method frn.")
        self.extractor, self.where = extractor, extractor.where
        kind = OwnModel if isinstance(extractor.session, OwnModel) else ForeignModel
        self.session = kind(any_size(extractor.data, self.where), self.where, extractor.device, extractor.threads)
        views = extractor.tta == "views"
        self.side = extractor.transform.size * 2 // 3 if views else extractor.transform.size
        self.grid = (extractor.grid[0] // 3, extractor.grid[1] // 3) if views else extractor.grid

    def box(self, path: Path, sought: Sought, own: int | None = None) -> Path:
        """Return a photo's name with the box of its subject, or without one if the whole photo has the largest margin.

        A photo that has a box is returned unchanged. With `own`, the subject is the part that this class explains best,
        compared with the others, and not the whole photo. Raises FrnError if the photo cannot be read.
        """
        if split_box(path)[1] is not None:
            return path
        stamp = stamp_of(path)  # before reading: a later change has another
        pixels, size = self.pixels(path)
        part, maps = self.best(pixels, sought, own)
        subject = path if part is WHOLE else Path(box_name(str(path), pixel_box(part, size)))
        if pixels.shape[1::-1] == size:  # not scaled down: reading it would give the same map
            crop = self.extractor.transform(Image.fromarray(cut(pixels, part)))
            self.extractor.remember(subject, stamp, maps, crop)
        return subject

    def box_in(self, image: Image.Image, sought: Sought) -> Box | None:
        """Return the box of the subject of an upright RGB image that is not a file; None is the whole image."""
        small = image.copy()
        small.thumbnail((LONGEST, LONGEST), Image.Resampling.BILINEAR)
        part, _ = self.best(np.asarray(small), sought)
        return None if part is WHOLE else pixel_box(part, image.size)

    def best(self, pixels: Pixels, sought: Sought, own: int | None = None) -> tuple[Fractions, Maps]:
        """Return the part with the largest margin, which with `own` is not `WHOLE`, and its map."""
        windows = self.windows(self.maps(pixels, SCALE), sought, own)
        parts = [parts[margin.argmax()] for margin, parts in windows]
        looks = [self.look(cut(pixels, part)) for part in parts]
        if own is None:  # in a class with boxes, the subject is a part of the photo
            parts, looks = [WHOLE, *parts], [self.look(pixels), *looks]
        errors, lengths = location_errors(np.stack(looks), sought.scorer)
        means, energies = errors.mean(1), lengths.mean((1, 2))
        best = margins(sought.scorer.with_allowances(means, energies), energies, own)[0].argmax()
        return parts[best], looks[best]

    def look(self, pixels: Pixels) -> Maps:
        """Return the map (r, d) of a part of a photo, read like a photo."""
        return self.extractor.feature_maps(self.extractor.transform(Image.fromarray(pixels))[None])[0]

    def pixels(self, path: Path) -> tuple[Pixels, tuple[int, int]]:
        """Return the pixels of a photo, scaled down if it is large, and its full width and height.

        Raises FrnError if it cannot be read.
        """
        return decode_whole(read_file(path), path, LONGEST)

    def candidates(self, path: Path, sought: Sought) -> tuple[list[Box], Maps]:
        """Return the parts of a photo that may be subjects, and their maps: the windows with the largest margins.

        Those of one size overlap little. Raises FrnError if the photo cannot be read.
        """
        pixels, size = self.pixels(path)
        found: dict[Box, Maps] = {}
        for margin, parts in self.windows(self.maps(pixels, SCALE), sought):
            boxes = {pixel_box(parts[place], size): parts[place] for place in np.argsort(-margin).tolist()}
            found |= {box: self.look(cut(pixels, boxes[box])) for box in distinct(boxes, MOST)}
        return [*found], np.stack([*found.values()])

    def located(self, path: Path, sought: Sought, own: int | None = None) -> Path:
        """Return what `box` does, or the name of a photo that cannot be read."""
        try:
            return self.box(path, sought, own)
        except FrnError:  # reading it will say why
            return path

    def windows(self, maps: Maps, sought: Sought, own: int | None = None) -> Iterator[tuple[Array, list[Fractions]]]:
        """Yield the margins (n,) and places of all windows of each size in a map (H, W, d).

        The margins include what boxes teach.
        """
        rows, columns = maps.shape[:2]
        errors, lengths = location_errors(maps, sought.scorer)
        learned = LEARNED * (maps @ sought.weights)[..., None]
        for h, w in self.sizes:
            energies = window_means(lengths, (h, w))[..., 0]
            means = sought.scorer.with_allowances(window_means(errors, (h, w)), energies)
            margin, _ = margins(means, energies, own)
            margin = margin + window_means(learned, (h, w))[..., 0]
            places = [(x / columns, y / rows, w / columns, h / rows) for y, x in np.ndindex(margin.shape)]
            yield margin.ravel(), places

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Return the rows and columns of windows."""
        return [(max(1, round(part * self.grid[0])), max(1, round(part * self.grid[1]))) for part in PARTS]

    def maps(self, pixels: Pixels, scale: float) -> Maps:
        """Return the map (H, W, d) of a photo whose shorter side is `scale` times that of the model's images."""
        (h, w), side = self.grid, self.side
        height, width = pixels.shape[:2]
        unit = scale / min(height, width)
        longest = STRIP * scale
        rows, columns = (
            min(max(least, round(least * length * unit)), round(least * longest))
            for least, length in ((h, height), (w, width))
        )
        size = round(columns * side / w), round(rows * side / h)
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)
        images = np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)[None], np.float32)
        images /= 255
        (maps,) = self.session.run({self.session.inputs[0][0]: images})
        whole = energy(maps.reshape(1, -1, maps.shape[-1]))[0]
        if not np.abs(maps).max(initial=0) <= MAX_FEATURE or not whole:
            raise FrnError(f"{self.where}: returned a feature map that is not finite, or zero: it is damaged")
        # A network that normalises its maps does so for the whole image, whatever its size.
        return maps * np.float32(1 / np.sqrt(whole))
