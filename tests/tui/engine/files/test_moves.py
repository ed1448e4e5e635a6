"""The journal of moved photos, line by line."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from frn_tui.engine.files import moves
from frn_tui.engine.files.moves import MoveJournal, settle_all, settled

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, open_to_append
from frn.system.processes.locks import Lock


def test_line_that_is_written_only_in_part_stops_the_move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, line: bytes) -> None:
            self.file.write(line[:7])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = MoveJournal()
    monkeypatch.setattr(moves, "open_to_append", lambda *words: Full(open_to_append(*words)))
    with pytest.raises(FrnError) as refused:
        journal.write({"move": "a"})
    assert str(refused.value) == f"{journal.path}: cannot be written (No space left on device); no photo was moved"
    monkeypatch.undo()
    assert journal.path.read_bytes() == b'{"move"'
    journal.write({"move": "b"})
    assert journal.path.read_bytes().startswith(b'{"move"\n{"move": "b"')


@pytest.mark.parametrize(
    ("source", "target", "size", "came", "left"),
    [
        (None, None, 5, "gone", {}),
        (None, "photo", 5, "moved", {"target": "photo"}),
        ("photo", None, 5, "kept", {"source": "photo"}),
        ("photo", "", 5, "kept", {"source": "photo"}),  # a placeholder
        ("photo", "photo", 5, "moved", {"target": "photo"}),
        ("photo", "owner", 5, "kept", {"source": "photo", "target": "owner"}),
        ("photo", "photo", 6, "kept", {"source": "photo", "target": "photo"}),
        ("", "", 0, "moved", {"target": ""}),
    ],
)
def test_outcome_of_an_interrupted_move(
    tmp_path: Path, source: str | None, target: str | None, size: int, came: str, left: dict[str, str]
) -> None:
    for name, content in (("source", source), ("target", target)):
        if content is not None:
            (tmp_path / name).write_text(content)
    assert settled(tmp_path / "source", tmp_path / "target", size) == came
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == left


def test_settling_reads_all_journals_but_no_other_files(state_folder: Path, tmp_path: Path) -> None:
    sources, journals = [], []
    for name in ("a", "b", "c"):
        sources.append(tmp_path / f"{name}.jpg")
        journal = MoveJournal()
        target = tmp_path / f"moved {name}.jpg"
        target.write_text("photo")
        beside(target, PART).write_text("pho")
        journal.write({"move": str(sources[-1]), "to": str(target), "bytes": 5})
        journals.append(journal.path)
    journal.path.rename(journal.path.with_name("notes.jsonl"))
    busy = Lock(beside(journals[0], LOCK))
    assert busy.acquire()  # its program is still moving photos
    assert settle_all()[0] == {str(sources[1]): str(tmp_path / "moved b.jpg")}
    busy.release()
    places, gone = settle_all()
    assert places == {str(sources[0]): str(tmp_path / "moved a.jpg")}
    assert gone == []
    assert settle_all() == ({}, [])
    assert [*tmp_path.glob(".*")] == [beside(target, PART)]  # that of the notes
