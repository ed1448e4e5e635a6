"""Photos with profiles and EXIF tags give the same pixels in sharp as in frn. `pytest -m runtimes`."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.images.opening import open_image
from tests.profiles import ADOBE_RGB, DISPLAY_P3, SRGB, cmyk_profile, grey_profile, rgb_profile
from tests.runtimes.environments import node_with, place_of

pytestmark = pytest.mark.runtimes

ORIENTATION = 0x0112
PROFILES = {
    "plain": None,
    "p3": rgb_profile(DISPLAY_P3, 2.2),
    "adobe": rgb_profile(ADOBE_RGB, 2.2),
    "linear": rgb_profile(SRGB, 1.0),
}


def write_photos(folder: Path) -> list[Path]:
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))
    photo = photo.resize((240, 180), Image.Resampling.BICUBIC)
    for name, profile in PROFILES.items():
        photo.save(folder / f"{name}.png", icc_profile=profile)
        exif = Image.Exif()
        exif[ORIENTATION] = 6
        photo.save(folder / f"{name}.jpg", quality=90, exif=exif, icc_profile=profile)
    photo.convert("L").save(folder / "grey.png", icc_profile=grey_profile(1.0))
    photo.convert("CMYK").save(folder / "cmyk.jpg", icc_profile=cmyk_profile())
    return sorted(folder.iterdir())


def test_sharp_reads_the_same_pixels(tmp_path: Path) -> None:
    place = place_of("sharp", tmp_path)
    command = node_with(place, "sharp", "pixels.mjs")
    (tmp_path / "photos").mkdir()
    photos = write_photos(tmp_path / "photos")
    subprocess.run([*command, *photos], cwd=place, check=True, capture_output=True, timeout=300)
    for path in photos:
        here = np.asarray(open_image(path)).astype(int)
        there = np.fromfile(f"{path}.raw", dtype=np.uint8).reshape(here.shape)
        apart = np.abs(here - there)
        assert apart.max() == 0, path
