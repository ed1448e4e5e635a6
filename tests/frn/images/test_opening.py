"""Opening image files."""

import contextlib
import struct
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError
from frn.images import colour, decoding, kinds, opening
from frn.images.decoding import DecodeRequest
from frn.images.opening import decode_crop, decode_crops, decode_whole, open_image, read_file
from frn.images.transforms import EvaluationTransform, limit_shorter_side
from tests import processes
from tests.pngs import chunk

HEIC = Path(__file__).parent / "moth.heic"


def save(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "F"])
def test_every_colour_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    image = Image.new("L", (12, 9), 200).convert(mode) if mode != "I;16" else Image.new(mode, (12, 9), 40_000)
    suffix = ".tif" if mode in ("CMYK", "YCbCr", "I;16", "F") else ".png"
    opened = open_image(save(tmp_path / f"x{suffix}", image))
    assert (opened.mode, opened.size) == ("RGB", (12, 9))
    assert np.asarray(opened).mean() > 120


def test_image_is_opened_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    assert open_image(save(tmp_path / "x.jpg", Image.new("RGB", (40, 20)), exif=exif)).size == (20, 40)


def test_avif_is_read_upright(tmp_path: Path) -> None:
    picture, exif = Image.linear_gradient("L").resize((40, 20)).convert("RGB"), Image.Exif()
    exif[0x0112] = 6
    opened = open_image(save(tmp_path / "x.avif", picture, exif=exif, quality=90))
    expected = np.asarray(picture.transpose(Image.Transpose.ROTATE_270), dtype=int)
    assert np.abs(np.asarray(opened, dtype=int) - expected).mean() < 4


def test_heic_is_read_under_any_name(tmp_path: Path) -> None:
    """A renamed photo from a phone. The file is a rendered moth encoded by pillow-heif."""
    pytest.importorskip("pi_heif")
    misnamed = tmp_path / "IMG_1.jpg"
    misnamed.write_bytes(HEIC.read_bytes())
    sampled = draw_moth(species(0), np.random.default_rng(0), 64).resize((64, 48))
    for path in (HEIC, misnamed):
        opened = open_image(path)
        assert opened.size == (64, 48)
        assert np.abs(np.asarray(opened, dtype=int) - np.asarray(sampled, dtype=int)).mean() < 10


def test_heic_without_the_extra_is_refused_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "is_heif_readable", lambda: False)
    monkeypatch.setattr(opening, "is_quick", lambda data: True)
    with pytest.raises(FrnError, match=r"moth\.heic: is a HEIC photo; .* -m pip install 'pi-heif>=1'$"):
        open_image(HEIC)


def test_only_the_first_frame_counts(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    path = save(tmp_path / "x.gif", frames[0], save_all=True, append_images=frames[1:])
    assert np.asarray(open_image(path))[0, 0].tolist() == [255, 0, 0]


def test_a_non_image_is_refused_with_a_one_line_error(tmp_path: Path, truncated_jpeg: Path) -> None:
    text, empty = tmp_path / "text.png", tmp_path / "empty.png"
    text.write_text("not a picture")
    empty.touch()
    for path, reason in (
        (text, "is not an image in a known format"),
        (empty, r"is empty \(0 bytes\)"),
        (truncated_jpeg, "is damaged and cannot be decoded"),
        (tmp_path, r"cannot be read \(Is a directory\)"),
        (tmp_path / "none.png", "cannot be read"),
    ):
        with pytest.raises(FrnError, match=reason) as caught:
            open_image(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "wide.png", Image.new("1", (30_000, 40)))
    assert open_image(path).size == (30_000, 40)
    monkeypatch.setattr(decoding, "MAX_PIXELS", 1_000_000)
    with pytest.raises(FrnError, match="is 30000 x 40 pixels; the limit is 1 megapixels"):
        open_image(path)


def test_crop_is_within_a_grey_level_of_torchvision() -> None:
    from torchvision.transforms import CenterCrop, Compose, Resize

    generator = np.random.default_rng(0)
    for _ in range(60):
        width, height = (int(n) for n in generator.integers(20, 300, 2))
        image = Image.fromarray(generator.integers(0, 255, (height, width, 3), dtype=np.uint8))
        for square in (False, True):
            theirs = Compose([Resize([92, 92] if square else 92), CenterCrop(84)])(image)
            ours = EvaluationTransform(size=84, resize=92, square=square)(image)
            assert np.abs(ours.astype(int) - np.asarray(theirs)).max() <= 1, (width, height, square)


def test_strip_is_cropped_before_it_is_enlarged() -> None:
    strip = Image.new("RGB", (65_535, 1))
    assert EvaluationTransform(size=84, resize=92)(strip).shape == (84, 84, 3)
    assert limit_shorter_side(strip, 32).shape == (1, 20, 3)


def test_a_crop_larger_than_the_resize_is_refused() -> None:
    with pytest.raises(FrnError, match="the crop must not be larger"):
        EvaluationTransform(size=84, resize=64)
    for size in (10**400, 1000000, 7):
        with pytest.raises(FrnError, match="cannot be resized"):
            EvaluationTransform(size=size)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpg"])
def test_damaged_metadata_is_ignored(tmp_path: Path, suffix: str) -> None:
    picture = Image.linear_gradient("L").resize((40, 20)).convert("RGB")
    path = save(tmp_path / f"x{suffix}", picture, exif=b"Exif\0\0junkjunk")
    assert open_image(path).size == (40, 20)
    assert decode_crop(path.read_bytes(), path, EvaluationTransform(size=16)).shape == (16, 16, 3)


def test_floats_from_0_to_1_are_scaled_so_that_1_is_white(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    opened = open_image(save(tmp_path / "x.tif", Image.fromarray(ramp)))
    np.testing.assert_array_equal(np.asarray(opened)[..., 0], (ramp * 255).round())


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "CMYK", "I;16"])
def test_visible_part_read_in_strips_equals_the_crop_of_the_opened_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, orientation: int
) -> None:
    """The images include rotated, high-bit-depth and transparent ones, and one over the size limit."""
    generator = np.random.default_rng(orientation)
    exif = Image.Exif()
    exif[decoding.ORIENTATION] = orientation
    path, transform = tmp_path / ("x.png" if mode != "CMYK" else "x.jpg"), EvaluationTransform(size=16)
    for width, height in ((70, 50), (16, 16), (90, 3)):
        shape = (height, width) if mode == "I;16" else (height, width, len(mode))
        noise = generator.integers(0, 256, shape, dtype=np.uint8)
        image = Image.fromarray(noise.astype(np.uint16) * 257) if mode == "I;16" else Image.frombuffer(
            mode, (width, height), noise.tobytes()
        )  # fmt: skip
        save(path, image, exif=exif)
        monkeypatch.setattr(colour, "STRIP", 1 << 20)
        expected = transform(open_image(path))
        monkeypatch.setattr(colour, "STRIP", 170)
        np.testing.assert_array_equal(decode_crop(read_file(path), path, transform), expected)
        crops = decode_crops(read_file(path), path, (transform, transform.whole()))
        for crop, own in zip(crops, (transform, transform.whole()), strict=True):
            np.testing.assert_array_equal(crop, own(open_image(path)))


def test_images_over_the_memory_limit_are_reduced_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding keeps all coefficients of a progressive JPEG and four images of a WebP; JPEGs can be decoded smaller."""
    picture, transform = Image.radial_gradient("L").resize((1600, 1200)).convert("RGB"), EvaluationTransform(size=40)
    jpeg = save(tmp_path / "x.jpg", picture, progressive=True)
    plain, webp = save(tmp_path / "plain.jpg", picture), save(tmp_path / "x.webp", picture)
    whole = transform(open_image(jpeg)).astype(int)
    monkeypatch.setattr(decoding, "MAX_MEMORY", 10_000_000)  # 1600 x 1200 pixels fit at 4 bytes each, but not at 7
    assert open_image(jpeg).size == (400, 300)
    assert open_image(plain).size == (1600, 1200)
    difference = decode_crop(read_file(jpeg), jpeg, transform).astype(int) - whole
    assert np.abs(difference).max() <= 3
    with pytest.raises(FrnError, match=r"1600 x 1200 pixels of this kind of WEBP takes 29 MiB; the limit is 9 MiB"):
        open_image(webp)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell what a process held")
def test_memory_limit_counts_the_rows_of_a_strip(tmp_path: Path) -> None:
    """A PNG of 231 KB took 1.1 GB, because Pillow keeps a pointer per row."""
    size = struct.pack(">IIBBBBB", 1, 119_000_000, 8, 0, 0, 0, 0)
    path = tmp_path / "strip.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(99))))
    with pytest.raises(FrnError, match="1 x 119000000 pixels of this kind of PNG takes 2269 MiB; the limit is 600"):
        open_image(path)


def test_large_image_takes_little_more_than_its_decoded_size(tmp_path: Path) -> None:
    """The decoder takes four bytes per pixel; the conversions must not take four more each."""
    exif = Image.Exif()
    exif[decoding.ORIENTATION] = 6
    pixels = 3000 * 3000
    save(tmp_path / "x.png", Image.new("RGBA", (3000, 3000), (9, 90, 190, 128)), compress_level=1)
    save(tmp_path / "x.jpg", Image.new("RGB", (3000, 3000), (9, 90, 190)), exif=exif)
    program = """
import sys
from pathlib import Path
from frn.images.opening import EvaluationTransform, read_file, decode_crop
decode_crop(read_file(Path(sys.argv[1])), Path(sys.argv[1]), EvaluationTransform(size=84))
for line in Path("/proc/self/status").read_text().splitlines():
    if line.startswith("VmHWM:"):
        print(line.split()[1])
"""
    held = {
        name: int(processes.run([sys.executable, "-c", program, tmp_path / name], check=True).stdout) * 1024
        for name in ("x.png", "x.jpg")
    }
    small = save(tmp_path / "small.png", Image.new("RGB", (8, 8)))
    base = int(processes.run([sys.executable, "-c", program, small], check=True).stdout) * 1024
    for name, most in held.items():
        assert most - base < 6 * pixels, name


def test_whole_frame_preview_is_similar_and_has_the_upright_size(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.radial_gradient("L").resize((1600, 1200)).convert("RGB").save(path, exif=exif)
    pixels, size = decode_whole(read_file(path), path, 100)
    assert size == open_image(path).size == (1200, 1600)
    assert pixels.shape == (100, 75, 3)
    exact = np.asarray(open_image(path).resize((75, 100), Image.Resampling.BOX)).astype(int)
    assert np.abs(pixels.astype(int) - exact).mean() < 2
    assert decode_whole(read_file(path), path, 5000)[0].shape == (1600, 1200, 3)


@pytest.mark.filterwarnings("ignore::frn.images.depth.ShallowDataWarning")
@pytest.mark.parametrize("mode", ["RGBA", "LA", "I;16", "L", "P"])
def test_every_mode_decodes_the_whole_frame_as_opening_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    path = tmp_path / "x.png"
    ramp = np.arange(70 * 50, dtype=np.uint16).reshape(70, 50)
    (Image.fromarray(ramp) if mode == "I;16" else Image.fromarray(ramp.astype(np.uint8)).convert(mode)).save(path)
    monkeypatch.setattr(colour, "STRIP", 170)
    np.testing.assert_array_equal(decode_whole(read_file(path), path, 70)[0], np.asarray(open_image(path)))


def test_the_visible_part_is_the_crop() -> None:
    """A gradient along each side shows where pixels came from."""
    generator = np.random.default_rng(0)
    for _ in range(40):
        width, height = (int(n) for n in generator.integers(100, 900, 2))
        square, resize = bool(generator.integers(2)), int(generator.integers(32, 80))
        transform = EvaluationTransform(size=32, resize=resize, square=square)
        x = np.linspace(0, 255, width)[None].repeat(height, 0)
        y = np.linspace(0, 255, height)[:, None].repeat(width, 1)
        crop = transform(Image.fromarray(np.stack([x, y, y], 2).astype(np.uint8))).astype(float)
        left, top, right, bottom = transform.seen((width, height))
        edges = crop[16, 0, 0], crop[0, 16, 1], crop[16, -1, 0], crop[-1, 16, 1]
        cell = 255 * (right - left) / 32, 255 * (bottom - top) / 32
        half = (cell[0] / 2, cell[1] / 2, -cell[0] / 2, -cell[1] / 2)
        expected = [255 * share + inward for share, inward in zip((left, top, right, bottom), half, strict=True)]
        np.testing.assert_allclose(edges, expected, atol=4)
    assert EvaluationTransform(size=32).seen((32, 32)) == (0, 0, 1, 1)
    assert EvaluationTransform(size=84, resize=92).seen((65_535, 1))[1:4:2] == pytest.approx((4 / 92, 88 / 92))


def test_parallel_decoding_keeps_warning_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LARGE", 0)
    data = save(tmp_path / "x.png", Image.new("RGB", (4, 4))).read_bytes()
    inside, first_done = threading.Barrier(2, timeout=10), threading.Event()

    @contextlib.contextmanager
    def beside_another() -> Iterator[None]:
        if inside.wait() == 1:
            first_done.wait(10)
        yield

    def decode() -> None:
        decoding.decode_in_process(data, "x", DecodeRequest(), beside_another())
        first_done.set()

    before = list(warnings.filters)
    threads = [threading.Thread(target=decode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert list(warnings.filters) == before
