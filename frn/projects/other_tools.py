"""Labels exported by annotation tools: COCO and Pascal VOC, which nearly all of them write.

Each annotated box is an example of its class, as is each photo that has a label of its own. Hugging Face's ImageFolder
is read as a table, and YOLO's class folders as they are.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

from frn.errors import FrnError, shorten
from frn.images.boxes import Box, box_name
from frn.projects.folder_tree import GENERIC, Broken, list_entries, looks_like_image, split_named, why_skipped
from frn.system.archives import is_listed, read_whole
from frn.system.files import decode_json

Edges = tuple[float, float, float, float]  # left, top, width and height in pixels
Label = tuple[str, str, Edges | None]  # class, name of the photo, and the box; None is the whole photo


def is_annotation_file(path: Path) -> bool:
    """Return whether a file name may be that of an export."""
    return path.suffix.lower() in (".json", ".xml")


def find_annotations(root: Path) -> list[Path]:
    """Return the annotation files of an exported folder or zip: of Pascal VOC, one per photo.

    Raises FrnError if there are several exports, or labels of a kind that cannot be read.
    """
    files, folders = list_entries(root)
    words = GENERIC | {"annotations", "labels", "result"}
    if not all(split_named(name) or name.lower() in words for name in folders):
        return []  # class folders
    if "labels" in folders and any(Path(name).suffix in (".yaml", ".yml") or name == "classes.txt" for name in files):
        raise FrnError(f"{root}: is a data set for YOLO's detector. Export it again as COCO.")
    paths = [root / name for name in files]
    if "annotations" in folders:
        paths += [root / "annotations" / name for name in list_entries(root / "annotations")[0]]
    tables = [path for path in paths if path.suffix.lower() == ".xml"]
    if tables and _kind(_load(tables[0])) is _voc:
        return tables
    exports = [path for path in paths if path.suffix.lower() == ".json"]
    # More files are something else, such as a photo service's notes.
    exports = [path for path in exports if _kind(_load(path))] if len(exports) <= 8 else []
    if len(exports) > 1:
        raise FrnError(f"{root}: has several annotation files. Choose one of them: {', '.join(map(str, exports))}")
    return exports


def read_annotations(paths: list[Path]) -> tuple[list[tuple[str, Path]], list[Broken]]:
    """Return the label and the name of each labelled photo and box, and what was skipped.

    Photos are looked for beside the file, in `images` beside it, and in the folder above.

    Raises FrnError if a file cannot be read, is not such an export, or has no labels.
    """
    pairs: list[tuple[str, Path]] = []
    skipped = []
    for path in paths:
        try:
            if (read := _kind(document := _load(path))) is None:
                raise FrnError(
                    f"{path}: is not a project, nor labels in COCO or Pascal VOC. Export the labels as one of these."
                )
            places = [path.parent, path.parent / "images", path.parent.parent, path.parent.parent / "images"]
            for label, name, edges in read(document):
                if not label or not looks_like_image(name):
                    why = why_skipped(name) if label else "it has no label"
                    skipped.append(Broken(str(path), f"{path}: {shorten(name or 'an entry')} is skipped: {why}"))
                    continue
                photo = str(next((place / name for place in places if is_listed(place / name)), path.parent / name))
                x, y, width, height = map(round, edges or (0, 0, 0, 0))
                box = Box(max(0, x), max(0, y), max(1, width + min(0, x)), max(1, height + min(0, y)))
                pairs.append((label, Path(box_name(photo, box) if edges else photo)))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else shorten(error)
            raise FrnError(f"{path}: its labels cannot be read ({reason}). Export them again.") from error
    if not pairs:
        raise FrnError(f"{paths[0]}: has no labelled photo" + (f". {skipped[0]}" if skipped else ""))
    return pairs, skipped


def _load(path: Path) -> Any:
    """Return a JSON value or the root of an XML file, or None if it is neither."""
    data = read_whole(path, 512 << 20)  # COCO's own largest file has 450 MB
    try:
        if path.suffix.lower() == ".json":
            return decode_json(data)
        # An entity may unfold without limit; in UTF-16, its declaration has NULs
        return None if b"<!ENTITY" in data.replace(b"\0", b"") else ET.fromstring(data)
    except (FrnError, ET.ParseError):
        return None


def _kind(document: Any) -> Any:
    if isinstance(document, ET.Element):
        return _voc if document.tag == "annotation" and document.findtext("filename") else None
    is_coco = isinstance(document, dict) and {"images", "annotations", "categories"} <= document.keys()
    return _coco if is_coco else None


def _coco(document: Any) -> Iterator[Label]:
    names = {each["id"]: str(each["name"]) for each in document["categories"]}
    photos = {each["id"]: str(each["file_name"]) for each in document["images"]}
    for each in document["annotations"]:
        if not each.get("iscrowd"):
            x, y, width, height = each.get("bbox") or (0, 0, 0, 0)
            yield names[each["category_id"]], photos[each["image_id"]], (x, y, width, height) if width else None


def _voc(document: ET.Element) -> Iterator[Label]:
    name = PureWindowsPath(document.findtext("filename") or "").as_posix()
    for each in document.iter("object"):
        left, top, right, bottom = (float(_text(each, edge)) for edge in ("xmin", "ymin", "xmax", "ymax"))
        yield _text(each, "name"), name, (left, top, right - left, bottom - top)


def _text(element: ET.Element, name: str) -> str:
    """Return the text of the first element below with this name. Raises KeyError if it is missing."""
    if (child := next(element.iter(name), None)) is None:
        raise KeyError(name)
    return child.text or ""
