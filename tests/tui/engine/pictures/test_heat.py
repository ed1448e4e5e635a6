"""Error maps over photos, compared with colours computed by hand."""

from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import Heat
from frn_tui.engine.pictures.previews import paint

from frn.images.ramp import RAMP

WHOLE = (0.0, 0.0, 1.0, 1.0)


def heat(errors: Any, low: float = 0.0, high: float = 1.0, *, smooth: bool = False) -> Heat:
    return {"map": np.asarray(errors).tolist(), "low": low, "high": high, "smooth": smooth}


def ramp(share: float) -> list[float]:
    """Return the colour of an error; the ramp has five colours at equal distances."""
    place = min(int(share * 4), 3)
    return [a + (b - a) * (share * 4 - place) for a, b in zip(RAMP[place], RAMP[place + 1], strict=True)]


@pytest.mark.parametrize("turned", [False, True])
def test_smooth_maps_blend_between_the_centres_of_locations(turned: bool) -> None:
    """Halfway to the next centre, both count equally; the blend is 3 t^2 - 2 t^3."""
    photo, errors, box = np.zeros((1, 12, 3), np.uint8), np.array([[0.0, 1.0, 0.5]]), (0.0, 0.0, 1.0, 1.0)
    drawn = (
        paint(photo.transpose(1, 0, 2), heat(errors.T, smooth=True), box, bare=True).transpose(1, 0, 2)
        if turned
        else paint(photo, heat(errors, smooth=True), box, bare=True)
    )
    blend = [3 * t**2 - 2 * t**3 for t in (1 / 8, 3 / 8, 5 / 8, 7 / 8)]
    levels = [0, 0, *blend, *(1 - share / 2 for share in blend), 0.5, 0.5]
    np.testing.assert_allclose(drawn[0], np.array(list(map(ramp, levels))), atol=0.51)


def test_photo_is_covered_in_proportion_to_the_error_up_to_four_fifths() -> None:
    photo, errors = np.full((2, 4, 3), 100, np.uint8), np.array([[0.0, 1.0], [0.5, 0.25]])
    drawn = paint(photo, heat(errors), WHOLE, bare=False)
    for (row, column), error in np.ndenumerate(errors):
        expected = [(1 - 0.8 * error) * 100 + 0.8 * error * colour for colour in ramp(error)]
        np.testing.assert_allclose(drawn[row, 2 * column : 2 * column + 2], [expected] * 2, atol=0.51)


@pytest.mark.parametrize("bare", [False, True])
def test_outside_its_box_a_photo_is_unchanged_or_darkened(bare: bool) -> None:
    photo = np.full((4, 8, 3), 100, np.uint8)
    drawn = paint(photo, heat([[1]], smooth=True), (0.25, 0.5, 0.75, 1.0), bare=bare)
    outside = np.ones((4, 8), bool)
    outside[2:, 2:6] = False
    assert (drawn[outside] == (30 if bare else 100)).all()
    assert (drawn[~outside] != drawn[0, 0]).any(1).all()
