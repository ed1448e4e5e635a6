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


def test_positions_outside_the_items_are_empty() -> None:
    assert TEN.at(4 * 17, 0) is None
    assert TEN.at(2 * 17, 18) is None
    assert TEN.at(0, 27) is None


def test_items_count_as_visible_if_part_of_them_is() -> None:
    assert TEN.within(0, 9) == range(4)
    assert TEN.within(8, 2) == range(8)
    assert TEN.within(9, 9) == range(4, 8)
    assert TEN.within(0, 100) == range(10)
    assert Grid(0, 4, Size(17, 9)).within(0, 100) == range(0)


def test_moving_down_stops_at_the_last_item_and_moving_up_in_the_first_line() -> None:
    assert TEN.below(1, 1) == 5
    assert TEN.below(7, 1) == 9
    assert TEN.below(0, 50) == 9
    assert TEN.below(8, 1) == 8
    assert TEN.below(9, -1) == 5
    assert TEN.below(9, -50) == 1


def test_photos_of_all_classes_fill_a_page_with_sixty() -> None:
    grid = tiled(1000, Size(135, 37), least=SMALL_TILE)
    assert grid.columns * (37 // grid.pitch.height) >= 60
    few = tiled(6, Size(135, 37), least=SMALL_TILE)
    assert few.height <= 37
    assert few.pitch.height > 10
