"""`frn classify --report`: the answers to a folder of photos, as a page of thumbnails."""

import io
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.images.opening import decode_preview, read_file
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.explanation import overlay
from frn.report.page import escape, made_by, page_pieces, picture, section, share_class, table
from frn.system.files import replacing

SIDE = 160
"""Pixels of a thumbnail."""
UNKNOWN = "unknown"
PER_PAGE = 5_000
"""Photos of a page: 70 MB, which a browser still opens."""
CARD_BYTES = 14_000
"""Bytes that a photo takes in a page, about."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A photo with its answer, as the page shows it."""

    path: Path
    prediction: Prediction
    thumbnail: str
    error_map: str
    """Both HTML elements."""

    @property
    def key(self) -> str:
        """Return the filter key; a class may itself be called "unknown"."""
        return "?" if self.prediction.unknown else f"={self.prediction.label}"


def answered(
    path: Path, prediction: Prediction, error_map: NDArray[np.floating], transform: EvaluationTransform
) -> Answered:
    """Make the thumbnail and the error map (h, w) of the best class, over the crop that the network saw.

    FrnError if the photo cannot be read again.
    """
    finer = -(-SIDE // transform.size)
    shown = replace(transform, size=transform.size * finer, resize=transform.length * finer)
    crop, _ = decode_preview(read_file(path), path, shown)
    rendered = overlay(crop, error_map, low=float(error_map.min()), high=float(error_map.max()))
    small = [Image.fromarray(crop), rendered]
    small = [image.resize((SIDE, SIDE), Image.Resampling.BILINEAR) for image in small]
    what = f"{path.name}, where {prediction.label} rebuilds it badly"
    return Answered(path, prediction, picture(small[0], path.name), picture(small[1], what))


@dataclass(frozen=True, slots=True)
class Kept:
    """A photo's place in the order of a page, and its card's in the file of all cards."""

    key: str
    sureness: float
    start: int
    length: int


class Album:
    """Classifies photos and keeps what pages of them show, in a temporary file: memory does not grow by their cards."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.broken: dict[Path, str] = {}
        self._kept: list[Kept] = []
        self._cards = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._cards.close)

    def classify(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files as the classifier does."""
        classifier, names = self.classifier, list(self.classifier.classes)
        for path, outcome in classifier.extractor.read(paths):
            if isinstance(outcome, FrnError):
                self.broken[path] = str(outcome)
                yield path, outcome
                continue
            prediction = classifier.predict(outcome.maps, outcome.key)
            error_map = classifier.error_maps(outcome.maps, outcome.key)[names.index(prediction.label)]
            self._keep(answered(path, prediction, error_map, classifier.extractor.transform))
            yield path, prediction

    def _keep(self, photo: Answered) -> None:
        prediction, card = photo.prediction, _card(photo).encode()
        start = self._cards.seek(0, io.SEEK_END)
        self._cards.write(card)
        # Unknown photos come behind all others: their sureness is below zero.
        sureness = prediction.probabilities[prediction.label] - prediction.unknown
        self._kept.append(Kept(sys.intern(photo.key), sureness, start, len(card)))

    def write(self, report: Path, command: str) -> list[Path]:
        """Write the photos, the surest answer first, into pages that say which command makes them again.

        Returns the pages. FrnError if one cannot be written.
        """
        kept = sorted(self._kept, key=lambda photo: photo.sureness, reverse=True)
        pages = page_paths(report, len(kept))
        script = (files("frn.report") / "photos.js").read_text(encoding="utf-8")
        for number, path in enumerate(pages):
            shown = kept[number * PER_PAGE : (number + 1) * PER_PAGE]
            lead = f'<p class="note">{len(kept):,} photos, {len(self.classifier.classes):,} classes</p>'
            lead += _links(pages, number)
            with replacing(path) as file:
                for piece in page_pieces("Photos by class", lead, self._sections(kept, shown, command), script=script):
                    file.write(piece.encode(errors="backslashreplace"))
        return pages

    def _sections(self, kept: Sequence[Kept], shown: Sequence[Kept], command: str) -> Iterator[str]:
        members = {entry.name: len(entry.supports) for entry in self.classifier.state.classes}
        counts = Counter(photo.key for photo in kept)
        rows = [(escape(name), f"{shots:,}", f"{counts[f'={name}']:,}") for name, shots in members.items()]
        rows.append((f"<i>{UNKNOWN}</i>", "", f"{counts['?']:,}"))
        yield section("Classes", table(("class", "examples", "photos"), rows, label="Classes"))
        note = "Sorted by the probability of the answer; unknown photos, which no class explains enough, come last."
        tools = _tools(len(shown), Counter(photo.key for photo in shown))
        before, after = section("Photos", f'{tools}<ul class="cards" id="photos">\0</ul>', note=note).split("\0")
        yield before
        for photo in shown:
            self._cards.seek(photo.start)
            yield self._cards.read(photo.length).decode()
        yield after
        if self.broken:
            lines = [(escape(str(path)), escape(why)) for path, why in self.broken.items()]
            yield section("Could not be read", table(("file", "why"), lines, label="Unreadable files"))
        yield made_by(command, {"threshold": f"{self.classifier.threshold:.1%} explained"})


def page_paths(report: Path, photos: int) -> list[Path]:
    """The files of a report of so many photos: `photos.html`, `photos-2.html`, ..."""
    pages = max(1, -(-photos // PER_PAGE))
    return [report, *(report.with_name(f"{report.stem}-{n}{report.suffix}") for n in range(2, pages + 1))]


def _links(pages: Sequence[Path], number: int) -> str:
    """Links to the other pages, if there are any."""
    if len(pages) == 1:
        return ""
    links = [
        f"<b>{n + 1}</b>" if n == number else f'<a href="{escape(quote(path.name))}">{n + 1}</a>'
        for n, path in enumerate(pages)
    ]
    return f'<nav aria-label="Pages">Page {" ".join(links)}</nav>'


def _tools(photos: int, counts: Mapping[str, int]) -> str:
    options = [f'<option value="">all ({photos:,})</option>']
    for key in sorted(counts, key=lambda key: (key == "?", key)):
        name = UNKNOWN if key == "?" else key[1:]
        options.append(f'<option value="{escape(key)}">{escape(name)} ({counts[key]:,})</option>')
    return (
        f'<div class="tools"><label>Show <select id="filter">{"".join(options)}</select></label>'
        '<label>Sort <select id="sort"><option value="-1">surest first</option>'
        '<option value="1">least sure first</option></select></label>'
        '<label><input type="checkbox" id="maps"> error maps</label>'
        '<span id="shown" class="faint" role="status"></span></div>'
    )


def _card(photo: Answered) -> str:
    prediction = photo.prediction
    label, name = prediction.label, photo.path.name
    probability, explained = prediction.probabilities[label], prediction.explained[label]
    others = sorted(prediction.errors, key=prediction.errors.__getitem__)[1:3]
    shares = prediction.explained if prediction.unknown else prediction.probabilities
    second = ", ".join(f"{escape(other)} {shares[other]:.1%}" for other in others)
    title = f"<b>{escape(label)}</b> {probability:.1%}"
    if prediction.unknown:
        title = f'<b class="bad">{UNKNOWN}</b>, nearest {escape(label)}'
    needed = f", {prediction.threshold:.0%} needed" if prediction.unknown else ""
    return (
        f'<li class="card" data-key="{escape(photo.key)}" data-sure="{probability:.6f}">'
        f'<div class="map">{photo.error_map}</div><div class="plain">{photo.thumbnail}</div>'
        f'<p>{title}</p><span class="meter"><i class="{share_class(shares[label])}"></i></span>'
        f'<p class="faint">{explained:.0%} explained{needed}</p><p class="faint">{second}</p>'
        f'<p class="faint" title="{escape(str(photo.path))}">{escape(name)}</p></li>'
    )
