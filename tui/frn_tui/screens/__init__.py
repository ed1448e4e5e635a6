"""Screens over the workspace. Each dialogue returns a value, or None if it is cancelled."""
