"""Widgets of the screens. They are given plain values and answer with messages; none asks the engine."""
