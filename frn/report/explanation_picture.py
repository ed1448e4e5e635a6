"""Picture of an explanation: the deciding parts of a photo, beside the example parts that each was rebuilt from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from frn.features.extractor import Extractor
from frn.images.boxes import split_box
from frn.images.opening import decode_preview, read_file
from frn.inference.explanation import Box, Explanation
from frn.report.heat_maps import Font, fit

SHOWN = 448  # least side in pixels of the crops that parts are cut from
TILE, GAP, LINE, SAID = 104, 10, 20, 66
PHOTO = 476
Colour = tuple[int, int, int]
INK, FAINT, PAPER, FOR, AGAINST = (20, 20, 20), (105, 105, 105), (255, 255, 255), (214, 78, 0), (96, 70, 170)
SMALL, FONT, BIG = ImageFont.load_default(13), ImageFont.load_default(15), ImageFont.load_default(19)


class Crops:
    """Opens the network's crops of photos for display, each once."""

    def __init__(self, extractor: Extractor, least: int = SHOWN) -> None:
        """Show crops with at least `least` pixels a side."""
        finer = -(-least // extractor.transform.size)
        self._transform, self.grid = extractor.transform, extractor.grid
        side, length = (finer * pixels for pixels in (self._transform.size, self._transform.length))
        self._shown = replace(self._transform, size=side, resize=length)
        self._opened: dict[Path, tuple[Image.Image, tuple[int, int]]] = {}

    def __call__(self, path: Path) -> Image.Image:
        """Return the crop of a photo. Raises FrnError if the photo cannot be read."""
        if path not in self._opened:
            pixels, size = decode_preview(read_file(path), path, self._shown)
            self._opened[path] = Image.fromarray(pixels), size
        return self._opened[path][0]

    def cut(self, path: Path, box: Box) -> Image.Image:
        """Return a part of a photo. Raises FrnError if the photo cannot be read."""
        crop = self(path)
        left, top, width, height = (round(edge * crop.width) for edge in box.within(self.grid))
        return crop.crop((left, top, left + width, top + height))

    def in_pixels(self, path: Path, box: Box) -> tuple[int, int, int, int]:
        """Return the left and top edge, width and height of a part in pixels of the upright photo."""
        self(path)
        wide, high = self._opened[path][1]
        left, top, right, bottom = self._transform.seen((wide, high))
        x, y, width, height = box.within(self.grid)
        across, down = wide * (right - left), high * (bottom - top)
        first_x, first_y = (split_box(path)[1] or (0, 0))[:2]
        start = first_x + round(wide * left + x * across), first_y + round(high * top + y * down)
        return *start, round(width * across), round(height * down)


def around(box: Box, grid: tuple[int, int], side: float = 0.5) -> Box:
    """Return a box of `side` of the grid with the same centre, moved into the grid."""
    (h, w), (high, wide) = grid, (max(1, -int(-side * length // 1)) for length in grid)
    x = min(max(0, (2 * box.x + box.width - wide + 1) // 2), w - wide)
    y = min(max(0, (2 * box.y + box.height - high + 1) // 2), h - high)
    return Box(x, y, wide, high)


def draw(
    explanation: Explanation, photo: Path, crops: Crops, sentence: str, shown: Callable[[str], str]
) -> Image.Image:
    """Draw the photo with its deciding parts, and a row for each part; `shown` makes names printable.

    Raises FrnError if a photo cannot be read.
    """
    parts, grid = explanation.parts(), crops.grid
    classes = [one for one in (explanation.best, explanation.other) if one is not None]
    block, left, top, row = 3 * (TILE + GAP) + SAID, PHOTO + 4 * GAP, 4 * LINE + GAP, TILE + LINE + GAP
    columns = [left + TILE + 3 * GAP + number * (block + 2 * GAP) for number in range(len(classes))]
    size = columns[-1] + block, top + max(PHOTO + GAP, len(parts) * row)
    canvas = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(canvas)

    def write(x: int, y: int, text: str, width: int, ink: Colour = FAINT, font: Font = FONT) -> None:
        pen.text((x, y), fit(text, width, font), ink, font)

    def tile(path: Path, box: Box, x: int, y: int) -> None:
        canvas.paste(crops.cut(path, box).resize((TILE, TILE), Image.Resampling.LANCZOS), (x, y))

    for number, line in enumerate(_lines(f"{sentence}.", size[0] - 2 * GAP)):
        write(GAP, GAP + number * (LINE + 2), line, size[0] - 2 * GAP, INK, BIG)
    write(GAP, top - LINE, shown(photo.name), PHOTO)
    canvas.paste(crops(photo).resize((PHOTO, PHOTO), Image.Resampling.LANCZOS), (GAP, top))
    write(left, top - LINE, "part", TILE)
    for x, one in zip(columns, classes, strict=True):
        write(x, top - LINE, f"rebuilt from {shown(one.name)}", block, INK if x == columns[0] else FAINT)
    for number, part in enumerate(parts, 1):
        colour, y, context = FOR if part.share > 0 else AGAINST, top + (number - 1) * row, around(part.box, grid)
        tile(photo, context, left, y)
        inside = Box(part.box.x - context.x, part.box.y - context.y, part.box.width, part.box.height)
        _frame(pen, part.box.within(grid), PHOTO, (GAP, top), colour, number)
        _frame(pen, inside.within((context.height, context.width)), TILE, (left, y), colour)
        write(left, y + TILE + 2, f"{number} decides {part.share:.0%}", TILE, colour, SMALL)
        for x, one in zip(columns, classes, strict=True):
            for place, source in enumerate(one.sources(part.box)):
                along = x + place * (TILE + GAP)
                tile(source.photo.path, source.box, along, y)
                write(
                    along, y + TILE + 2, f"{source.share:.0%} from {shown(source.photo.path.name)}", TILE, FAINT, SMALL
                )
            along = x + 3 * (TILE + GAP)
            write(along, y + TILE // 2 - LINE, f"{one.explained(part.box):.0%}", SAID, INK, BIG)
            write(along, y + TILE // 2 + 4, "explained", SAID, FAINT, SMALL)
    return canvas


def _lines(text: str, width: int) -> list[str]:
    """Break a text between words into at most two lines; the second may be too long."""
    words = text.split(" ")
    first = max(1, *(n for n in range(len(words) + 1) if BIG.getlength(" ".join(words[:n])) <= width))
    return [" ".join(part) for part in (words[:first], words[first:]) if part]


def _frame(
    pen: ImageDraw.ImageDraw,
    box: tuple[float, ...],
    side: int,
    place: tuple[int, int],
    colour: Colour,
    number: int | None = None,
) -> None:
    """Draw the frame of a part, which stands out from light and dark photos, and its number."""
    x, y, width, height = (round(side * edge) for edge in box)
    left, top = place[0] + x, place[1] + y
    for inset, ink in enumerate((PAPER, colour, colour, colour) if number else (PAPER, colour)):
        pen.rectangle(
            (left + inset, top + inset, left + width - 1 - inset, top + height - 1 - inset), outline=ink, width=1
        )
    if number:
        pen.rectangle((left, top, left + 22, top + 22), fill=colour)
        pen.text((left + 11, top + 11), str(number), PAPER, FONT, anchor="mm")
