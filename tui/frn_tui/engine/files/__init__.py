"""Folders, projects and bundles: all files that the engine reads or writes for the app."""
