"""Draw moths for tests; they are saved beside this file."""

from pathlib import Path

import numpy as np

from frn.data.synthetic import Species, draw_moth

SPECIES = {  # similar species of one genus, with the same colours but different markings and shapes
    name: Species((222, 190, 128), (88, 52, 40), *numbers)
    for name, numbers in {
        "banded footman": (0.78, 0.40, 0.00, 0, 0.10, False, 3, 0.25, 0.00, False),
        "bordered footman": (0.76, 0.38, 0.00, 0, 0.10, False, 0, 0.00, 0.12, False),
        "eyed footman": (0.78, 0.42, 0.00, 1, 0.17, True, 0, 0.00, 0.00, True),
        "four-spot footman": (0.77, 0.40, 0.00, 2, 0.09, False, 0, 0.00, 0.00, False),
        "swallow footman": (0.74, 0.62, 0.45, 0, 0.10, False, 1, -0.30, 0.00, False),
        "tailed footman": (0.80, 0.40, 0.45, 2, 0.09, True, 0, 0.00, 0.05, False),
    }.items()
}
SHOTS, QUERIES = 5, 3

here = Path(__file__).parent
(here / "queries").mkdir(parents=True, exist_ok=True)
for label, (name, kind) in enumerate(SPECIES.items()):
    (here / "moths" / name).mkdir(parents=True, exist_ok=True)
    for number in range(1, SHOTS + QUERIES + 1):
        moth = draw_moth(kind, np.random.default_rng([2021, label, number]), 128)
        place = f"moths/{name}/{number}.jpg" if number <= SHOTS else f"queries/{name} {number}.jpg"
        moth.save(here / place, quality=88)
