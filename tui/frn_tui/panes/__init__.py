"""Panes of the workspace: each owns its widgets, the actions of its keys, and the messages of its widgets.

A pane's `KEYS` work wherever the focus is: the workspace binds them and runs the pane's action.
"""
