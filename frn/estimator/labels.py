"""Class labels of any type: text, numbers and others; a class keeps its original label.

Internally a class is identified by its name, `str(label)`. This module does not need torch.
"""

import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frn.data.names import match_names, normal
from frn.errors import FrnError, FrnWarning

Labels: TypeAlias = NDArray[Any]
"""Labels (n,) of one type."""


def as_labels(given: Iterable[Any]) -> Labels:
    """Return labels (n,) as an array of their type; mixed types become objects, because numpy would make them text.

    Raises FrnError if the labels are not a list of single labels.
    """
    if isinstance(given, str):
        raise FrnError("labels must be a list with one label per photo")
    if not hasattr(given, "dtype"):
        given = list(given)
        kinds = {isinstance(label, str) for label in given}
        given = np.array(given, dtype=object) if len(kinds) > 1 else np.asarray(given)
    labels: Labels = np.asarray(given)
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column of a table
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise FrnError(f"labels must be a list with one label per photo, not an array of shape {labels.shape}")
    for place, label in enumerate(labels.tolist()):
        if label is None or label != label:  # NaN is not equal to itself
            raise FrnError(f"label number {place + 1} is {label}: every photo needs a label")
    if labels.dtype.kind == "U":
        labels = np.array([normal(label) for label in labels.tolist()], dtype=np.str_)
    return labels


def as_known(labels: Labels, classes: Labels) -> Labels:
    """Replace text labels that differ from a class only in case, whitespace, `_` and `-` with the class's label.

    Warns about each replaced label, and about each label that is not a class.
    """
    if labels.dtype.kind != "U" or classes.dtype.kind != "U":
        return labels
    found, notes = match_names(labels.tolist(), classes.tolist())
    for note in notes:
        warnings.warn(f"the label {note}", FrnWarning, stacklevel=3)
    known: Labels = np.array([found.get(label, label) for label in labels.tolist()], dtype=object)
    return known


def joined(labels: Labels, more: Labels) -> Labels:
    """Concatenate labels; the result is an array of objects if their kinds differ."""
    if not len(labels) or not len(more):
        return more if len(more) else labels
    return as_labels([*labels.tolist(), *more.tolist()])


def distinct(labels: Labels) -> Labels:
    """Return each label once, sorted if possible. Raises FrnError if two classes have the same name."""
    try:
        found: Labels = np.unique(labels)
    except TypeError:  # not comparable: keep the given order
        found = as_labels(dict.fromkeys(labels.tolist()))
    named: dict[str, Any] = {}
    for label in found.tolist():
        if (other := named.setdefault(str(label), label)) is not label:
            raise FrnError(f"the labels {other!r} and {label!r} have the same name")
    return found


def names(labels: Labels, classes: Labels | None = None) -> list[str]:
    """Return internal class names; a label equal to one of `classes`, as 1.0 equals 1, gets that class's name."""
    called = {} if classes is None else {label: str(label) for label in classes.tolist()}
    return [called.get(label, str(label)) for label in labels.tolist()]


def check_kind(labels: Labels, classes: Labels) -> None:
    """Raise FrnError for text labels with numeric classes, or vice versa, since none of them could match."""
    text = [array.dtype.kind in "US" for array in (labels, classes)]
    numbers = [array.dtype.kind in "biuf" for array in (labels, classes)]
    if (text[0] and numbers[1]) or (numbers[0] and text[1]):
        kinds = ("text", "numbers") if text[0] else ("numbers", "text")
        raise FrnError(f"the labels are {kinds[0]}, but the classes were fitted as {kinds[1]}")
