"""Labels exported by annotation tools: COCO, Pascal VOC, Label Studio, LabelMe and CVAT.

Each annotated box is an example of its class, as is each photo that has a label of its own. Hugging Face's ImageFolder
is read as a table, and YOLO's class folders as they are.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from frn.errors import FrnError, shorten
from frn.images.boxes import Box, box_name
from frn.projects.folder_tree import GENERIC, Broken, list_entries, looks_like_image, split_named, why_skipped
from frn.system.archives import find_zip, read_whole
from frn.system.files import decode_json, is_file

Edges = tuple[float, float, float, float]
"""Left, top, width and height in pixels."""
Label = tuple[object, str, Edges | None]
"""Class, name of the photo, and the box; None is the whole photo."""


def is_annotation_file(path: Path) -> bool:
    """Return whether a file name may be that of an export."""
    return path.suffix.lower() in (".json", ".xml")


def find_annotations(root: Path) -> list[Path]:
    """Return the annotation files of an exported folder or zip: of LabelMe and Pascal VOC, one per photo.

    Raises FrnError if there are several exports, or labels of a kind that cannot be read.
    """
    files, folders = list_entries(root)
    words = GENERIC | {"annotations", "labels", "result"}
    if not all(split_named(name) or name.lower() in words for name in folders):
        return []  # class folders
    if "labels" in folders and any(Path(name).suffix in (".yaml", ".yml") or name == "classes.txt" for name in files):
        raise FrnError(f"{root}: is a data set for YOLO's detector. Export it again as COCO.")
    paths = [root / name for name in files if is_annotation_file(Path(name))]
    if "annotations" in folders:
        paths += [root / "annotations" / name for name in list_entries(root / "annotations")[0]]
    folders_of_photos = ["", *(name for name in folders if name.lower() in GENERIC)]
    listed = [name for folder in folders_of_photos for name in (list_entries(root / folder)[0] if folder else files)]
    stems = {Path(name).stem for name in listed if looks_like_image(name)}
    beside = [path for path in paths if path.stem in stems and is_annotation_file(path)]
    if beside and _kind(_load(beside[0])) in (_labelme, _voc):
        return beside
    exports = [path for path in paths if is_annotation_file(path)]
    # Number of files in a folder that may be annotations; more are something else, such as a photo service's notes
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
                    f"{path}: is not a project, nor labels from COCO, Pascal VOC, Label Studio, LabelMe or CVAT"
                )
            places = [path.parent, path.parent / "images", path.parent.parent, path.parent.parent / "images"]
            for label, name, edges in read(document):
                if not isinstance(label, str):
                    raise TypeError(f"the label {label!r} is not text")
                if not label or not looks_like_image(name):
                    why = why_skipped(name) if label else "it has no label"
                    skipped.append(Broken(str(path), f"{path}: {shorten(name or 'an entry')} is skipped: {why}"))
                    continue
                photo = str(next((place / name for place in places if _exists(place / name)), path.parent / name))
                x, y, width, height = map(round, edges or (0, 0, 0, 0))
                box = Box(max(0, x), max(0, y), max(1, width + min(0, x)), max(1, height + min(0, y)))
                pairs.append((label, Path(box_name(photo, box) if edges else photo)))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else shorten(error)
            raise FrnError(f"{path}: its labels cannot be read ({reason}). Export them again.") from error
    if not pairs:
        raise FrnError(f"{paths[0]}: has no labelled photo" + (f". {skipped[0]}" if skipped else ""))
    return pairs, skipped


def _exists(path: Path) -> bool:
    inside = find_zip(path)
    return inside[1] in inside[0].files if inside else is_file(path)


def _load(path: Path) -> Any:
    """Return a JSON value or the root of an XML file, or None if it is neither."""
    # Maximum size of an annotation file; COCO's own largest has 450 MB
    data = read_whole(path, 512 << 20)
    try:
        if path.suffix.lower() == ".json":
            return decode_json(data)
        return None if b"<!ENTITY" in data else ET.fromstring(data)  # an entity may unfold without limit
    except (FrnError, ET.ParseError):
        return None


def _kind(document: Any) -> Any:
    """Return the reader of an export, or None."""
    if isinstance(document, ET.Element):
        if document.tag == "annotation" and document.findtext("filename"):
            return _voc
        return _cvat if document.tag == "annotations" and document.find("image") is not None else None
    if isinstance(document, dict):
        is_coco = {"images", "annotations", "categories"} <= document.keys()
        return _coco if is_coco else _labelme if {"shapes", "imagePath"} <= document.keys() else None
    is_tasks = isinstance(document, list) and document and isinstance(document[0], dict) and "data" in document[0]
    return _label_studio if is_tasks and "annotations" in document[0] else None


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
        corners = [(float(_text(each, f"x{end}")), float(_text(each, f"y{end}"))) for end in ("min", "max")]
        yield _text(each, "name"), name, _around(corners)


def _text(element: ET.Element, name: str) -> str:
    """Return the text of the first element below with this name. Raises KeyError if it is missing."""
    if (child := next(element.iter(name), None)) is None:
        raise KeyError(name)
    return child.text or ""


def _labelme(document: Any) -> Iterator[Label]:
    name = PureWindowsPath(document["imagePath"]).as_posix()
    for each in document["shapes"]:
        yield each["label"], name, _around([(float(x), float(y)) for x, y in each["points"]])
    for label, is_set in (document.get("flags") or {}).items():
        if is_set:
            yield label, name, None


def _label_studio(document: Any) -> Iterator[Label]:
    for task in document:
        value = next((str(value) for key, value in task["data"].items() if key in ("image", "img", "photo")), "")
        url = urlsplit(value)
        name = parse_qs(url.query).get("d", [unquote(url.path)])[0]
        if url.scheme or value.startswith("/data/upload/"):  # uploads are stored under a prefix
            name = re.sub(r"^[0-9a-f]{8}-", "", name.rpartition("/")[2])
        results = [each for done in task["annotations"] if not done.get("was_cancelled") for each in done["result"]]
        if not results:
            yield "", name, None
        for each in results:
            region = each["value"]
            for label in region.get("choices", ()):
                yield label, name, None
            for label in region.get("rectanglelabels", ()):
                across, down = each["original_width"] / 100, each["original_height"] / 100
                edges = region["x"] * across, region["y"] * down, region["width"] * across, region["height"] * down
                yield label, name, edges


def _cvat(document: ET.Element) -> Iterator[Label]:
    for image in document.iter("image"):
        name = image.attrib["name"]
        for each in image:
            if each.tag == "tag":
                yield each.attrib["label"], name, None
            elif each.tag == "box":
                corners = [(float(each.attrib[f"x{end}"]), float(each.attrib[f"y{end}"])) for end in ("tl", "br")]
                yield each.attrib["label"], name, _around(corners)
            elif "points" in each.attrib:
                points = [point.split(",") for point in each.attrib["points"].split(";")]
                yield each.attrib["label"], name, _around([(float(x), float(y)) for x, y in points])


def _around(points: list[tuple[float, float]]) -> Edges:
    left, top = min(x for x, _ in points), min(y for _, y in points)
    return left, top, max(x for x, _ in points) - left, max(y for _, y in points) - top
