"""Garbage collection while the user is idle.

A full collection visits all objects; with ten thousand photos listed, that blocks the app for a tenth of a second.
Objects from startup are therefore frozen, and full collections run only while no key is pressed.
"""

import gc

IDLE = 2.0
"""Seconds without a key or click after which the user counts as idle."""


def begin() -> None:
    """Freeze all existing objects and restrict collections to young ones."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    gc.enable()


def collect(seconds_idle: float) -> bool:
    """Run a full collection and freeze the rest if the user is idle and it is worthwhile; return whether it ran."""
    # Minimum number of small collections before a full one is worthwhile
    if seconds_idle < IDLE or gc.get_count()[2] < 10:
        return False
    gc.collect()
    gc.freeze()
    return True
