"""Classes in a CSV file: one row per photo, with its path and its label."""

import csv
import io
from pathlib import Path

from frn.data.folders import looks_like_image, why_skipped
from frn.data.names import normal
from frn.errors import FrnError
from frn.system.files import read_regular

PATHS = ("path", "image", "file", "filename", "photo")
LABELS = ("truth", "label", "class", "category")
"""Accepted column names, in order of preference: `frn score --csv` writes `truth` next to its own `label`."""
DELIMITERS = ",;\t"
MAX_BYTES = 256 << 20


def is_table(path: Path) -> bool:
    """Return whether a path has the suffix of a table."""
    return path.suffix.lower() in (".csv", ".tsv")


def read_table(path: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files of each class in a CSV, relative to its folder, and the reasons for skipped rows.

    The first row names the columns; without names, the first column contains the paths and the second the labels.
    Raises FrnError if the CSV cannot be read, lacks these columns, or no row has both a photo and a label.
    """
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FrnError(f"{path}: is not UTF-8 text. Save it as CSV in UTF-8.") from error
    first = text.partition("\n")[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count)))
    except csv.Error as error:
        raise FrnError(f"{path}: is not a CSV file ({error})") from error
    heads = [head.strip().lower() for head in rows[0]] if rows else []
    files, labels = (next((heads.index(name) for name in names if name in heads), None) for names in (PATHS, LABELS))
    if files is None and labels is None and len(heads) == 2 and looks_like_image(heads[0]):
        files, labels, rows = 0, 1, [[], *rows]
    if files is None or labels is None:
        raise FrnError(f"{path}: needs the columns path and label; its first row is: {', '.join(heads) or 'empty'}")
    members: dict[str, list[Path]] = {}
    skipped = []
    for number, row in enumerate(rows[1:], 2):
        if not any(row):
            continue
        name, label = (row[column].strip() if column < len(row) else "" for column in (files, labels))
        if name and label and looks_like_image(name):
            members.setdefault(normal(label), []).append(path.parent / Path(name).expanduser())
        else:
            why = why_skipped(name) if name and label else "it has no label" if name else "it has no photo"
            skipped.append(f"{path}: row {number} is skipped: {why}")
    if not members:
        raise FrnError(f"{path}: has no row with a photo and a label")
    return dict(sorted(members.items())), skipped
