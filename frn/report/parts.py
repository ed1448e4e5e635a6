"""Deciding parts in a page: what `parts.js` shows beside a photo, and the example photos that it shows parts of."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from frn.features.extractor import Extractor
from frn.inference.explanation import Box, Explanation
from frn.report.explanation_picture import Crops, around

SIDE = 160  # side of a thumbnail in pixels


class PartsOfPage:
    """Describes explanations as the page's script reads them, and numbers the example photos."""

    def __init__(self) -> None:
        self._numbers: dict[Path, int] = {}

    def of(self, explanation: Explanation) -> list[dict[str, Any]]:
        """Return the deciding parts; positions are in percent of the crop's sides."""
        grid = explanation.shares.shape

        def percent(box: Box) -> list[float]:
            return [round(100 * edge, 1) for edge in box.within(grid)]

        classes = [one for one in (explanation.best, explanation.other) if one is not None]
        return [
            {
                "box": percent(part.box),
                "shown": percent(around(part.box, grid)),
                "share": round(part.share, 3),
                "classes": [
                    {
                        "name": one.name,
                        "explained": round(one.explained(part.box), 3),
                        "from": [
                            (self._number(s.photo.path), *percent(s.box), round(s.share, 3))
                            for s in one.sources(part.box)
                        ],
                    }
                    for one in classes
                ],
            }
            for part in explanation.parts()
        ]

    def examples(
        self, extractor: Extractor, numbers: Iterable[int] | None = None
    ) -> Iterator[tuple[int, str, Image.Image]]:
        """Yield number, name and thumbnail of the example photos, by default of all.

        Raises FrnError as `Crops` does.
        """
        crops, paths = Crops(extractor, SIDE), list(self._numbers)
        for number in range(len(paths)) if numbers is None else numbers:
            yield number, paths[number].name, thumbnail(crops(paths[number]))

    def _number(self, example: Path) -> int:
        return self._numbers.setdefault(example, len(self._numbers))


def thumbnail(image: Image.Image) -> Image.Image:
    """Return an image at the size of a report's tiles."""
    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
