"""`frn classify --report`: the answers to a folder of photos, as a page of thumbnails."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.images.opening import decode_preview, read_file
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.explanation import overlay
from frn.report.page import escape, made_by, page, picture, section, table

SIDE = 160
"""Pixels of a thumbnail."""
UNKNOWN = "unknown"


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
        """What it is filtered by; a class may itself be called "unknown"."""
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


class Album:
    """Classifies photos and keeps what a page of them shows."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.photos: list[Answered] = []
        self.broken: dict[Path, str] = {}

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
            self.photos.append(answered(path, prediction, error_map, classifier.extractor.transform))
            yield path, prediction

    def page(self, command: str) -> str:
        """A page of the photos, the surest answer first, that says which command makes it again."""
        members = {entry.name: len(entry.supports) for entry in self.classifier.state.classes}
        counts = Counter(photo.key for photo in self.photos)
        rows = [(escape(name), f"{shots:,}", f"{counts[f'={name}']:,}") for name, shots in members.items()]
        rows.append((f"<i>{UNKNOWN}</i>", "", f"{counts['?']:,}"))
        listed = "".join(_card(photo) for photo in sorted(self.photos, key=_sureness, reverse=True))
        note = "Sorted by the probability of the answer; unknown photos, which no class explains enough, come last."
        sections = [
            section("Classes", table(("class", "examples", "photos"), rows, label="Classes")),
            section("Photos", f'{_tools(self.photos, counts)}<ul class="cards" id="photos">{listed}</ul>', note=note),
        ]
        if self.broken:
            lines = [(escape(str(path)), escape(why)) for path, why in self.broken.items()]
            sections.append(section("Could not be read", table(("file", "why"), lines, label="Unreadable files")))
        script = (files("frn.report") / "photos.js").read_text(encoding="utf-8")
        lead = f'<p class="note">{len(self.photos):,} photos, {len(members):,} classes</p>'
        facts = {"threshold": f"{self.classifier.threshold:.1%} explained"}
        return page("Photos by class", lead, [*sections, made_by(command, facts)], script=script)


def _sureness(photo: Answered) -> tuple[bool, float]:
    prediction = photo.prediction
    return not prediction.unknown, prediction.probabilities[prediction.label]


def _tools(photos: Sequence[Answered], counts: Mapping[str, int]) -> str:
    options = [f'<option value="">all ({len(photos):,})</option>']
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
        f'<p>{title}</p><span class="meter"><i style="width:{100 * shares[label]:.1f}%"></i></span>'
        f'<p class="faint">{explained:.0%} explained{needed}</p><p class="faint">{second}</p>'
        f'<p class="faint" title="{escape(str(photo.path))}">{escape(name)}</p></li>'
    )
