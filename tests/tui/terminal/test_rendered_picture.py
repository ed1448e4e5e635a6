import base64

import pytest
from frn_tui.terminal.rendered_picture import Picture

from frn.system.processes.messages import convert

MESSAGE = {"mode": "half", "columns": 2, "rows": 1, "pixels": [2, 2], "view": [0.0, 0.0, 1.0, 1.0]}


def test_an_image_is_read_from_a_message() -> None:
    message = {**MESSAGE, "cells": base64.b64encode(bytes(range(12))).decode()}
    picture = convert(message, Picture)
    assert picture == Picture("half", 2, 1, bytes(range(12)), (0.0, 0.0, 1.0, 1.0), (2, 2))


def test_a_message_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        convert({**MESSAGE, "cells": "!!!!"}, Picture)
