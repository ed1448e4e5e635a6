"""When Python collects garbage: not while someone works.

A full collection visits all objects of a program; with ten thousand photos on the list that holds the app up for a
tenth of a second. The objects of the start are therefore frozen, and the rest collected only while no key is pressed.
"""

import gc

IDLE = 2.0
"""Seconds without a key or a click after which nobody waits."""
IDLE_WHILE_WORKING = 15.0
"""The same while work is under way, whose progress someone may watch."""
MIN_SMALL_COLLECTIONS = 10
"""Small collections that make a full one worth its time."""
NEVER = 1_000_000


def begin() -> None:
    """Freeze all that there is, and collect among young objects only."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], NEVER)
    gc.enable()


def collect(seconds_idle: float, *, is_working: bool) -> bool:
    """Collect everything and freeze what is left, if nobody waits and it is worth it; returns whether it was."""
    patient = seconds_idle >= (IDLE_WHILE_WORKING if is_working else IDLE)
    if not patient or gc.get_count()[2] < MIN_SMALL_COLLECTIONS:
        return False
    gc.collect()
    gc.freeze()
    return True
