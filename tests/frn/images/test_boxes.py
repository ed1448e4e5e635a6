"""Boxes: a part of a photo is named and used like a photo of its own."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.errors import FrnError
from frn.features.feature_cache import content_key
from frn.images.boxes import Box, box_name, split_box
from frn.images.opening import open_image
from frn.images.stamps import stamp_of
from frn.projects.folder_tree import looks_like_image
from frn.projects.session import Support
from tests import processes


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a b ☕.png")
    return tmp_path / "a b ☕.png"


def test_a_box_is_read_as_a_photo_of_its_pixels(photo: Path) -> None:
    name = box_name(str(photo), Box(10, 5, 20, 30))
    assert name == f"{photo}#xywh=10,5,20,30"
    assert split_box(name) == (photo, Box(10, 5, 20, 30))
    assert looks_like_image(name)
    whole, part = np.asarray(open_image(photo)), np.asarray(open_image(Path(name)))
    assert np.array_equal(part, whole[5:35, 10:30])


def test_a_box_is_limited_to_the_photo(photo: Path) -> None:
    assert open_image(Path(f"{photo}#xywh=50,30,999,999")).size == (10, 10)


@pytest.mark.parametrize("box", ["60,0,5,5", "0,40,5,5", "3,3,0,5"])
def test_a_box_without_pixels_is_an_error(photo: Path, box: str) -> None:
    with pytest.raises(FrnError, match=r"xywh=.*: the box has no pixel of the photo, which is 60 x 40"):
        open_image(Path(f"{photo}#xywh={box}"))


def test_the_box_is_in_the_upright_photo(tmp_path: Path) -> None:
    image, exif = Image.new("RGB", (40, 20), "red"), Image.Exif()
    image.paste("blue", (0, 0, 10, 20))
    exif[0x0112] = 6  # to be turned by 90 degrees: the blue side is then on top
    image.save(tmp_path / "x.png", exif=exif)
    part = np.asarray(open_image(tmp_path / "x.png#xywh=0,0,20,10"))
    assert part.shape == (10, 20, 3)
    assert (part == (0, 0, 255)).all()


def test_a_file_with_such_a_name_is_not_cut(photo: Path) -> None:
    odd = photo.rename(f"{photo}#xywh=1,1,2,2")
    assert split_box(odd) == (odd, None)
    assert open_image(odd).size == (60, 40)


@pytest.mark.parametrize("name", ["x.png#xywh=1,2,3", "x.png#xywh=1,2,3,-4", "x.png", "#xywh=1,2,3,4", "x#y.png"])
def test_other_names_have_no_box(name: str) -> None:
    assert split_box(name) == (Path(name), None)


def test_an_example_changes_with_its_photo(photo: Path) -> None:
    support = Support.of(Path(f"{photo}#xywh=0,0,9,9"), content_key(b""))
    assert support.size == photo.stat().st_size
    before = stamp_of(support.path)
    photo.write_bytes(b"x")
    assert stamp_of(support.path) != before


def test_a_box_of_a_photo_decoded_at_a_lower_resolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.new("RGB", (800, 640), "blue")
    image.paste("red", (400, 320, 600, 480))
    file = tmp_path / "large.jpg"
    image.save(file, quality=95)
    monkeypatch.setattr("frn.images.decoding.MAX_PIXELS", 500_000)
    assert open_image(file).width < 800
    red, green, blue = np.asarray(open_image(Path(f"{file}#xywh=400,320,200,160"))).mean((0, 1))
    assert red > 230
    assert green + blue < 30
    with pytest.raises(FrnError, match="which is 800 x 640"):
        open_image(Path(f"{file}#xywh=900,0,5,5"))


def test_a_very_large_box_is_reduced_by_a_whole_factor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    box = Path(f"{tmp_path / 'turned.png'}#xywh=3,5,60,80")
    exact = open_image(box)
    monkeypatch.setattr("frn.images.decoding.LARGE", 4799)
    assert np.array_equal(np.asarray(open_image(box)), np.asarray(exact.reduce(3)))
    monkeypatch.setattr("frn.images.decoding.LARGE", 4800)
    assert open_image(box) == exact


@pytest.mark.parametrize(("mode", "box"), [("RGBA", "10,20,300,200"), ("RGB", "0,0,8999,4999"), ("L", "1,1,8999,4999")])
def test_a_box_of_a_large_photo_takes_no_second_copy_of_it(tmp_path: Path, mode: str, box: str) -> None:
    path, small = tmp_path / "large.png", tmp_path / "small.png"
    code = (
        "import pathlib, resource, sys\nfrom frn.images.opening import open_image, read_file\n"
        f"read_file(pathlib.Path({str(small)!r} + '#xywh=10,20,300,200'))\n"
        "peak = lambda: sum(resource.getrusage(who).ru_maxrss for who in (0, -1))\nbefore = peak()\n"
        f"read_file(pathlib.Path({str(path)!r} + '#xywh={box}'))\nprint((peak() - before) >> 10)"
    )
    Image.new(mode, (9000, 5000), "red" if mode != "L" else 9).save(path)
    Image.new("RGB", (30, 30)).save(small)
    done = processes.run([sys.executable, "-c", code])
    decoded = 43 if mode == "L" else 172  # MiB: Pillow keeps 1 byte of a grey pixel, 4 of others
    assert int(done.stdout) < decoded + 60
