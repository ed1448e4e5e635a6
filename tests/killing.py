"""Kill programs at a chosen moment: the fork ends at its nth file operation."""

import os
from collections.abc import Callable
from typing import Any

from frn_tui.engine.files import placing

from tests.forks import ended, fork

KILLED = 9
STEPS = ("open", "write", "utime", "rename", "replace", "link", "unlink", "fsync", "mkdir", "rmdir")


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run a function in a fork that ends silently before file operation `step`; return False if there are fewer."""

    def doomed() -> None:
        left = [step]

        def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(KILLED)
                return call(*args, **options)

            return called

        for name in STEPS:
            setattr(os, name, deadly(getattr(os, name)))
        placing.rename_no_replace = deadly(placing.rename_no_replace)
        work()

    status = ended(fork(doomed))
    assert status in (0, KILLED), status
    return status == KILLED
