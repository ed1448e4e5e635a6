"""Garbage collection, tested in a separate process because it affects the whole process."""

import sys

from tests import processes

PROGRAM = """
import gc, weakref
from frn_tui.terminal import gc_policy

class Knot:
    def __init__(self):
        self.itself = self

def full_looks():
    return gc.get_stats()[2]["collections"]

gc.disable()
gc_policy.begin()
before, knots, seen = full_looks(), [], []
for _ in range(120):  # garbage of every age, and what stays
    knots += [Knot() for _ in range(5_000)]
    seen.append(weakref.ref(knots[0]))
    kept = knots[-10:]
    knots.clear()
assert full_looks() == before, "it was looked for while someone worked"
assert not gc_policy.collect(gc_policy.IDLE / 2), "someone was about to work"
assert gc_policy.collect(gc_policy.IDLE)
assert full_looks() == before + 1
assert not any(ref() for ref in seen), "garbage is left"
assert kept[0].itself is kept[0]
assert not gc_policy.collect(gc_policy.IDLE), "there was nothing to do"
"""


def test_garbage_is_collected_only_when_idle() -> None:
    ran = processes.run([sys.executable, "-c", PROGRAM])
    assert ran.returncode == 0, ran.stderr
