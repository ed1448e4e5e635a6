"""Class labels: text or numbers; a class keeps its original label.

Internally a class is identified by its name, `str(label)`. This module does not need torch.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, FrnWarning
from frn.projects.names import match_names, normal

Labels: TypeAlias = NDArray[Any]  # labels (n,) of one type
READERS: dict[object, Callable[[str], Any]] = {"int": int, "float": float, "bool": {"True": True, "False": False}.get}
"""Types of labels, apart from text, that a project keeps, and how to read them from the names of classes."""


def as_labels(texts: Iterable[Any]) -> Labels:
    """Return labels (n,) as an array of text or numbers.

    Raises FrnError if the labels are not a list of single labels, have other types, or mix text and numbers.
    """
    if isinstance(texts, str | bytes | set | frozenset | Mapping) or not isinstance(texts, Iterable):
        raise FrnError(f"labels must be a list with one label per photo, not {type(texts).__name__}")
    array = np.asarray(texts) if hasattr(texts, "dtype") else np.array(list(texts), dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:  # a column of a table
        array = array[:, 0]
    if array.ndim != 1:
        raise FrnError(f"labels must be a list with one label per photo, not an array of shape {array.shape}")
    listed = [label.item() if isinstance(label, np.generic) else label for label in array.tolist()]
    for place, label in enumerate(listed):
        if label is None or label != label:  # NaN is not equal to itself
            raise FrnError(f"label number {place + 1} is {label}: every photo needs a label")
        if type(label) not in (str, bytes, bool, int, float):  # not an enum, which numpy would store as its text
            raise FrnError(f"label number {place + 1} is {label!r}: labels must be text or numbers")
    if len({type(label) if isinstance(label, str | bytes) else int for label in listed}) > 1:
        raise FrnError("labels must be all text or all numbers")
    listed = [normal(label).strip() if isinstance(label, str) else label for label in listed]  # as a project does
    labels = np.array(listed, dtype=array.dtype if array.dtype.kind in "biuf" else None)
    if labels.tolist() != listed:  # numpy drops trailing NULs, and large integers next to negative ones lose digits
        raise FrnError("numpy cannot store these labels together without changing one. Use text labels.")
    return labels


def label_type(labels: Labels) -> str:
    """Return the type with which a project keeps labels. Raises FrnError if it would lose the type."""
    names = {type(label).__name__ for label in labels.tolist()}
    if len(names) == 1 and not names - {"str", *READERS}:
        return names.pop()
    raise FrnError(
        f"a project keeps labels that are text, whole numbers, floats or booleans, not {' and '.join(sorted(names))}. "
        "Fit again with such labels, for example label.decode() for bytes."
    )


def read_labels(names: Sequence[str], type_name: object) -> Labels:
    """Return the labels of classes of a project; text if the names do not have the project's type of labels."""
    with suppress(KeyError, ValueError, TypeError):
        labels = np.array(list(map(READERS[type_name], names)))
        if list(map(str, labels.tolist())) == list(names):
            return labels
    return as_labels(names)


def as_known(labels: Labels, classes: Labels) -> Labels:
    """Replace text labels that differ from a class only in case, whitespace, `_` and `-` with the class's label.

    Warns about each replaced label, and about each label that is not a class.
    """
    if {labels.dtype.kind, classes.dtype.kind} != {"U"}:
        return labels
    matches, notes = match_names(labels.tolist(), classes.tolist())
    for note in notes:
        warnings.warn(f"the label {note}", FrnWarning, stacklevel=3)
    known: Labels = np.array([matches.get(label, label) for label in labels.tolist()], dtype=object)
    return known


def check_kind(labels: Labels, classes: Labels) -> None:
    """Raise FrnError for text labels with numeric classes, or vice versa, since none of them could match."""
    kinds = ["text" if array.dtype.kind in "US" else "numbers" for array in (labels, classes)]
    if kinds[0] != kinds[1]:
        raise FrnError(f"the labels are {kinds[0]}, but the classes were fitted as {kinds[1]}")
