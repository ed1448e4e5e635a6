"""Pictures as the network sees them."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from frn.images import open_image
from frn.inference.extractor import Extractor
from frn.zoo import shipped_extractors
from tests.tui.engine.conftest import Engine, Message


def pixels(answer: Message) -> np.ndarray[Any, Any]:
    data = np.frombuffer(base64.b64decode(answer["rgb"]), dtype=np.uint8)
    return data.reshape(answer["height"], answer["width"], 3)


def test_a_preview_is_the_crop_that_the_network_sees(engine: Engine, members: dict[str, list[Path]]) -> None:
    path = members["moth 40"][0]
    answer = engine.done("preview", path=str(path), width=32, height=32, heat=None)
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    np.testing.assert_array_equal(pixels(answer), extractor.transform(open_image(path)))


@pytest.mark.parametrize("size", [(1, 1), (7, 200), (168, 168), (84, 20)])
def test_a_preview_has_the_size_that_was_asked_for(
    bare: Engine, members: dict[str, list[Path]], size: tuple[int, int]
) -> None:
    answer = bare.done("preview", path=str(members["moth 40"][0]), width=size[0], height=size[1], heat=None)
    assert pixels(answer).shape == (size[1], size[0], 3)


def test_heat_covers_the_photo(engine: Engine, members: dict[str, list[Path]]) -> None:
    heat = {"map": [[0.0] * 5] * 4 + [[1.0] * 5], "low": 0.0, "high": 1.0, "smooth": False}
    arguments: Message = {"path": str(members["moth 40"][0]), "width": 84, "height": 84}
    plain, hot = (pixels(engine.done("preview", **arguments, heat=value)) for value in (None, heat))
    assert not np.array_equal(plain, hot)
    assert hot[-1, :, 0].mean() > hot[0, :, 0].mean()
    wrong: Any
    for wrong in (
        [],
        {"map": [[1]]},
        {**heat, "map": [1]},
        {**heat, "map": [["x"]]},
        {**heat, "map": [[float("nan")]]},
    ):
        assert re.search("error map|Heat", engine.ask("preview", **arguments, heat=wrong).reason)


def test_a_preview_of_a_changed_file_is_new(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    seen: list[list[int]] = []
    for colour in ("red", "blue"):
        Image.new("RGB", (90, 90), colour).save(path)
        os.utime(path, ns=(0, len(seen)))
        seen.append(pixels(bare.done("preview", path=str(path), width=1, height=1, heat=None))[0, 0].tolist())
    assert seen == [[255, 0, 0], [0, 0, 255]]


@pytest.mark.parametrize("size", [0, -1, 5000, 1.5, "9", None, True])
def test_a_preview_of_no_size_is_refused(bare: Engine, size: object) -> None:
    assert "whole number" in bare.ask("preview", path="x", width=size, height=3).reason
