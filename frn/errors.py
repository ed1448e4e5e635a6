"""The one exception, and the one warning, that are shown to people."""


class FrnError(ValueError):
    """Something a person can fix: the message says what, where, how much, and what to do."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """Names the failure for a caller that continues differently: "exists" where a file would be overwritten."""


class FrnWarning(UserWarning):
    """Something a person should know, though the work continues."""


def shorten(text: object, width: int = 160) -> str:
    """Return the text of a library's error or an untrusted file as part of one line; its type if it is empty."""
    line = " ".join(str(text).split()) or type(text).__name__
    return line if len(line) <= width else line[: width - 1] + "…"
