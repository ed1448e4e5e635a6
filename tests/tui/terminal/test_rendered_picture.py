import base64

import pytest
from frn_tui.terminal.rendered_picture import Picture

from frn.system.processes.messages import convert

MESSAGE = {
    "mode": "half",
    "columns": 2,
    "rows": 1,
    "pixels": [2, 2],
    "view": [0.0, 0.0, 1.0, 1.0],
    "seen": [0.1, 0.0, 0.9, 1.0],
}


def test_an_image_is_read_from_a_message() -> None:
    message = {**MESSAGE, "cells": base64.b64encode(bytes(range(14))).decode()}
    picture = convert(message, Picture)
    assert picture == Picture("half", 2, 1, bytes(range(14)), (0.0, 0.0, 1.0, 1.0), (0.1, 0.0, 0.9, 1.0), (2, 2))


def test_a_message_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are not 2 x 1 cells"):
        convert({**MESSAGE, "cells": "AAAA"}, Picture)
    with pytest.raises(ValueError, match="base64"):
        convert({**MESSAGE, "cells": "!!!!"}, Picture)


def test_visible_point_maps_to_its_cell_and_any_other_to_none() -> None:
    picture = Picture("half", 10, 10, bytes(700), seen=(0.2, 0.1, 0.8, 0.9))
    assert picture.cell_at(0.5, 0.5) == (5, 5)
    assert picture.cell_at(0.01, 0.01) == (2, 1)
    assert picture.cell_at(0.99, 0.99) == (7, 8)
    closer = Picture("half", 10, 10, bytes(700), view=(0.5, 0.5, 0.6, 0.6), seen=(0.2, 0.1, 0.8, 0.9))
    assert closer.cell_at(0.55, 0.55) == (3, 4)
    assert closer.cell_at(0.1, 0.5) is None
