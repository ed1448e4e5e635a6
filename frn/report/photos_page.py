"""Page for `frn classify --report`: the results of a folder of photos as thumbnails."""

import io
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.images.boxes import part_of
from frn.inference.classifier import Classifier, Prediction
from frn.inference.explanation import Explanation, explain
from frn.inference.records import answer_of
from frn.report.explanation_picture import Crops
from frn.report.heat_maps import overlay
from frn.report.page import own_file, render, render_part, write_page
from frn.report.parts import SIDE, PartsOfPage, thumbnail

PER_PAGE = 5_000  # largest number of photos on a page: about 70 MB, which a browser can still open
CARD_BYTES = 16_000  # approximate bytes that a photo takes in a page


@dataclass(frozen=True, slots=True)
class Kept:
    """Sort key of a photo on its page, and the position of its card in the file of all cards."""

    key: str  # filter key: "=" and the class, or "?" if unknown, because a class may itself be called "unknown"
    sureness: float
    start: int
    length: int
    examples: tuple[int, ...]  # numbers of the example photos that its parts were rebuilt from


class Album:
    """Classifies photos and stores their cards in a temporary file, so that memory does not grow with them."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.broken: dict[Path, str] = {}
        self._kept: list[Kept] = []
        self._parts = PartsOfPage()
        self._cards = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._cards.close)

    def classify(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files as the classifier does."""
        classifier, names = self.classifier, self.classifier.names
        for path, outcome in classifier.read(paths):
            if isinstance(outcome, FrnError):
                self.broken[path] = str(outcome)
                yield path, outcome
                continue
            prediction = replace(classifier.predict(outcome.maps, outcome.key, outcome.look), box=outcome.box)
            error_map = classifier.error_maps(outcome.maps, outcome.key)[names.index(prediction.label)]
            self._keep(path, prediction, error_map, explain(classifier, outcome.maps, outcome.key))
            yield path, prediction

    def _keep(
        self, path: Path, prediction: Prediction, error_map: NDArray[np.floating], explanation: Explanation
    ) -> None:
        """Write the card of a photo: its thumbnail, and the error map (h, w) of the best class over the model's crop.

        Raises FrnError if the photo cannot be read again.
        """
        label = prediction.label
        crop = Crops(self.classifier.extractor, SIDE)(part_of(path, prediction.box))
        rendered = overlay(np.asarray(crop), error_map, low=float(error_map.min()), high=float(error_map.max()))
        key = sys.intern("?" if prediction.unknown else f"={label}")
        parts = self._parts.of(explanation)
        card = render_part(
            "card.html",
            key=key,
            answer=answer_of(str(path), prediction),
            crop=thumbnail(crop),
            why=explanation.sentence(unknown=prediction.unknown),
            parts=parts,
            error_map=thumbnail(rendered),
            others=sorted(prediction.errors, key=prediction.errors.__getitem__)[1:3],
            shares=prediction.explained if prediction.unknown else prediction.probabilities,
        ).encode(errors="backslashreplace")
        try:
            start = self._cards.seek(0, io.SEEK_END)
            self._cards.write(card)
        except OSError as error:
            raise FrnError(f"{tempfile.gettempdir()}: a report cannot be kept there ({error.strerror})") from error
        # Unknown photos come last, because their sort key is below zero.
        sureness = prediction.probabilities[label] - prediction.unknown
        used = tuple({number for part in parts for one in part["classes"] for number, *_ in one["from"]})
        self._kept.append(Kept(key, sureness, start, len(card), used))

    def write(self, report: Path, command: str, *, replace: bool = False) -> list[Path]:
        """Write the photos, most certain first, into pages that contain the command to reproduce them.

        Returns the pages. Raises FrnError if a page cannot be written.
        """
        kept = sorted(self._kept, key=lambda photo: photo.sureness, reverse=True)
        pages, counts = page_paths(report, len(kept)), Counter(photo.key for photo in kept)
        classes = [
            (entry.name, f"{len(entry.supports):,}", f"{counts[f'={entry.name}']:,}")
            for entry in self.classifier.state.classes
        ]
        why = self.classifier.calibration.unchecked
        unchecked = {"probabilities": why} if why else {}
        for number, path in enumerate(pages):
            shown = kept[number * PER_PAGE : (number + 1) * PER_PAGE]
            on_page = Counter(photo.key for photo in shown)
            used = sorted({number for photo in shown for number in photo.examples})
            page = render(
                "photos.html",
                "Photos by class",
                command,
                {"threshold": f"{self.classifier.threshold:.1%} known", **unchecked},
                script=own_file("photos.js") + own_file("parts.js"),
                photos=len(kept),
                classes=[*classes, ("unknown", "", f"{counts['?']:,}")],
                pages=pages,
                here=path,
                shown=len(shown),
                counts=sorted(on_page.items(), key=lambda entry: (entry[0] == "?", entry)),
                cards=self._stored(shown),
                examples=self._parts.examples(self.classifier.extractor, used),
                broken=self.broken,
            )
            write_page(path, page, replace=replace)
        return pages

    def _stored(self, photos: Sequence[Kept]) -> Iterator[str]:
        for photo in photos:
            self._cards.seek(photo.start)
            yield self._cards.read(photo.length).decode()


def page_paths(report: Path, photos: int) -> list[Path]:
    """Return the files of a report on this many photos: `photos.html`, `photos-2.html`, ..."""
    pages = max(1, -(-photos // PER_PAGE))
    return [report, *(report.with_name(f"{report.stem}-{n}{report.suffix}") for n in range(2, pages + 1))]
