"""Class labels: text or numbers; a class keeps its original label.

Internally a class is identified by its name, `str(label)`. This module does not need torch.
"""

import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, FrnWarning
from frn.projects.names import match_names, normal

Labels: TypeAlias = NDArray[Any]
"""Labels (n,) of one type."""


def as_labels(given: Iterable[Any]) -> Labels:
    """Return labels (n,) as an array of text or numbers.

    Raises FrnError if the labels are not a list of single labels, or mix text and numbers.
    """
    if isinstance(given, str):
        raise FrnError("labels must be a list with one label per photo")
    array = np.asarray(given) if hasattr(given, "dtype") else np.array(list(given), dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:  # a column of a table
        array = array[:, 0]
    if array.ndim != 1:
        raise FrnError(f"labels must be a list with one label per photo, not an array of shape {array.shape}")
    listed = array.tolist()
    for place, label in enumerate(listed):
        if label is None or label != label:  # NaN is not equal to itself
            raise FrnError(f"label number {place + 1} is {label}: every photo needs a label")
    is_text = {isinstance(label, str) for label in listed}
    if len(is_text) > 1:
        raise FrnError("labels must be all text or all numbers")
    if True in is_text:
        return np.array([normal(label) for label in listed])
    return np.array(listed) if array.dtype == object else array


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


def check_kind(labels: Labels, classes: Labels) -> None:
    """Raise FrnError for text labels with numeric classes, or vice versa, since none of them could match."""
    text = [array.dtype.kind in "US" for array in (labels, classes)]
    numbers = [array.dtype.kind in "biuf" for array in (labels, classes)]
    if (text[0] and numbers[1]) or (numbers[0] and text[1]):
        kinds = ("text", "numbers") if text[0] else ("numbers", "text")
        raise FrnError(f"the labels are {kinds[0]}, but the classes were fitted as {kinds[1]}")
