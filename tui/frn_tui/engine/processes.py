"""Which app a process number means: numbers are given again."""

import os
from pathlib import Path


def lives(process: int, born: object) -> bool:
    """Whether a process runs, and is not another one with the same number."""
    if os.name == "nt":  # there a signal 0 would end it
        return process == os.getppid()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return born is None or born == birth(process)


def birth(process: int) -> str | None:
    """When a process began, in the system's own count; None where that cannot be known."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
