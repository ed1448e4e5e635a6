"""The one exception, and the one warning, that are shown to people."""


class FrnError(ValueError):
    """Something a person can fix: the message says what, where, how much, and what to do."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """Names the failure for a caller that goes on differently: "exists" where a file would be overwritten."""


class FrnWarning(UserWarning):
    """Something a person should know, though the work goes on."""


def one_line(said: object, most: int = 160) -> str:
    """What an error of a library or a stranger's file says, as a part of a line: its kind where it says nothing."""
    text = " ".join(str(said).split()) or type(said).__name__
    return text if len(text) <= most else text[: most - 1] + "…"
