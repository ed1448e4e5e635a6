"""Safe display of external names, and display of fractions as numbers and bars."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice

from rich.cells import cell_len

VARIATION_SELECTORS, JOINER = range(0xFE00, 0xFE10), 0x200D


def display_name(text: str, width: int | None = None) -> str:
    r"""Return a name that is safe to show: control characters are escaped, and a long name is shortened in the middle.

    File names may contain anything: escape sequences, line breaks, marks that reverse the reading direction, bytes that
    are not UTF-8. They are escaped as in Python (`\x1b`, `\n`, `\u202e`, `\xff`). Markup is unchanged: show names as
    `Text` or with `markup=False`. The result has at most `width` cells.
    """
    parts = list(text)
    if not text.isprintable() or not text.isascii():
        parts = [_escaped(char) for char in text]
        text = "".join(parts)
    if width is None or cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    tail = _fitting(parts[::-1], (width - 1) // 2)[::-1]
    head = _fitting(parts, width - 1 - cell_len("".join(tail)))
    return "".join([*head, "…", *tail])


def percent(share: float, decimals: int = 0) -> str:
    return f"{100 * share:.{decimals}f}%"


def share_of(text: str) -> float | None:
    """Return the fraction given by a text in percent, or None if it is not from 0 to 100."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def bar(share: float, width: int, *, rest: str = " ") -> str:
    """Return a bar that fills `share` of `width` cells; `rest` is the character up to the full width."""
    share = min(max(share, 0.0), 1.0) if share == share else 0.0  # NaN is not equal to itself
    full, eighths = divmod(round(8 * share * width), 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[eighths].strip()).ljust(width, rest)


def count_of(count: int, what: str) -> str:
    """Return a count with its noun: "1 photo", "2 photos", "3 classes"."""
    ending = "es" if what.endswith("s") else "s"
    return f"{count:,} {what}{'' if count == 1 else ending}"


def class_keys(names: Iterable[str], width: int) -> str:
    """Return the digits with their classes, such as "1 jay  2 owl", as many as fit into `width` cells."""
    keys = [f"{number} {display_name(name, 16)}" for number, name in enumerate(islice(names, 9), 1)]
    for count in range(len(keys), 0, -1):
        rest = {0: "", 1: f"…{len(keys)}"}.get(len(keys) - count, f"…{count + 1}-{len(keys)}")
        if cell_len(text := "  ".join([*keys[:count], rest]).rstrip()) <= width:
            return text
    return f"1-{len(keys)} of class" if keys else ""


def _escaped(char: str) -> str:
    code = ord(char)
    if code in VARIATION_SELECTORS or code == JOINER:
        return ""  # terminals disagree on their effect on the width of the characters beside them
    if char.isprintable():
        return char
    if char.isspace() and char not in "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that `os.fsdecode` could not decode
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _fitting(parts: list[str], width: int) -> list[str]:
    """Return as many whole parts from the start as fit, because half an escape could be misread."""
    ends = accumulate(map(cell_len, parts))
    return [part for part, end in zip(parts, ends, strict=True) if end <= width]


def fit(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that share some room: as wanted, but the widest ones become narrower."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > 4:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted
