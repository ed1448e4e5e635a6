"""Opening a photo in a program outside the terminal."""

import os
import subprocess
import sys
from collections.abc import Mapping

from frn.errors import FrnError

OVERRIDE = "FRN_VIEWER"
OPENERS = {"win32": "explorer", "darwin": "open"}


def viewer_command(path: str, environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> list[str]:
    """Return the program that shows photos: $FRN_VIEWER, or the system's default. Raises FrnError without a desktop."""
    chosen = environment.get(OVERRIDE) or OPENERS.get(platform)
    if not chosen and not environment.get("DISPLAY") and not environment.get("WAYLAND_DISPLAY"):
        raise FrnError(f"no desktop to show a photo; set ${OVERRIDE} to a program that works without one")
    return [chosen or "xdg-open", path]


def show(path: str) -> None:
    """Start the viewer detached: it outlives the app and has no output."""
    command = viewer_command(path)
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError as error:
        raise FrnError(
            f"{command[0]}: cannot be started ({error.strerror}); set ${OVERRIDE} to another program"
        ) from error
