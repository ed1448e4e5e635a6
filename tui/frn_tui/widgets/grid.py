"""Where the items of a grid lie: plain arithmetic."""

from dataclasses import dataclass

from textual.geometry import Region, Size


@dataclass(frozen=True, slots=True)
class Grid:
    """Items in reading order, in lines of equal columns."""

    count: int
    columns: int
    pitch: Size
    """Cells from an item to the next, across and down."""

    @property
    def lines(self) -> int:
        return -(-self.count // self.columns)

    @property
    def height(self) -> int:
        """Of all lines, in cells."""
        return self.lines * self.pitch.height

    def region(self, index: int) -> Region:
        line, column = divmod(index, self.columns)
        return Region(column * self.pitch.width, line * self.pitch.height, *self.pitch)

    def at(self, x: int, y: int) -> int | None:
        column, line = x // self.pitch.width, y // self.pitch.height
        index = line * self.columns + column
        return index if column < self.columns and 0 <= index < self.count else None

    def within(self, top: int, height: int) -> range:
        """Items of which anything lies between two lines of cells."""
        first = top // self.pitch.height * self.columns
        last = -(-(top + height) // self.pitch.height) * self.columns
        return range(first, min(last, self.count))

    def below(self, index: int, lines: int) -> int:
        """The item so many lines further down (up if negative) in the same column.

        Beyond the ends it is the item nearest to there: of the same column at the top, the last one at the bottom.
        """
        target = index + lines * self.columns
        if target < 0:
            return index % self.columns
        if target < self.count:
            return target
        in_last_line = index // self.columns == self.lines - 1
        return index if in_last_line else self.count - 1
