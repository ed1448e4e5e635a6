import base64

import pytest
from frn_tui.rgb import Rgb


def test_a_picture_from_a_message_has_its_pixels() -> None:
    picture = Rgb.from_picture({"width": 2, "height": 2, "rgb": base64.b64encode(bytes(range(12))).decode()})
    assert picture == Rgb(2, 2, bytes(range(12)))


def test_a_message_with_too_few_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are no 2 x 2 pixels"):
        Rgb.from_picture({"width": 2, "height": 2, "rgb": "AAAA"})
    with pytest.raises(ValueError, match="no base64"):
        Rgb.from_picture({"width": 1, "height": 1, "rgb": "!!!!"})


def test_resizing_takes_the_nearest_pixels() -> None:
    picture = Rgb(3, 1, b"aaabbbccc")
    assert picture.resized(6, 2).data == b"aaaaaabbbbbbcccccc" * 2
    assert picture.resized(1, 1).data == b"bbb"
    assert picture.resized(3, 1) is picture
