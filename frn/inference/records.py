"""Results as records: the one form behind JSON, JSON Schemas, CSV, the app's exports and the tables in the docs.

The fields of a record, in order, are the keys of its JSON and the columns of its CSV. Numbers are rounded to six
decimals; undefined ones are null. Unset fields are omitted.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from heapq import nsmallest
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

from frn.images.boxes import Box
from frn.projects.class_table import BOX
from frn.projects.session import Support
from frn.system.csv_rows import csv_row

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Maybe = float | None
Name = str | UnsetType


@dataclass(frozen=True)
class Prediction:
    """The scores of the enrolled classes for one image."""

    probabilities: dict[str, float]  # Probability of each class (Eq. 9); they sum to one.
    errors: dict[str, float]  # Mean squared reconstruction error of each class (Eq. 4).
    explained: dict[str, float]
    """Fraction of the image's energy that each class reconstructs from its examples alone: 1 - error / energy."""
    known: float  # probability that the image belongs to one of the classes (`unknown`); NaN if it cannot be known
    unknown: bool  # whether `known` is below the threshold
    example_of: str | None = None  # class that has the image as an example; it was then scored by leave-one-out
    near_copy_of: Support | None = None  # the example that is nearly the same image, for example re-saved or resized
    transductive: bool = False  # whether the answer depends on the other images classified together with this one
    key: str | None = None  # content key of the image, if it is known
    box: Box | None = None  # box of the classified subject, in pixels of the upright photo; None: the whole photo
    searched: bool = False  # whether the photo was searched for its subject

    @cached_property
    def label(self) -> str:
        return min(self.errors, key=self.errors.__getitem__)


class Record(Struct, forbid_unknown_fields=True):
    """A JSON object without other keys than its fields."""


class Answer(Record, kw_only=True):
    """The answer for a photo."""

    image: Annotated[str, Meta(description="The photo, named as you gave it.")]
    truth: Annotated[Name, Meta(description="Its class according to the labelled photos (`frn score`).")] = UNSET
    label: Annotated[str, Meta(description="The class that reconstructs it best, even if the photo is unknown.")]
    final: Annotated[Name, Meta(description="Your label, otherwise the answer or `unknown` (the app).")] = UNSET
    probability: Annotated[Share, Meta(description="Probability of the class `label`.")]
    known: Annotated[Share | None, Meta(description="Probability that it belongs to one of the classes.")]
    unknown: Annotated[bool, Meta(description="Whether `known` is below the threshold.")]
    probabilities: Annotated[dict[str, Share], Meta(description="Probability of each class.")]
    errors: Annotated[dict[str, float], Meta(description="Mean squared reconstruction error of each class.")]
    explained: Annotated[float, Meta(description="Share of the photo that `label` explains: 1 - error / energy.")]
    example_of: Annotated[Name, Meta(description="The class that has the photo as an example.")] = UNSET
    near_copy_of: Annotated[Name, Meta(description="The example that is nearly the same photo.")] = UNSET
    transductive: Annotated[bool | UnsetType, Meta(description="Whether it depends on the other photos.")] = UNSET
    box: Annotated[
        tuple[int, int, int, int] | UnsetType | None,
        Meta(
            description="Left, top, width, height of the subject in pixels of the upright photo (`--find`); `null`: "
            "whole photo."
        ),
    ] = UNSET
    key: Annotated[Name, Meta(description="Hash of the photo's content (`--out`).")] = UNSET
    run: Annotated[Name, Meta(description="Hash of the model, classes and threshold (`--out`).")] = UNSET

    @property
    def called(self) -> str:
        """Describe the answer; unknown photos have no probability, since only known classes share it."""
        if self.unknown:
            return f"unknown ({self.known:.0%} known; nearest: {self.label})"
        return f"{self.label} ({self.probability:.0%})"


class Unreadable(Record, kw_only=True):
    """A photo that cannot be read."""

    image: Annotated[str, Meta(description="The photo, named as you gave it.")]
    error: Annotated[str, Meta(description="Why the photo cannot be read.")]
    run: Name = UNSET


Pixels = Annotated[tuple[int, int, int, int], Meta(description="Left, top, width and height in the upright photo.")]


class ExamplePart(Record):
    """A part of an example photo, or the whole photo, and its share of what its class rebuilds."""

    image: str
    share: float
    box: Pixels | UnsetType = UNSET


class PhotoPart(Record, kw_only=True):
    """A part of a photo, and the example parts with the largest shares, by class."""

    box: Pixels
    share: Annotated[float, Meta(description="Share of the decision; negative if it speaks for the other class.")]
    explained: Annotated[dict[str, Share], Meta(description="Share of the part that a class explains.")]
    sources: Annotated[dict[str, list[ExamplePart]], Meta(description="Up to three by class.")] = field(name="from")


class Explanation(Answer, kw_only=True):
    """An answer with the parts that decided between two classes, and the error maps of classes."""

    out: str
    why: Annotated[str, Meta(description="The decision in one sentence.")]
    against: Annotated[Name, Meta(description="The class that `label` is compared with.")] = UNSET
    margin: Annotated[float, Meta(description="Difference of their logits, which the shares of all parts sum to.")]
    parts: list[PhotoPart]
    examples: Annotated[dict[str, list[ExamplePart]], Meta(description="Share of each example, by class.")]
    explained_by: dict[str, float]
    error_maps: dict[str, list[list[float]]]


class Expected(Record):
    """Expected results for unknown photos, with the calibrated threshold."""

    false_rejections: Maybe
    caught: Maybe
    auroc: Maybe
    caught_error: Annotated[Maybe, Meta(description="Standard error of `caught`.")] = None
    text: Annotated[str, Meta(description="The same in words, or why nothing can be expected.")] = ""


class ClassScore(Record):
    """Results of one class."""

    photos: Count
    right: Count
    recall: Maybe
    precision: Maybe


class ReliabilityBin(Record):
    """Photos with similar probabilities: the mean probability and the accuracy."""

    photos: Count
    said: float
    right: float


class Score(Record):
    """Results on labelled photos; `near_copies` names the example of each skipped photo."""

    classes: str
    labelled: str
    photos: Count
    accuracy: Share
    interval: tuple[Share, Share]
    per_class: dict[str, ClassScore]
    confusion: list[list[Count]]
    calibration_error: Share
    reliability: list[ReliabilityBin]
    false_rejections: Share
    unknown: Count
    true_positive_rate: Maybe
    auroc: Maybe
    expected: Expected
    wrong: list[Answer]
    examples_skipped: Count
    near_copies: dict[str, str]
    transductive: bool
    broken: list[Unreadable]
    head: dict[str, float]


class Groups(Record):
    """Groups of similar photos; `near_copies` names the photo of each copy, `skipped` gives reasons."""

    out: str
    groups: dict[str, list[str]]
    near_copies: dict[str, str]
    skipped: list[str]


class EnrolledClass(Record):
    """An enrolled class, and how much of each photo the others explain."""

    images: Count
    explained: list[float | None]


class Enrolled(Record):
    """A new project."""

    project: str
    threshold: Share
    skipped: Count
    classes: dict[str, EnrolledClass]
    expected: Expected
    head: dict[str, float]
    advice: Annotated[list[str], Meta(description="Up to three useful changes of the examples.")]


def answer_of(image: str, prediction: Prediction, top: int | None = None, **more: Name) -> Answer:
    """Return the record of a prediction, with all classes or the `top` best ones, and with `more` fields."""
    errors, probabilities, label = prediction.errors, prediction.probabilities, prediction.label
    listed = nsmallest(top, errors, key=errors.__getitem__) if top else errors
    near = prediction.near_copy_of
    return Answer(
        image=image,
        label=label,
        probability=round(probabilities[label], 6),
        known=rounded(prediction.known),
        unknown=prediction.unknown,
        probabilities={name: round(probabilities[name], 6) for name in listed},
        errors={name: round(errors[name], 6) for name in listed},
        explained=round(prediction.explained[label], 6),
        example_of=prediction.example_of or UNSET,
        near_copy_of=str(near.path) if near else UNSET,
        transductive=prediction.transductive or UNSET,
        box=prediction.box if prediction.searched else UNSET,
        **more,
    )


@cache
def columns(*optional: str) -> tuple[str, ...]:
    """Return the CSV columns before those of the classes; of the optional fields, only the named ones have one."""
    fields = [field for field in structs.fields(Answer) if field.name not in ("probabilities", "errors", "box")]
    edges = BOX if "box" in optional else ()
    return *(field.name for field in fields if field.required or field.name in optional), *edges, "error"


def lines(
    suffix: str, records: Iterable[Answer | Unreadable], classes: Collection[str], *optional: str
) -> Iterator[str]:
    """Yield the lines of a file of answers: JSON or, if the suffix is .csv, rows under a head."""
    if suffix.lower() != ".csv":
        yield from (f"{to_json(record)}\n" for record in records)
        return
    yield csv_row([*columns(*optional), *(f"probability of {name}" for name in classes)])
    for record in records:
        cells = msgspec.to_builtins(record)
        cells |= dict(zip(BOX, cells.get("box") or (), strict=False))
        shares = cells.get("probabilities", {})
        row = [cells.get(name, "") for name in columns(*optional)] + [shares.get(name, "") for name in classes]
        yield csv_row(row).encode(errors="backslashreplace").decode()  # a file name may not be UTF-8


def to_json(value: object, *, ascii_only: bool = True) -> str:
    """Return a record, or a value that contains records, as one line of JSON."""
    return json.dumps(value, ensure_ascii=ascii_only, default=msgspec.to_builtins)


def rounded(value: Any) -> Any:
    """Return a result with numbers rounded to six decimals, and null instead of NaN."""
    if isinstance(value, Mapping):
        return {name: rounded(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value
