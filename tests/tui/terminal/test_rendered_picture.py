import base64

import pytest
from frn_tui.terminal.rendered_picture import Picture

from frn.system.processes.messages import convert

MESSAGE = {
    "mode": "half",
    "columns": 2,
    "rows": 1,
    "photo": [4, 3],
    "pixels": [2, 2],
    "view": [0.0, 0.0, 1.0, 1.0],
    "seen": [0.1, 0.0, 0.9, 1.0],
}


def test_an_image_is_read_from_a_message() -> None:
    message = {**MESSAGE, "cells": base64.b64encode(bytes(range(14))).decode()}
    picture = convert(message, Picture)
    assert picture == Picture(
        "half", 2, 1, bytes(range(14)), (4, 3), (0.0, 0.0, 1.0, 1.0), (0.1, 0.0, 0.9, 1.0), (2, 2)
    )


def test_a_message_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are not 2 x 1 cells"):
        convert({**MESSAGE, "cells": "AAAA"}, Picture)
    with pytest.raises(ValueError, match="base64"):
        convert({**MESSAGE, "cells": "!!!!"}, Picture)


def test_resized_image_uses_the_nearest_cells() -> None:
    picture = Picture("half", 3, 1, b"aaaaaaabbbbbbbccccccc")
    assert picture.resized(6, 1).cells == b"a" * 14 + b"b" * 14 + b"c" * 14
    assert picture.resized(1, 2).cells == b"b" * 14
    assert picture.resized(3, 1) is picture


@pytest.mark.parametrize(
    ("room", "size"), [((30, 8), (24, 8)), ((12, 40), (12, 4)), ((6, 2), (6, 2)), ((1, 1), (1, 1))]
)
def test_image_fits_an_area_and_keeps_its_aspect_ratio(room: tuple[int, int], size: tuple[int, int]) -> None:
    fitted = Picture("half", 6, 2, bytes(84)).fitted(*room)
    assert (fitted.columns, fitted.rows) == size


def test_visible_point_maps_to_its_cell_and_any_other_to_none() -> None:
    picture = Picture("half", 10, 10, bytes(700), seen=(0.2, 0.1, 0.8, 0.9))
    assert picture.cell_at(0.5, 0.5) == (5, 5)
    assert picture.cell_at(0.01, 0.01) == (2, 1)
    assert picture.cell_at(0.99, 0.99) == (7, 8)
    closer = Picture("half", 10, 10, bytes(700), view=(0.5, 0.5, 0.6, 0.6), seen=(0.2, 0.1, 0.8, 0.9))
    assert closer.cell_at(0.55, 0.55) == (3, 4)
    assert closer.cell_at(0.1, 0.5) is None
