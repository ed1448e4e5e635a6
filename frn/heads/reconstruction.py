"""The public names of the closed form (Eq. 4, 8, 10); it lives in `frn.ridge.reconstruction`."""

from frn.ridge.reconstruction import location_error, reconstruct

__all__ = ["location_error", "reconstruct"]
