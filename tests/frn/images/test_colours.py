"""Correct colours: transparent colour keys, ICC profiles, and more than eight bits per sample."""

import io
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from frn.images import depth
from frn.images.colour import srgb_converter, to_rgb
from frn.images.depth import ShallowDataWarning
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from tests.pngs import COLOUR_CHUNKS, SWATCHES, cicp, png
from tests.profiles import ADOBE_RGB, DISPLAY_P3, SRGB, cmyk_profile, grey_profile, rgb_profile


@pytest.fixture(autouse=True)
def said_again() -> Iterator[None]:
    depth.say.cache_clear()
    yield
    depth.say.cache_clear()


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_a_transparent_grey_level_of_any_depth_is_white(tmp_path: Path, bits: int) -> None:
    most = 2**bits - 1
    rows = np.array([[0, most], [most // 2, most]], dtype=np.uint16)
    opened = np.asarray(open_image(png(tmp_path / "x.png", rows, bits, key=(0,))))[..., 0]
    shown = rows.astype(float) / most * 255
    shown[rows == 0] = 255
    np.testing.assert_array_equal(opened, shown.round())


@pytest.mark.parametrize("bits", [8, 16])
def test_a_transparent_colour_is_white(tmp_path: Path, bits: int) -> None:
    most = 2**bits - 1
    rows = np.array([[[most // 5, 0, 0], [most, most // 3, 0]]], dtype=np.uint16)
    opened = np.asarray(open_image(png(tmp_path / "x.png", rows, bits, key=(most // 5, 0, 0))))
    np.testing.assert_array_equal(opened[0], [[255, 255, 255], [255, 85, 0]])


def test_transparent_colour_is_white_in_crops_and_pillow_images(tmp_path: Path) -> None:
    image = Image.new("RGB", (32, 32), (200, 30, 30))
    image.save(tmp_path / "x.png", transparency=(200, 30, 30))
    assert (EvaluationTransform(size=32)(open_image(tmp_path / "x.png")) == 255).all()
    with Image.open(tmp_path / "x.png") as opened:
        assert np.asarray(to_rgb(opened)).min() == 255


PROFILES = {"adobe": rgb_profile(ADOBE_RGB, 2.2), "p3": rgb_profile(DISPLAY_P3, 2.2), "linear": rgb_profile(SRGB, 1.0)}


def colours() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8))


def by_matrix(pixels: NDArray[np.uint8], primaries: object, gamma: float) -> NDArray[np.float64]:
    """Convert to sRGB by the definitions of both spaces, as an independent check."""
    linear = (pixels / 255.0) ** gamma @ np.array(primaries) @ np.linalg.inv(np.array(SRGB))
    linear = linear.clip(0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def test_colours_are_rounded_as_sharp_does() -> None:
    """sharp 0.35 gives these values; with littleCMS's own sRGB profile, each differs by one grey level."""
    pixels = np.array([[[166, 39, 185], [56, 18, 149], [227, 146, 166], [188, 112, 48]]], dtype=np.uint8)
    shown = srgb_converter(PROFILES["p3"], "RGB")(Image.fromarray(pixels))
    assert np.asarray(shown).tolist() == [[[183, 2, 193], [58, 5, 157], [241, 143, 168], [202, 108, 16]]]


@pytest.mark.parametrize(
    ("name", "primaries", "gamma"), [("adobe", ADOBE_RGB, 2.2), ("p3", DISPLAY_P3, 2.2), ("linear", SRGB, 1.0)]
)
@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_profile_colours_become_srgb(tmp_path: Path, name: str, primaries: object, gamma: float, suffix: str) -> None:
    path, image = tmp_path / f"x{suffix}", colours()
    image.save(path, icc_profile=PROFILES[name], lossless=True)
    expected = by_matrix(np.asarray(image), primaries, gamma)
    assert np.abs(np.asarray(open_image(path)) - expected).max() < 3
    assert np.abs(np.asarray(image) - expected).max() > 10, "the profile makes no difference"


def test_srgb_profile_changes_nothing(tmp_path: Path) -> None:
    image = colours()
    image.save(tmp_path / "x.png", icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "x.png")), np.asarray(image))


@pytest.mark.parametrize(
    "profile",
    [b"junk", PROFILES["p3"][:200], cmyk_profile(), rgb_profile([(0, 0, 0)] * 3, 2.2), rgb_profile(DISPLAY_P3, 0)],
    ids=["junk", "cut", "of CMYK", "all black", "all white"],
)
def test_unusable_profile_is_ignored(tmp_path: Path, profile: bytes) -> None:
    image = colours()
    image.save(tmp_path / "x.png", icc_profile=profile)
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "x.png")), np.asarray(image))


def test_cmyk_and_grey_are_converted_to_srgb_with_their_profiles(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (255, 0, 0, 0)).save(tmp_path / "x.tif", icc_profile=cmyk_profile())
    assert np.abs(np.asarray(open_image(tmp_path / "x.tif"))[0, 0] - [0, 217, 255]).max() <= 1, "a light blue"
    Image.new("L", (16, 16), 128).save(tmp_path / "x.png", icc_profile=grey_profile(1.0))
    assert np.asarray(open_image(tmp_path / "x.png"))[0, 0].tolist() == [188, 188, 188]


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA"])
def test_profile_is_applied_in_every_mode(tmp_path: Path, mode: str) -> None:
    grey, profile = mode == "LA", grey_profile(1.0) if mode == "LA" else PROFILES["linear"]
    image = Image.new("RGB", (16, 16), (128, 128, 128) if grey else (128, 40, 200)).convert(mode)
    if mode != "P":
        image.putalpha(Image.fromarray(np.repeat([[255], [0]], 8, axis=0).repeat(16, axis=1).astype(np.uint8)))
    image.save(tmp_path / "x.png", icc_profile=profile)
    opened = np.asarray(open_image(tmp_path / "x.png")).astype(int)
    plain = np.array(image.convert("RGB").getpixel((0, 0)))
    assert np.abs(opened[0, 0] - by_matrix(plain.astype(np.uint8), SRGB, 1.0)).max() < 3
    assert mode == "P" or (opened[-1, -1] == 255).all()


def test_crop_of_a_rotated_photo_with_a_profile_equals_that_of_the_whole_photo(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    colours().resize((90, 60)).save(tmp_path / "x.jpg", icc_profile=PROFILES["p3"], exif=exif)
    transform = EvaluationTransform(size=32)
    with Image.open(tmp_path / "x.jpg") as image:
        cropped = transform(image, 6)
    assert np.abs(cropped.astype(int) - transform(open_image(tmp_path / "x.jpg"))).max() <= 1


@pytest.mark.parametrize("bits", [9, 10, 12, 14])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_images_with_few_used_bits_are_scaled_and_reported_once(tmp_path: Path, bits: int, suffix: str) -> None:
    most = 2**bits - 1
    ramp = np.linspace(0, most, 256).round().astype(np.uint16).reshape(16, 16)
    for name in ("a", "b"):
        Image.fromarray(ramp).save(tmp_path / f"{name}{suffix}")
    with pytest.warns(ShallowDataWarning, match=f"uses only {bits} of its 16 bits") as told:
        opened = [np.asarray(open_image(tmp_path / f"{name}{suffix}"))[..., 0] for name in ("a", "b")]
    assert len(told) == 1
    for grey in opened:
        np.testing.assert_array_equal(grey, (ramp * (255 / most)).round())


def test_tag_defines_the_bit_depth(tmp_path: Path) -> None:
    dark = np.full((16, 16), 100, dtype=np.uint16)
    Image.fromarray(dark).save(tmp_path / "x.tif", tiffinfo={depth.MAX_SAMPLE_VALUE: 4095})
    assert np.asarray(open_image(tmp_path / "x.tif"))[0, 0, 0] == round(100 / 4095 * 255)


def test_sixteen_bit_images_are_not_scaled(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "x.png")
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "x.png"))[..., 0], (ramp / 257).round())


def test_twelve_bit_colours_are_read_exactly(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 4096, (20, 20, 3)).astype(np.uint16)
    rows[0, 0] = 4095
    with pytest.warns(ShallowDataWarning, match="uses only 12 of its 16 bits"):
        opened = np.asarray(open_image(png(tmp_path / "x.png", rows, 16)))
    np.testing.assert_array_equal(opened, (rows * (255 / 4095)).round())


def test_twelve_bit_tiff_colours_of_either_byte_order_are_read_exactly(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 4096, (20, 20, 3)).astype(np.uint16)
    rows[0, 0] = 4095
    for order, mark in (("<", b"II*\0"), (">", b"MM\0*")):
        entries = [(256, 20), (257, 20), (258, 16), (259, 1), (262, 2), (273, 8), (277, 3), (278, 20), (279, 2400)]
        pixels = rows.astype(f"{order}u2").tobytes()
        table = struct.pack(f"{order}H", len(entries))
        for tag, value in entries:
            count = 3 if tag == 258 else 1
            kind, shown = (3, 8 + len(pixels)) if tag == 258 else (4, value)
            table += struct.pack(f"{order}HHII", tag, kind, count, shown)
        bits = struct.pack(f"{order}3H", 16, 16, 16) + bytes(2)
        start = struct.pack(f"{order}I", 8 + len(pixels) + len(bits))
        (tmp_path / "x.tif").write_bytes(mark + start + pixels + bits + table + bytes(4))
        depth.say.cache_clear()
        with pytest.warns(ShallowDataWarning):
            opened = np.asarray(open_image(tmp_path / "x.tif"))
        np.testing.assert_array_equal(opened, (rows * (255 / 4095)).round())


def test_a_photo_in_a_data_set_keeps_its_profile(tmp_path: Path) -> None:
    from frn.data.prepare.writer import cropped_png

    buffer = io.BytesIO()
    colours().save(buffer, "TIFF", icc_profile=PROFILES["p3"])
    with Image.open(io.BytesIO(cropped_png(buffer.getvalue(), "x.tif", (0, 0, 9, 9)))) as image:
        assert image.info["icc_profile"] == PROFILES["p3"]


@pytest.mark.parametrize("name", COLOUR_CHUNKS)
def test_colour_chunks_of_a_png_are_read_as_chromium_reads_them(tmp_path: Path, name: str) -> None:
    chunks, shown = COLOUR_CHUNKS[name]
    rows = {8: SWATCHES, 16: SWATCHES * 257}
    paths = [png(tmp_path / f"{bits}.png", rows[bits], bits, chunks=chunks) for bits in rows]
    for path in (*paths, Path(f"{paths[0]}#xywh=0,0,9,9")):
        np.testing.assert_allclose(np.asarray(open_image(path))[0].astype(int), shown, atol=1)


@pytest.mark.parametrize(("curve", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_curves_are_reported(tmp_path: Path, curve: int, name: str) -> None:
    with pytest.warns(ShallowDataWarning, match=f"has the HDR curve {name}: its colours are read as sRGB"):
        opened = open_image(png(tmp_path / "x.png", SWATCHES, 8, chunks=[cicp(9, curve, 0, 1)]))
    assert np.array_equal(np.asarray(opened)[0], SWATCHES[0])


@pytest.mark.parametrize("name", ["linear", "gamma and primaries", "equal primaries", "cICP comes before sRGB"])
def test_colour_chunks_of_a_grey_png_are_read_as_chromium_reads_them(tmp_path: Path, name: str) -> None:
    chunks, shown = COLOUR_CHUNKS[name]
    opened = np.asarray(open_image(png(tmp_path / "x.png", SWATCHES[:, :2, 0], 8, chunks=chunks)))
    np.testing.assert_allclose(opened[0].astype(int), shown[:2], atol=1)


def test_colour_chunks_are_used_in_crops_and_pillow_images_and_kept_in_data_sets(tmp_path: Path) -> None:
    from frn.data.prepare.writer import cropped_png

    chunks, shown = COLOUR_CHUNKS["linear"]
    path = png(tmp_path / "x.png", SWATCHES.repeat(9, 0), 8, chunks=chunks)
    crop = EvaluationTransform(size=9)(open_image(path))
    with Image.open(path) as image:
        assert np.array_equal(EvaluationTransform(size=9)(image), crop)
    kept = open_image_of(cropped_png(path.read_bytes(), "x.png", (0, 0, 4, 4)), tmp_path / "kept.png")
    np.testing.assert_allclose(kept[0].astype(int), shown, atol=1)


def open_image_of(data: bytes, path: Path) -> NDArray[np.uint8]:
    path.write_bytes(data)
    return np.asarray(open_image(path))
