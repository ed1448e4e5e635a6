"""Answers, and how well the classes are told apart."""

from pathlib import Path

import numpy as np
import pytest
from frn_tui.client.protocol import MAPPED

from tests.tui.engine.conftest import Engine, first


def test_a_folder_is_answered_file_by_file(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> None:
    engine.done("classes", state=engine.state(first(members, 2)))
    paths = [str(members["moth 40"][5]), str(tmp_path / "away.png"), str(members["moth 41"][5])]
    asked = engine.ask("query", paths=paths)
    answers = asked.told("answer")
    assert [answer["path"] for answer in answers] == paths
    assert [("reason" in answer, "scores" in answer) for answer in answers] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert not any("maps" in answer for answer in answers)
    assert asked.told("progress")[-1]["done"] == 3
    assert engine.ask("query", paths=paths, cancel_at="answer").end["end"] == "cancelled"


def test_maps_are_those_of_the_likeliest(engine: Engine, moths: Path) -> None:
    classes = {
        f"{split} {folder.name}": sorted(folder.iterdir())[:1]
        for split in ("train", "val", "test")
        for folder in sorted((moths / split).iterdir())
    }
    engine.done("classes", state=engine.state(classes))
    (answer,) = engine.ask("query", paths=[str(next(iter(classes.values()))[0])]).told("answer")
    assert [*answer["maps"]] == [str(score["id"]) for score in answer["scores"][:MAPPED]]
    assert np.shape(next(iter(answer["maps"].values()))) == (4, 4)


def test_hide_and_test_counts_every_hidden_example(engine: Engine, members: dict[str, list[Path]]) -> None:
    engine.done("classes", state=engine.state({**members, "small": []}))
    done = engine.done("hide_and_test", shot=4)
    counts = np.array(done["counts"])
    assert counts.sum(1).tolist() == [8] * 5
    assert done["accuracy"] == pytest.approx(np.trace(counts) / 40)
    assert engine.done("hide_and_test", shot=4)["counts"] == done["counts"]
    assert "two classes" in engine.ask("hide_and_test", shot=12).reason
    assert engine.ask("hide_and_test", shot=4, cancel_at="progress").end["end"] == "cancelled"
