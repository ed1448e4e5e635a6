"""Bars drawn with characters."""

EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, *, rest: str = " ") -> str:
    """A bar over `share` of `width` cells; `rest` is the character up to the full width."""
    share = min(max(share, 0.0), 1.0) if share == share else 0.0  # NaN is not equal to itself
    whole, eighths = divmod(round(8 * share * width), 8)
    return ("█" * whole + EIGHTHS[eighths].strip()).ljust(width, rest)
