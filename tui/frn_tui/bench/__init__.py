"""How fast the app is: what `frn bench tui` measures, on a pseudo-terminal and beside Textual's hello-world."""
