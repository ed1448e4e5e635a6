"""Widgets of the screens: they receive plain values and post messages, without using the engine."""
