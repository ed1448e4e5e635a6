"""Where the app keeps what outlives it."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Where journals and settings live: $FRN_STATE, or the user's folder for such things."""
    if override := os.environ.get("FRN_STATE"):
        return Path(override)
    from platformdirs import user_state_path

    return user_state_path("frn", appauthor=False)
