"""Folders, projects and bundles: everything the engine reads or writes for the app."""
