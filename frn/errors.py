"""The exception and the warning that are shown to users."""


class FrnError(ValueError):
    """An error that the user can fix: the message says what is wrong, where, and what to do."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code  # kind of failure, for code that handles it: "exists" if a file would be overwritten


class FrnWarning(UserWarning):
    """A warning that the user should see, although the work continues."""


def shorten(text: object, width: int = 160) -> str:
    """Shorten the text of an error or an untrusted file to fit into one line; use its type if it is empty."""
    line = " ".join(str(text).split()) or type(text).__name__
    return line if len(line) <= width else line[: width - 1] + "…"
