"""Edits, undo, and photos that already exist."""

import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.projects.session import Moves, Session, State, Support, build_state, check_threshold


def support(key: str) -> Support:
    return Support(Path(f"{key}.jpg"), key, size=3, mtime_ns=4)


def keys(state: State) -> dict[str, list[str]]:
    return {entry.name: [s.key for s in entry.supports] for entry in state.classes}


def test_classes_are_created_filled_renamed_and_deleted() -> None:
    session = Session()
    jay, wren = session.create("jay"), session.create("  wren ")
    session.add(jay, [support("a"), support("b")])
    session.add(wren, [support("c")])
    session.rename(wren, "Zaunkönig")
    assert keys(session.state) == {"jay": ["a", "b"], "Zaunkönig": ["c"]}
    session.move(["b", "c"], wren)
    assert keys(session.state) == {"jay": ["a"], "Zaunkönig": ["c", "b"]}
    session.remove(["c"])
    session.delete(jay)
    assert keys(session.state) == {"Zaunkönig": ["b"]}
    assert session.create("owl") not in (jay, wren)  # numbers are never reused


def test_photo_becomes_an_example_only_once_and_its_class_is_reported() -> None:
    session = Session()
    jay, wren = session.create("jay"), session.create("wren")
    session.add(jay, [support("a")])
    twins = session.add(wren, [support("a"), support("b"), Support(Path("copy.jpg"), "b", 1, 1)])
    assert keys(session.state) == {"jay": ["a"], "wren": ["b"]}
    assert [str(twin) for twin in twins] == [
        "a.jpg: is the same photo as a.jpg of class 'jay'; it was not added",
        "copy.jpg: is the same photo as b.jpg of class 'wren'; it was not added",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_all_edits_can_be_undone_and_redone(seed: int) -> None:
    draw = random.Random(seed)
    session = Session()
    seen = [session.state]
    for _ in range(60):
        ids = [entry.id for entry in session.state.classes]
        photos = [support(str(draw.randrange(30))) for _ in range(3)]
        edits: list[Callable[[], object]] = [lambda: session.create(str(draw.random()))]
        if ids:
            some = draw.choice(ids)
            edits += [
                lambda: session.add(some, photos),  # noqa: B023
                lambda: session.move([p.key for p in photos], some),  # noqa: B023
                lambda: session.remove([p.key for p in photos]),  # noqa: B023
                lambda: session.rename(some, str(draw.random())),  # noqa: B023
                lambda: session.delete(some),  # noqa: B023
                lambda: session.set_threshold(draw.random()),
            ]
        draw.choice(edits)()
        if session.state != seen[-1]:
            seen.append(session.state)
        everything = [s.key for entry in session.state.classes for s in entry.supports]
        assert len(everything) == len(set(everything))
    for state in reversed(seen[:-1]):
        assert session.undo() == state
    assert not session.can_undo
    assert session.undo() == seen[0]
    for state in seen[1:]:
        assert session.redo() == state
    assert not session.can_redo


def test_edits_made_together_are_undone_together_and_refused_together() -> None:
    session = Session()
    before = session.state
    with session.one_edit():
        jay = session.create("jay")
        session.add(jay, [support("a")])
    assert keys(session.undo()) == keys(before)
    assert keys(session.redo()) == {"jay": ["a"]}
    with pytest.raises(FrnError), session.one_edit():
        _ = [session.create(name) for name in ("wren", "jay")]
    assert keys(session.state) == {"jay": ["a"]}
    assert not session.can_redo


def test_an_edit_that_changes_nothing_is_not_recorded() -> None:
    session = Session()
    jay = session.create("jay")
    session.mark_saved()
    session.rename(jay, "jay")
    session.remove(["none"])
    session.add(jay, [])
    saved = [session.is_saved]
    session.set_threshold(0.4)
    saved.append(session.is_saved)
    session.undo()
    saved.append(session.is_saved)
    assert saved == [True, False, True]


def test_invalid_edits_are_refused_and_change_nothing() -> None:
    session = Session()
    session.create("jay")
    wren = session.create("wren")
    before = session.state
    for name, reason in (
        ("jay", "a class 'jay' already exists"),
        (" ", "needs a name"),
        ("x" * 300, "has 300 characters; the limit is 200"),
    ):
        with pytest.raises(FrnError, match=reason):
            session.create(name)
        with pytest.raises(FrnError, match=reason):
            session.rename(wren, name)
    for edit in (session.delete, lambda other: session.rename(other, "owl"), lambda other: session.add(other, [])):
        with pytest.raises(FrnError, match="no class has the number 9"):
            edit(9)
    with pytest.raises(FrnError, match="between 0 and 1, not 2"):
        session.set_threshold(2)
    with pytest.raises(FrnError, match="not nan"):
        check_threshold(float("nan"))
    assert session.state is before


def test_outside_changes_also_apply_to_undo_states() -> None:
    session = Session()
    jay = session.create("jay")
    empty = session.state
    session.add(jay, [support("a")])
    session.add(jay, [support("b")])
    session.mark_saved()
    session.amend_all(lambda state: state if state is empty else replace(state, threshold=0.5))
    assert not session.is_saved
    assert session.state.threshold == 0.5
    assert session.undo().threshold == 0.5
    assert session.undo() is empty


def test_every_edit_has_a_name_including_dropping() -> None:
    session = Session()
    session.create("jay")
    session.name_act("made class jay")
    session.mark_saved()
    session.drop(["/a.jpg"])
    assert session.is_saved
    assert session.state.dropped == {"/a.jpg"}
    assert session.state.act == ""
    session.name_act("dropped 1 answer")
    session.undo()
    assert (session.state.dropped, session.state.act, session.undone) == (
        frozenset(),
        "made class jay",
        "dropped 1 answer",
    )
    session.redo()
    assert session.state.dropped == {"/a.jpg"}


def test_merged_classes_keep_all_examples_and_one_undo_separates_them() -> None:
    session = Session()
    jay, wren = session.create("jay"), session.create("wren")
    session.add(jay, [support("a"), support("b")])
    session.add(wren, [support("c")])
    session.merge(jay, wren)
    assert keys(session.state) == {"wren": ["c", "a", "b"]}
    session.undo()
    assert keys(session.state) == {"jay": ["a", "b"], "wren": ["c"]}


def test_there_are_at_most_ten_thousand_classes() -> None:
    names: list[tuple[str, list[Support]]] = [(str(number), []) for number in range(10_001)]
    state, _ = build_state(names[:10_000])
    session = Session(replace(state, classes=state.classes[:-1]))
    session.create("last")
    for beyond in (lambda: build_state(names), lambda: session.create("one more")):
        with pytest.raises(FrnError, match=r"^there are already 10000 classes, which is the limit$"):
            beyond()


def test_built_classes_are_numbered_from_one_and_names_are_unique() -> None:
    state, twins = build_state([(" jay", [support("a"), support("a")]), ("wren", [support("a"), support("b")])])
    assert [(entry.id, entry.name) for entry in state.classes] == [(1, "jay"), (2, "wren")]
    assert state.next_id == 3
    assert [(twin.class_name, twin.twin) for twin in twins] == [("jay", Path("a.jpg"))] * 2
    with pytest.raises(FrnError, match=r"^a class 'jay' already exists; choose another name$"):
        build_state([("jay", []), ("jay ", [])])
    empty = Session()
    assert [empty.create("first"), empty.create("second")] == [1, 2]
    assert empty.state.next_id == 3


def test_a_missing_file_has_no_size_or_time(tmp_path: Path) -> None:
    assert Support.of(tmp_path / "none", "k") == Support(tmp_path / "none", "k", 0, 0)
    path = tmp_path / "a.jpg"
    path.write_bytes(b"123")
    known = Support.of(path, "k")
    assert (known.size, known.mtime_ns) == (3, path.stat().st_mtime_ns)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.jpg", "1")
    assert Support.of(tmp_path / "x.zip" / "a.jpg", "k").size == (tmp_path / "x.zip").stat().st_size


def test_a_new_session_counts_as_saved_unless_it_says_otherwise() -> None:
    state, _ = build_state([("jay", [])])
    assert (Session(state).is_saved, Session(state, is_saved=False).is_saved) == (True, False)
    session = Session(state)
    session.create("wren")
    session.mark_saved(state)  # the file holds the state from before the edit
    before = session.is_saved
    assert session.undo() is state
    assert (before, session.is_saved) == (False, True)


def test_moving_photos_keeps_those_that_are_already_there() -> None:
    state, _ = build_state([("jay", [support("a"), support("b")]), ("wren", [support("c"), support("d")])])
    session = Session(state)
    session.move(["a", "c", "unknown"], 2)
    assert keys(session.state) == {"jay": ["b"], "wren": ["c", "d", "a"]}


def test_a_photo_is_set_aside_only_once() -> None:
    session = Session(build_state([("jay", [support("a"), support("b")])])[0])
    session.set_aside([support("a"), support("x"), support("x")])
    session.set_aside([support("a")])
    assert [other.key for other in session.state.others] == ["a", "x"]
    assert keys(session.state) == {"jay": ["b"]}
    session.add(1, [support("x"), support("y")])
    assert [other.key for other in session.state.others] == ["a"]
    session.undo()
    session.undo()
    assert (keys(session.state), session.can_undo) == ({"jay": ["a", "b"]}, False)


def test_amending_a_state_keeps_the_steps_before_and_after_it() -> None:
    session = Session()
    for name in ("jay", "wren", "owl"):
        session.create(name)
    session.undo()
    session.amend(replace(session.state, threshold=0.5))
    assert (session.state.threshold, session.redo().threshold, session.can_redo) == (0.5, None, False)
    assert [len(session.undo().classes) for _ in range(4)] == [2, 1, 0, 0]


def test_moves_of_photos_are_a_step_that_needs_no_saving() -> None:
    session, moves = Session(), Moves("sorted 1 photo", "journal", (("/a", "/b", False),))
    session.note_moves(moves)
    assert (session.state.moves, session.state.act, session.is_saved) == (moves, "sorted 1 photo", True)
    session.undo()
    assert (session.state.moves, session.undone) == (None, "sorted 1 photo")
    session.redo()
    session.create("jay")  # the next edit has no name yet
    assert (session.state.moves, session.state.act) == (moves, "")
