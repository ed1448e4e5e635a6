"""When garbage is looked for: not while someone works.

Python looks through all objects of a program now and then, and with ten thousand photos on the list that holds the app
up for a tenth of a second. What the app was built from is therefore never looked through, and the rest only while no
key is pressed.
"""

import gc

PAUSE = 2.0
"""Seconds without a key or a click after which nobody waits."""
AWAY = 15.0
"""The same while work is under way, whose progress someone may watch."""
ENOUGH = 10
"""Small collections that make a full one worth its time."""
NEVER = 1_000_000


def begin() -> None:
    """Set aside all that there is, and look for garbage among young objects only."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], NEVER)
    gc.enable()


def collect(seconds_idle: float, *, is_working: bool) -> bool:
    """Collect everything, and set aside what is left, if nobody waits and it is worth it; returns whether it was."""
    if seconds_idle < (AWAY if is_working else PAUSE) or gc.get_count()[2] < ENOUGH:
        return False
    gc.collect()
    gc.freeze()
    return True
