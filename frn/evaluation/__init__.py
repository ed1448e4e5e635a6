"""Accuracy over random episodes."""
