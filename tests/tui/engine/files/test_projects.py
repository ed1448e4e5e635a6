"""Exports and overwriting, with the exact numbers of what is written."""

import io
from pathlib import Path

import numpy as np

from tests.tui.engine.conftest import Engine


def test_arrays_state_where_the_rows_of_each_class_start(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path
) -> None:
    few = {name: paths[: 1 + number] for number, (name, paths) in enumerate(members.items())}
    engine.done("classes", state=engine.state(few))
    engine.done("export", path=str(tmp_path / "x.npz"), what="arrays")
    bank = np.load(io.BytesIO((tmp_path / "x.npz").read_bytes()))
    sizes = [16 * (1 + number) for number in range(4)] + [64]  # at most one row for each of 64 channels
    assert bank["starts"].tolist() == [0, *np.cumsum(sizes[:-1])]
    assert bank["rows"].shape == (sum(sizes), 64)
    assert bank["signs"].shape == (sum(sizes),)
