"""The colours of errors, free of numpy: the app's legend shows them before anything heavy is imported."""

RAMP = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))
"""From the least error to the largest; lightness rises all the way, so it reads without colour too."""
