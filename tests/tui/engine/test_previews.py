"""Photos drawn as cells: the whole frame, the part that the network sees, and the error map over it."""

import base64
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frn_tui.client.protocol import Heat, parse
from frn_tui.engine.pictures import previews
from frn_tui.engine.pictures.encoding import draw_frame
from frn_tui.engine.pictures.previews import NO_MODEL, fit, paint
from frn_tui.engine.worker_queues import Job, serve
from frn_tui.terminal.modes import FRAME
from frn_tui.terminal.rendered_picture import Box
from PIL import Image

from frn.images.opening import decode_whole
from tests.tui.engine.conftest import Engine, Message

HEAT: Message = {"map": [[0.0] * 4] * 3 + [[1.0] * 4], "low": 0.0, "high": 1.0, "smooth": False}


def cells(answer: Message) -> np.ndarray[Any, Any]:
    """Cells of an image, (rows, columns, 6)."""
    data = np.frombuffer(base64.b64decode(answer["cells"]), dtype=np.uint8)
    return data.reshape(answer["rows"], answer["columns"], 6)


def pixels(encoded: bytes, columns: int) -> np.ndarray[Any, Any]:
    """Return the colours of the halves of the cells, (2 * rows, columns, 3)."""
    found = np.frombuffer(encoded, dtype=np.uint8).reshape(-1, columns, 2, 3)
    return found.transpose(0, 2, 1, 3).reshape(-1, columns, 3)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """An image that goes from red on the left through green to blue on the right."""
    path, picture = tmp_path / "wide.png", Image.new("RGB", (400, 100), (0, 200, 0))
    picture.paste((200, 0, 0), (0, 0, 50, 100))
    picture.paste((0, 0, 200), (350, 0, 400, 100))
    picture.save(path)
    return path


def test_a_preview_is_the_whole_frame_of_the_file(engine: Engine, wide: Path) -> None:
    answer = engine.done("preview", path=str(wide), columns=40, rows=20)
    assert (answer["columns"], answer["rows"]) == (40, 5)
    seen = pixels(base64.b64decode(answer["cells"]), 40)
    assert seen[5, 0].tolist() == pytest.approx([200, 0, 0], abs=4)
    assert seen[5, 20].tolist() == pytest.approx([0, 200, 0], abs=4)
    assert seen[5, 39].tolist() == pytest.approx([0, 0, 200], abs=4)
    assert answer["crop"][0] > 0
    of_views = engine.done("preview", path=str(wide), columns=40, rows=20, views=True)
    assert of_views["crop"] == [0, 0, 1, 1]


def test_a_preview_that_is_cancelled_while_its_photo_is_decoded_is_not_drawn(
    bare: Engine, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(data: bytes, path: Path, side: int) -> Any:
        job.cancelled.set()
        return decode_whole(data, path, side)

    sent: list[Any] = []
    monkeypatch.setattr(previews, "decode_whole", decode)
    job = Job(1, parse({"op": "preview", "path": str(wide), "columns": 4, "rows": 2}), sent.append)
    serve(bare.handlers["preview"], job)
    assert sent == [{"id": 1, "end": "cancelled"}]


def test_zoomed_preview_stays_within_the_photo(bare: Engine, wide: Path) -> None:
    answer = bare.done("preview", path=str(wide), columns=40, rows=20, zoom=4.0, centre=[0.0, 0.5])
    assert answer["view"] == [0.0, 0.0, 0.25, 1.0]
    seen = pixels(base64.b64decode(answer["cells"]), 40)
    assert seen.shape[:2] == (40, 40)
    assert seen[20, 15].tolist() == pytest.approx([200, 0, 0], abs=4)
    assert seen[20, 25].tolist() == pytest.approx([0, 200, 0], abs=4)


def test_the_map_covers_exactly_what_the_network_sees() -> None:
    photo = np.full((80, 160, 3), 120, np.uint8)
    box = (0.25, 0.0, 0.75, 1.0)
    heat: Heat = {"map": [[0.0, 1.0], [0.0, 0.0]], "low": 0.0, "high": 1.0, "smooth": False}
    blend = paint(photo, heat, box, bare=False)
    changed = (blend != photo).any(2)
    assert changed[:40, 80:120].all()
    assert np.abs(blend[0, 80] - (0.2 * 120 + 0.8 * np.array([252, 255, 164]))).max() <= 0.5
    assert changed.sum() == 40 * 40  # explained places show the unchanged photo
    bare = paint(photo, heat, box, bare=True)
    assert (bare[:, 40:120].reshape(-1, 3) == [252, 255, 164]).all(1).sum() == 40 * 40
    assert bare[0, 0].tolist() == bare[79, 159].tolist() == [36, 36, 36]
    smooth = paint(photo, {**heat, "smooth": True}, box, bare=True).astype(int).sum(2)
    assert (np.diff(smooth[10, 41:119]) >= 0).all()
    assert len(np.unique(smooth[10, 40:120])) > 20


@pytest.mark.parametrize("size", [(400, 100), (120, 360)])
@pytest.mark.parametrize("centre", [(0.5, 0.5), (0.35, 0.6), (0.6, 0.45)])
@pytest.mark.parametrize("zoom", [1.0, 3.0])
def test_each_location_of_the_map_is_drawn_in_the_right_place(
    bare: Engine, tmp_path: Path, size: tuple[int, int], centre: tuple[float, float], zoom: float
) -> None:
    Image.new("RGB", size, (120, 120, 120)).save(tmp_path / "x.png")
    errors = np.random.default_rng(1).integers(0, 2, (3, 5)).astype(float)
    heat: Message = {"map": errors.tolist(), "low": 0.0, "high": 1.0, "smooth": False}
    where: Message = {"columns": 60, "rows": 40, "zoom": zoom, "centre": list(centre)}
    answer = bare.done("preview", path=str(tmp_path / "x.png"), look="map", heat=heat, **where)
    shown = pixels(base64.b64decode(answer["cells"]), answer["columns"])
    height, width = shown.shape[:2]
    (left, top, right, bottom), view = NO_MODEL.seen(size), answer["view"]
    checked = 0
    for y, x in np.ndindex(height, width):
        photo_x = view[0] + (x + 0.5) / width * (view[2] - view[0])
        photo_y = view[1] + (y + 0.5) / height * (view[3] - view[1])
        row, column = (photo_y - top) / (bottom - top) * 3, (photo_x - left) / (right - left) * 5
        if min(abs(row - round(row)), abs(column - round(column))) < 0.2:
            continue  # at a boundary, both are possible
        inside = 0 <= row < 3 and 0 <= column < 5
        expected = [36, 36, 36] if not inside else [252, 255, 164] if errors[int(row), int(column)] else [0, 0, 4]
        assert shown[y, x].tolist() == expected, (x, y)
        checked += inside
    assert checked > 50


@pytest.mark.parametrize(
    ("subject", "part"),
    [
        ([20, 10, 40, 40], (20, 10, 60, 50)),
        ([60, 20, 80, 80], (60, 20, 100, 60)),  # reaches beyond the photo
        ([5, 5, 1, 1], (5, 5, 6, 6)),
    ],
)
def test_the_crop_of_a_subject_lies_inside_it(
    bare: Engine, tmp_path: Path, subject: list[int], part: tuple[int, int, int, int]
) -> None:
    Image.new("RGB", (100, 60)).save(tmp_path / "x.png")
    answer = bare.done("preview", path=str(tmp_path / "x.png"), columns=60, rows=40, subject=subject)
    left, top, right, bottom = part
    margin = (right - left) * (1 - 84 / 92) / 2  # the network sees 84 of 92 pixels of each side
    inside = ((left + margin) / 100, (top + margin) / 60, (right - margin) / 100, (bottom - margin) / 60)
    assert answer["crop"] == pytest.approx(inside)


@pytest.mark.parametrize(("mode", "lines"), [("kitty", 100 * 60 - 96 * 56), ("half", 4 * (7 + 7 - 1))])
def test_the_frame_is_around_the_subject_or_else_around_what_the_network_sees(
    bare: Engine, tmp_path: Path, mode: str, lines: int
) -> None:
    Image.new("RGB", (160, 80)).save(path := tmp_path / "x.png")
    columns, rows = (16, 4) if mode == "kitty" else (160, 40)
    where: Message = {"path": str(path), "columns": columns, "rows": rows, "cell": [10, 20], "mode": mode}
    for subject in ([20, 10, 100, 60], []):
        answer = bare.done("preview", **where, subject=subject, framed=True)
        if mode == "kitty":
            drawn = np.frombuffer(zlib.decompress(base64.b64decode(answer["data"])), np.uint8).reshape(80, 160, 3)
        else:
            drawn = pixels(base64.b64decode(answer["cells"]), columns)
        y, x = np.nonzero(drawn.any(2))
        box = (0.125, 0.125, 0.75, 0.875) if subject else answer["crop"]
        edges = [x.min() / 160, y.min() / 80, (x.max() + 1) / 160, (y.max() + 1) / 80]
        assert edges == pytest.approx(box, abs=0.01)
        assert len(y) == lines or not subject
    assert not np.frombuffer(
        base64.b64decode(bare.done("preview", **where | {"mode": "half"})["cells"]), np.uint8
    ).any()


FRAMES = [
    (0.2, 0.25, 0.8, 0.75),
    (-0.5, 0.25, 0.5, 1.0),
    (0.5, -0.1, 1.5, 0.5),
    (0.0, 0.0, 1.0, 1.0),
    (0.01, 0.01, 1.0, 0.99),
    (-0.5, -0.5, -0.1, -0.1),
    (0.2, -0.5, 0.8, 0.0),
]


@pytest.mark.parametrize("part", FRAMES)
def test_frame_is_drawn_two_pixels_inside_the_visible_part(part: Box) -> None:
    width, height = 40, 20
    left, top, right, bottom = (round(share * side) for share, side in zip(part, (width, height) * 2, strict=True))
    framed = draw_frame(np.full((height, width, 3), 7, np.uint8), part, 2)
    for y, x in np.ndindex(height, width):
        sides = (
            (part[0] > 0, x - left),
            (part[2] < 1, right - 1 - x),
            (part[1] > 0, y - top),
            (part[3] < 1, bottom - 1 - y),
        )
        is_inside = left <= x < right and top <= y < bottom
        is_line = is_inside and any(ends and 0 <= distance < 2 for ends, distance in sides)
        assert framed[y, x].tolist() == (list(FRAME) if is_line else [7, 7, 7]), (x, y)


def test_kitty_image_respects_its_pixel_limit_and_aspect_ratio(bare: Engine, wide: Path) -> None:
    arguments: Message = {"path": str(wide), "columns": 400, "rows": 100, "mode": "kitty"}
    small = bare.done("preview", **arguments, cell=[4, 8])
    assert small["pixels"] == [1600, 400]
    large = bare.done("preview", **arguments, cell=[16, 32])  # the area has 6400 x 1600 pixels
    width, height = large["pixels"]
    assert width * height == pytest.approx(1_500_000, rel=0.002)
    assert width / height == pytest.approx(4, rel=0.002)
    assert len(zlib.decompress(base64.b64decode(large["data"]))) == 3 * width * height
    sixel = bare.done("preview", **(arguments | {"columns": 137, "rows": 40, "mode": "sixel"}), cell=[14, 20])
    assert sixel["pixels"] == [1918, 480]
    assert [row.count("\t") for row in sixel["data"].split("\n")] == [2] * 24  # pieces of up to 68 cells


@pytest.mark.parametrize(("room", "zoom"), [((100, 8), 1.0), ((12, 6), 8.0)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_preview_is_as_sharp_as_its_area(
    bare: Engine, tmp_path: Path, room: tuple[int, int], zoom: float, turned: bool
) -> None:
    stripes = np.zeros((100, 1600), np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 255
    Image.fromarray(stripes.T if turned else stripes).save(path := tmp_path / "stripes.png")
    columns, rows = reversed(room) if turned else room
    cell = [16, 16]
    answer = bare.done("preview", path=str(path), columns=columns, rows=rows, zoom=zoom, cell=cell, mode="kitty")
    width, height = answer["pixels"]
    shown = np.frombuffer(zlib.decompress(base64.b64decode(answer["data"])), np.uint8).reshape(height, width, 3)
    assert shown.std() > 80


def test_preview_of_a_changed_file_is_made_again(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    seen: list[list[int]] = []
    for colour in ("red", "blue"):
        Image.new("RGB", (90, 90), colour).save(path)
        os.utime(path, ns=(0, len(seen)))
        seen.append(cells(bare.done("preview", path=str(path), columns=2, rows=1))[0, 0, :3].tolist())
    assert seen == [[255, 0, 0], [0, 0, 255]]


def test_images_are_dithered_to_the_available_colours(bare: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    Image.new("RGB", (64, 64), (100, 150, 60)).save(path)
    found = {}
    for palette in ("256", "greys"):
        drawn = cells(bare.done("preview", path=str(path), columns=16, rows=8, palette=palette))
        found[palette] = drawn.reshape(-1, 3)
    assert set(found["greys"].ravel().tolist()) <= {0, 128, 192, 255}
    assert (found["greys"].std(axis=1) == 0).all()
    assert set(found["256"].ravel().tolist()) <= {0, 95, 135, 175, 215, 255, *range(8, 239, 10)}
    assert np.abs(found["256"].mean(0) - (100, 150, 60)).max() < 8  # dithering keeps the mean colour


WHOLE = (0.0, 1.0)


@pytest.mark.parametrize(
    ("size", "zoom", "centre", "shown", "view"),
    [
        ((400, 100), 1.0, [0.5, 0.5], (40, 5), (WHOLE, WHOLE)),
        ((400, 100), 4.0, [0.5, 0.5], (40, 20), ((0.375, 0.625), WHOLE)),
        ((400, 100), 5.0, [0.3, 0.45], (40, 20), ((0.2, 0.4), (0.05, 0.85))),
        ((400, 100), 5.0, [0.0, 1.0], (40, 20), ((0.0, 0.2), (0.2, 1.0))),
        ((1000, 1), 1.0, [0.5, 0.5], (40, 1), (WHOLE, WHOLE)),
        ((1, 1000), 1.0, [0.5, 0.5], (1, 20), (WHOLE, WHOLE)),
        ((100, 100), 1.5, [0.5, 0.5], (40, 20), ((1 / 6, 5 / 6), (1 / 6, 5 / 6))),
        ((800, 50), 1.5, [0.5, 0.5], (40, 2), ((1 / 6, 5 / 6), WHOLE)),
    ],
)
def test_place_of_a_photo_in_forty_columns_and_twenty_rows(
    size: tuple[int, int],
    zoom: float,
    centre: list[float],
    shown: tuple[int, int],
    view: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    *cells, visible = fit(size, (40, 20), (1, 2), zoom, centre)
    assert tuple(cells) == shown
    (left, right), (top, bottom) = view
    assert visible == pytest.approx((left, top, right, bottom))


def test_map_is_drawn_only_if_it_is_there_and_wanted(bare: Engine, wide: Path) -> None:
    looks = [
        cells(bare.done("preview", path=str(wide), columns=40, rows=20, look=look, heat=heat)).tolist()
        for look, heat in (("photo", None), ("photo", HEAT), ("map", None), ("blend", HEAT), ("map", HEAT))
    ]
    assert looks[0] == looks[1] == looks[2]
    assert looks[3] not in (looks[0], looks[4])
