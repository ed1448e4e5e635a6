"""Tables of photos and labels: CSV from `frn score` and `frn classify`, spreadsheets and Hugging Face's metadata."""

import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

from frn.errors import FrnError, shorten
from frn.images.boxes import Box, box_name, path_of_url
from frn.projects.folder_tree import Broken, looks_like_image, why_skipped
from frn.system.archives import is_listed, read_whole
from frn.system.csv_rows import text_in
from frn.system.files import is_there

PATHS = ("path", "image", "file", "filename", "photo", "filepath", "imagepath")
LABELS = ("truth", "label", "class", "category", "classname")
"""Names of the columns without case, blanks, `_` and `-`, in order of preference: `frn score --out` writes `truth`
next to its own `label`."""
BOX = ("x", "y", "width", "height")
"""Columns of a box in pixels of the upright photo (`frn.images.boxes`); empty ones mean the whole photo."""


def is_table(path: Path) -> bool:
    """Return whether a path is that of a CSV or TSV file."""
    return path.suffix.lower() in (".csv", ".tsv")


def read_table(path: Path) -> tuple[list[tuple[str, Path]], list[Broken]]:
    """Return the label and the file of each photo in a CSV, relative to its folder, and the skipped rows.

    The first row names the columns; without names, the first column contains the paths and the second the labels. The
    columns x, y, width and height select a part of a photo.

    Raises FrnError if the table cannot be read, lacks these columns, or no row has both a photo and a label.
    """
    rows = _rows(path)
    _, first = next(rows, (0, []))
    heads = [re.sub(r"[\s_-]", "", head).lower() for head in first]
    files, labels = (next((heads.index(name) for name in names if name in heads), None) for names in (PATHS, LABELS))
    if files is None and labels is None and len(heads) == 2 and looks_like_image(first[0]):
        files, labels, rows = 0, 1, _rows(path)
    if files is None or labels is None:
        named = shorten(", ".join(first)) if any(first) else "empty"
        raise FrnError(f"{path}: needs the columns path and label; its first row is: {named}")
    edges = [heads.index(name) for name in BOX] if set(BOX) <= set(heads) else []
    members: list[tuple[str, Path]] = []
    skipped = []
    for number, row in rows:
        if not any(row):
            continue
        name, label, *box = (text_in(row[i]) if i < len(row) else "" for i in (files, labels, *edges))
        box = [edge.strip().replace(",", ".") for edge in box]
        name = name if is_there(path.parent / name) else name.strip()
        if len(row) > len(heads) and any(row[len(heads) :]):
            why = f"it has {len(row)} columns, the first row {len(heads)}; put text with a comma in quotes"
        elif not (name and label.strip() and looks_like_image(name)):
            why = why_skipped(name) if name and label.strip() else "it has no label" if name else "it has no photo"
        elif any(box) and not all(map(re.compile(r"\d{1,6}(\.\d*)?").fullmatch, box)):
            why = f"its box is {', '.join(box)}; x, y, width and height must be pixels"
        else:
            try:
                named = path_of_url(name)
            except FrnError as error:
                skipped.append(Broken(str(path), f"{path}: row {number} is skipped: {shorten(error, 400)}"))
                continue
            named = box_name(named, Box(*(round(float(edge)) for edge in box))) if any(box) else named
            members.append((label, path.parent / os.path.expanduser(named)))  # noqa: PTH111  # pathlib's own raises
            continue
        skipped.append(Broken(str(path), f"{path}: row {number} is skipped: {shorten(why)}"))
    if not members:
        first_skipped = f". The first of {len(skipped)}: {skipped[0]}" if skipped else ""
        raise FrnError(f"{path}: has no row with a photo and a label{first_skipped}")
    return members, skipped


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row. Raises FrnError if the file is not a table in UTF-8."""
    try:
        text = read_whole(path, 256 << 20).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FrnError(f"{path}: is not UTF-8 text. Save it as CSV in UTF-8.") from error
    first, _, rest = text.partition("\n")
    number, delimiter = 1, max(",;\t", key=first.count)
    if named := re.fullmatch(r"\"?sep=(.)\"?\r?", first):  # a line for Excel
        number, delimiter, text = 2, named[1], rest
    try:
        yield from enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), number)
    except csv.Error as error:
        raise FrnError(f"{path}: is not a CSV file ({error})") from error


def metadata_table(folder: Path) -> Path | None:
    """Return the table of labels in a Hugging Face ImageFolder, or None."""
    path = folder / "metadata.csv"
    if is_listed(path):
        _, heads = next(_rows(path), (0, []))
        names = {re.sub(r"[\s_-]", "", head).lower() for head in heads}
        if "filename" in names and not names.isdisjoint(LABELS):
            return path
    return None
