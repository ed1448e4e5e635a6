"""Images of error maps."""

import numpy as np

from frn.images.ramp import RAMP
from frn.report.heat_maps import GAP, PANEL, Panel, mark, overlay, sheet
from frn.system.files import MARK

CROP = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)


def lightness(picture: object) -> np.ndarray:
    return np.asarray(picture, dtype=float) @ [0.299, 0.587, 0.114]


def test_worst_explained_block_is_the_brightest() -> None:
    errors = np.zeros((5, 5))
    errors[1, 3] = 2.0
    grey = np.full((85, 85, 3), 90, dtype=np.uint8)
    light = lightness(overlay(grey, errors, low=0, high=2))
    blocks = light.reshape(5, 17, 5, 17).mean((1, 3))
    assert np.unravel_index(blocks.argmax(), (5, 5)) == (1, 3)
    assert np.allclose(light.reshape(5, 17, 5, 17).std((1, 3)), 0)  # drawn as blocks, without smoothing


def test_overlay_covers_15_to_75_percent_with_rising_error() -> None:
    grey = np.full((10, 20, 3), 90, dtype=np.uint8)
    drawn = np.asarray(overlay(grey, np.array([[0.0, 2.0]]), low=0, high=2))
    for column, share, colour in ((0, 0.15, RAMP[0]), (19, 0.75, RAMP[-1])):
        expected = (1 - share) * 90 + share * np.array(colour)
        assert np.abs(drawn[5, column] - expected).max() <= 0.5


def test_colour_ramp_gets_steadily_lighter() -> None:
    assert (np.diff(lightness(np.array(RAMP))) > 0).all()


def test_map_without_contrast_is_drawn_dark() -> None:
    flat = overlay(CROP, np.full((5, 5), 3.0), low=3, high=3)
    assert lightness(flat).mean() < lightness(CROP).mean()


def test_errors_beyond_the_scale_are_clipped() -> None:
    errors = np.random.default_rng(0).random((5, 5)) * 9 - 4
    beyond = overlay(CROP, errors, low=0, high=1)
    assert beyond.tobytes() == overlay(CROP, errors.clip(0, 1), low=0, high=1).tobytes()


def test_sheet_shows_the_unchanged_photo_and_a_panel_per_class() -> None:
    panels = [Panel(f"class {i} " + "x" * 200, "note ß", np.random.default_rng(i).random((5, 5))) for i in range(5)]
    picture = sheet(CROP, "a photo with a very long name " * 5, panels)
    assert picture.size[0] == 4 * (PANEL + GAP) + GAP
    photo = np.asarray(picture.crop((GAP, GAP, GAP + PANEL, GAP + PANEL)).resize((84, 84), 0))
    np.testing.assert_array_equal(photo, CROP)
    assert sheet(CROP, "t", panels[:1]).size[0] == 2 * (PANEL + GAP) + GAP


def test_panels_fill_rows_of_four_and_share_one_scale() -> None:
    maps = [np.random.default_rng(number).random((5, 5)) for number in range(5)]
    low, high = min(m.min() for m in maps), max(m.max() for m in maps)
    picture = sheet(CROP, "", [Panel("", "", errors) for errors in maps])
    assert picture.size == (4 * 264 + 12, 2 * 312 + 12)
    for number, errors in enumerate(maps, 1):
        left, top = 12 + number % 4 * 264, 12 + number // 4 * 312
        shown = picture.crop((left, top, left + 252, top + 252))
        expected = overlay(CROP, errors, low=low, high=high).resize((252, 252), 0)
        assert shown.tobytes() == expected.tobytes(), number
    assert (np.asarray(picture)[-12:] == 255).all()


def test_saved_images_name_their_creator() -> None:
    ((kind, content, *_),) = mark().chunks
    assert (kind, content) == (b"tEXt", b"Software\0" + MARK.encode())
