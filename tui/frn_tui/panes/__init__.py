"""Panes of the workspace: each owns its widgets, the actions of its keys, and the messages of its widgets."""
