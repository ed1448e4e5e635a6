"""The one exception that is shown to people."""


class FrnError(ValueError):
    """Something a person can fix: the message says what, where, how much, and what to do."""
