"""Whatever ran before, the same question gets the same answer.

`pytest -m campaign tests/campaign/test_history.py` runs 2,000 histories; `FRN_CAMPAIGN` and `FRN_SEED` work as in
`test_campaign`. A failure prints the shortest history that still differs.
"""

from pathlib import Path

import pytest

from tests.campaign.history import Step, difference, draw_history, quick, shortened
from tests.campaign.test_campaign import SEED, SHARE

NEW_HEAD: list[Step] = [
    ("enroll", 5), ("change_head", 2), ("clear_caches", 0), ("doors_agree", 0), ("classify", 0)
]  # fmt: skip
MISSING: list[Step] = [("enroll", 5), ("remove_photos", 2), ("library", 2)]
"""Shortest histories in which a project's head changed the answers of its folder, and missing photos still counted."""
UNSEARCHED = [draw_history(7324)[number] for number in (0, 1, 3)]
"""The app searches for subjects, then no longer; the examples stay the same."""
MOVED = [draw_history(20235)[number] for number in (0, 2, 4, 6)]
"""A photo's file is replaced by no photo, and another class's photo by its content."""


@pytest.fixture(autouse=True)
def private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FRN_STATE", "FRN_CACHE", "FRN_MODELS"):  # restored afterwards
        monkeypatch.setenv(name, str(tmp_path))
    quick(monkeypatch)


@pytest.mark.parametrize(
    "history",
    [
        NEW_HEAD,
        MISSING,
        UNSEARCHED,
        *map(draw_history, (1, 4, 1842, 3225)),
        draw_history(1054)[:3],
        draw_history(6285)[:5],
    ],
)
def test_answers_do_not_depend_on_what_ran_before(history: list[Step], tmp_path: Path) -> None:
    assert not difference(history, tmp_path / "world")


@pytest.mark.campaign
def test_answers_of_random_histories_do_not_depend_on_what_ran_before(tmp_path: Path) -> None:
    home, count = tmp_path / "world", max(1, round(2_000 * SHARE))
    for seed in range(SEED * count, (SEED + 1) * count):
        history = draw_history(seed)
        if found := difference(history, home):
            shortest = shortened(history[: int(found.split(",")[0].removeprefix("step "))], home)
            pytest.fail(f"history {seed}: {shortest}: {difference(shortest, home)}")
