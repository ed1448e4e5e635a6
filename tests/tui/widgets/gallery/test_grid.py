from frn_tui.widgets.gallery import SMALL_TILE, Grid, tiled
from textual.geometry import Region, Size

TEN = Grid(10, 4, Size(17, 9))  # 4 + 4 + 2


def test_each_item_is_found_at_its_position() -> None:
    assert TEN.height == 27
    for index in range(TEN.count):
        region = TEN.region(index)
        for x, y in (region.offset, region.bottom_right - (1, 1)):
            assert TEN.at(x, y) == index
    assert TEN.region(5) == Region(17, 9, 17, 9)


def test_photos_of_all_classes_fill_a_page_with_sixty() -> None:
    grid = tiled(1000, Size(135, 37), least=SMALL_TILE)
    assert grid.columns * (37 // grid.pitch.height) >= 60
    few = tiled(6, Size(135, 37), least=SMALL_TILE)
    assert few.height <= 37
    assert few.pitch.height > 10
