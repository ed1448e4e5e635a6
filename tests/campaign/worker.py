"""`python -m tests.campaign.worker PART SEED FIRST COUNT KEEP`: print a line when ready, then a JSON line per case."""

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from inspect import get_annotations, isfunction
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from tests import nursery
from tests.campaign import archives, files, images, own_files
from tests.campaign.campaign import Part

PARTS: dict[str, Callable[[], Part]] = {
    name.replace("_", " "): make
    for module in (images, files, archives, own_files)
    for name, make in vars(module).items()
    if isfunction(make) and get_annotations(make).get("return") is Part
}
"""Kinds of files, and the functions that make their valid files, which takes time, and read damaged ones."""


def main() -> None:
    name, seed, first, count, keep = sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5])
    nursery.use()
    part = PARTS[name]()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write("\n")  # ready for cases
    answers.flush()
    for case in range(first, count):
        data = part.make(np.random.default_rng([seed, case]))
        event, began = {"what": "answered"}, time.monotonic()
        with tempfile.TemporaryDirectory(prefix="frn-campaign-") as folder:
            try:
                part.door(data, Path(folder))
            except FrnError as error:
                is_line = len(str(error).splitlines()) == 1
                event = {"what": "refused"} if is_line else {"what": "crashed", "kind": f"not a line: {error!r}"[:99]}
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                event = {"what": "crashed", "kind": f"{type(error).__name__} in {Path(last.filename).name}:{last.name}"}
        seconds = time.monotonic() - began
        if event["what"] == "crashed" or seconds > 5:
            (keep / f"{name}-{seed}-{case}-{event.get('kind', 'slow')[:40].replace('/', '_')}").write_bytes(data)
        answers.write(json.dumps({**event, "seconds": round(seconds, 3)}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
