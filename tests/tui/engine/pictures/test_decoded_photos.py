"""Decoded photos are reused up to a limit, and only if they are fine enough and the file is the same."""

import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from frn_tui.engine.models import Models
from frn_tui.engine.pictures import previews
from frn_tui.engine.pictures.previews import Previews


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record what is decoded; the number in a file's name is its size in bytes."""
    found: list[tuple[str, int]] = []

    def decode(data: bytes, path: Path, side: int) -> tuple[np.ndarray, tuple[int, int]]:
        found.append((path.name, side))
        return np.broadcast_to(np.uint8(0), (1, int(re.split("[. ]", path.name)[0]))), (4000, 3000)

    monkeypatch.setattr(previews, "decode_whole", decode)
    return found


def photo(folder: Path, name: str) -> str:
    (folder / name).write_text("photo")
    return str(folder / name)


@pytest.mark.parametrize(("longest", "side"), [(1, 128), (128, 128), (129, 256), (4097, 8192), (9000, 8192)])
def test_photo_is_decoded_at_the_next_size(
    tmp_path: Path, decoded: list[tuple[str, int]], longest: int, side: int
) -> None:
    assert Previews(Models()).photo(photo(tmp_path, "1"), longest)[1] == (4000, 3000)
    assert decoded == [("1", side)]


def test_finer_photo_is_reused_until_the_file_changes(tmp_path: Path, decoded: list[tuple[str, int]]) -> None:
    photos, name = Previews(Models()), photo(tmp_path, "1")
    for longest in (500, 512, 100, 600, 300):
        assert photos.photo(name, longest)[1] == (4000, 3000)
    assert decoded == [("1", 512), ("1", 1024)]
    os.utime(name, ns=(0, 1))
    photos.photo(name, 100)
    Path(name).write_text("longer")
    os.utime(name, ns=(0, 1))
    photos.photo(name, 100)
    assert decoded[2:] == [("1", 128)] * 2


def test_photo_in_a_zip_is_decoded_at_the_next_size_each_time(tmp_path: Path, decoded: list[tuple[str, int]]) -> None:
    with zipfile.ZipFile(tmp_path / "birds.zip", "w") as archive:
        archive.writestr("jay/1.jpg", "photo")
    photos = Previews(Models())
    for _ in range(2):
        photos.photo(str(tmp_path / "birds.zip" / "jay" / "1.jpg"), 200)
    assert decoded == [("1.jpg", 256)] * 2
