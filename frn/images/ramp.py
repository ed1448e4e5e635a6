"""Colour ramp for errors, without numpy: the app's legend needs it before heavy imports."""

RAMP = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))
"""Colours from the smallest error to the largest; lightness increases throughout, so it also works without colour."""
