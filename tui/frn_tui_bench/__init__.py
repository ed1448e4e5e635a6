"""The app measured beside its targets: `frn bench tui`, from a checkout of the repository."""
