"""A minimal Textual app, for comparison with the measured app."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Hello(App[None]):
    """Says hello."""

    def compose(self) -> ComposeResult:
        yield Static("Hello, world")


if __name__ == "__main__":
    Hello().run()
