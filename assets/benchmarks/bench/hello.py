"""The least that a Textual app can be: what the app is measured beside."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Hello(App[None]):
    """Says hello."""

    def compose(self) -> ComposeResult:
        yield Static("Hello, world")


if __name__ == "__main__":
    Hello().run()
