"""Exports of annotation tools are read as classes, or refused with one line."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from frn.errors import FrnError
from frn.projects.class_files import class_files

COCO = {
    "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "b.jpg"}],
    "categories": [{"id": 1, "name": "jay"}, {"id": 2, "name": "wren"}],
    "annotations": [
        {"image_id": 7, "category_id": 1, "bbox": [1.4, 2, 30, 40]},
        {"image_id": 7, "category_id": 2, "bbox": [-3, 0, 10, 10]},
        {"image_id": 8, "category_id": 2},
        {"image_id": 8, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 1},
    ],
}
BOXED = {"jay": ["a.jpg#xywh=1,2,30,40"], "wren": ["a.jpg#xywh=0,0,7,10", "b.jpg"]}

VOC = """<annotation><folder>x</folder><filename>{}</filename><size><width>99</width></size>
<object><name>jay</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>31</xmax><ymax>42</ymax></bndbox></object>
</annotation>"""


def named(root: Path, files: dict[str, Any]) -> Path:
    """Write photos and labels into `root`, and return it."""
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (root / "images").mkdir(parents=True, exist_ok=True)
        (root / "images" / name).touch()
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def found(path: Path) -> dict[str, list[str]]:
    return {name: [photo.name for photo in photos] for name, photos in class_files(path).members.items()}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("annotations/instances.json", COCO, BOXED),
        ("_annotations.coco.json", COCO, BOXED),
        ("a.xml", VOC.format("a.jpg"), {"jay": ["a.jpg#xywh=1,2,30,40"]}),
    ],
)
def test_exports_are_read_as_a_file_a_folder_and_a_zip(
    tmp_path: Path, name: str, content: Any, expected: dict[str, list[str]]
) -> None:
    root = named(tmp_path / "x", {name: content})
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in sorted(root.rglob("*.*")):
            archive.write(path, path.relative_to(root))
    assert found(root) == found(root / name) == found(tmp_path / "x.zip") == expected
    for photos in class_files(root).members.values():
        assert all(path.parent == root / "images" for path in photos)


def test_a_folder_of_pascal_voc_has_a_file_per_photo(tmp_path: Path) -> None:
    beside = {f"images/{name}.xml": VOC.format(f"{name}.jpg") for name in "abc"}
    apart = {f"annotations/{name}.xml": VOC.format(f"{name}.jpg") for name in "abc"}
    expected = {"jay": [f"{name}.jpg#xywh=1,2,30,40" for name in "abc"]}
    assert found(named(tmp_path / "x", beside) / "images") == found(named(tmp_path / "y", apart)) == expected


def test_an_image_folder_of_hugging_face_is_a_table(tmp_path: Path) -> None:
    root = named(tmp_path / "x", {"metadata.csv": "file_name,label\nimages/a.jpg,jay\nimages/b.jpg,wren"})
    assert found(root) == {"jay": ["a.jpg"], "wren": ["b.jpg"]}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.json": COCO, "b.json": COCO}, "has several annotation files. Choose one of them: "),
        ({"data.yaml": "", "labels/a.txt": "0 1 1 1 1"}, "is a data set for YOLO's detector. Export it again as COCO."),
        ({"x.json": {**COCO, "images": [{"id": 7}]}}, "x.json: its labels cannot be read ('file_name' is missing)"),
        ({"x.xml": VOC.replace("xmax", "right")}, "x.xml: its labels cannot be read ('xmax' is missing)"),
        ({"x.json": {**COCO, "annotations": []}}, "x.json: has no labelled photo"),
        ({"x.json": {**COCO, "images": [{"id": 7, "file_name": "a.jpg"}]}}, "(8 is missing). Export them again."),
    ],
)
def test_exports_that_cannot_be_read_give_one_line(tmp_path: Path, files: dict[str, Any], reason: str) -> None:
    root = named(tmp_path / "x", files)
    with pytest.raises(FrnError) as told:
        class_files(root)
    assert reason in str(told.value)
    assert len(str(told.value).splitlines()) == 1


ENTITY = '<!DOCTYPE a [<!ENTITY x "wren">]>' + VOC.replace("jay", "&x;")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"shapes": 1}', "<a/>", ENTITY])
def test_other_json_and_xml_is_not_an_export(tmp_path: Path, content: str, encoding: str) -> None:
    for name in ("x.json", "x.xml"):
        (tmp_path / name).write_text(content, encoding)
        with pytest.raises(FrnError, match="is not a project, nor labels in COCO or Pascal VOC"):
            class_files(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sep=;\nfile_name;label;x;y;width;height\na.jpg;jay;1,4;2;30,0;40\n", ["a.jpg#xywh=1,2,30,40"]),
        ('"sep=,"\r\nFile Name,Class\r\na.jpg,jay\r\n', ["a.jpg"]),
        ("image path\tCategory\na.jpg\tjay\n", ["a.jpg"]),
        ("path,label\nb.jpg,unknown\na.jpg,jay\n", ["a.jpg"]),
        ("path,label\n blank.jpg,jay\n a.jpg,jay\n~/b.jpg,jay\n", [" blank.jpg", "a.jpg", "b.jpg"]),
    ],
)
def test_tables_of_spreadsheets_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / " blank.jpg").touch()
    (tmp_path / "x.csv").write_text(text)
    read = class_files(tmp_path / "x.csv")
    assert (read.members, read.skipped) == ({"jay": [tmp_path / name for name in expected]}, [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "path,label,x,y,width,height\na.jpg,jay,1,5,2,5,30,40\n",
            "row 2 is skipped: it has 8 columns, the first row 6; put text with a comma",
        ),
        ("sep=;\npath;label\n;jay\n", "row 3 is skipped: it has no photo"),
        ('photo\vof,"two\nlines"\na.jpg,jay\n', "its first row is: photo of, two lines$"),
        ('path,label\n"a.t\nt",jay\n', r"row 2 is skipped: .*\.t t"),
        ("path,label\na.jpg,unknown\nb.jpg,None\n", r"has no class, only photos that belong to none \(None, unknown\)"),
    ],
)
def test_tables_without_a_usable_row_are_explained(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(FrnError, match=reason):
        class_files(tmp_path / "x.csv")
