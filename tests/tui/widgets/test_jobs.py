from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.widgets import jobs
from frn_tui.widgets.jobs import JobLine, duration
from textual.app import App

Play = Callable[..., Any]
Lines = Callable[[App[Any]], list[str]]


async def test_progress_is_shown_in_words_and_as_a_bar(play: Play, lines: Lines) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(80, 3))
    job.show("Embedding wren", 23, 31, 1.9)
    await pilot.pause()
    assert lines(pilot.app)[0].rstrip() == " Embedding wren  ████████▉───  23/31 74%  1.9 s left  esc: cancel"
    job.clear()
    await pilot.pause()
    assert not lines(pilot.app)[0].strip()


async def test_a_message_appears_on_the_right_and_disappears(
    play: Play, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(100, 3))
    job.show("Embedding", 1, 2)
    job.say("undo: added 9 images to wren")
    await pilot.pause()
    line = lines(pilot.app)[0]
    assert line.startswith(" Embedding  ██████──────  1/2 50%  esc: cancel ")
    assert line.endswith(" undo: added 9 images to wren ")
    job.clear()
    await pilot.pause()
    assert lines(pilot.app)[0].startswith(" undo: added 9 images to wren ")
    monkeypatch.setattr(jobs, "PASSING", 0.01)
    job.say("redone")
    for _ in range(100):
        await pilot.pause(0.02)
        if not lines(pilot.app)[0].strip():
            return
    raise AssertionError("it does not pass")


async def test_job_line_fits_every_width(play: Play, lines: Lines) -> None:
    job = JobLine()
    pilot, _ = await play(job, size=(200, 2))
    job.say("saved /some/where/very/deep/birds.frn.json")
    job.show("Embedding a class with a really long name \x1b[2J 🦜", 23, 31, 1.9)
    for width in (1, 2, 10, 20, 40, 60, 80, 200):
        await pilot.resize_terminal(width, 2)
        line = lines(pilot.app)[0]
        assert all(char.isprintable() for char in line)
        assert len(line) <= width
        assert ("23/31" in line) >= (width >= 20)


def test_durations_have_a_suitable_unit() -> None:
    assert [duration(s) for s in (-1, 0, 1.94, 9.97, 45.4, 89, 100, 3600, 7200)] == [
        "0.0 s",
        "0.0 s",
        "1.9 s",
        "10 s",
        "45 s",
        "89 s",
        "2 min",
        "60 min",
        "2.0 h",
    ]
