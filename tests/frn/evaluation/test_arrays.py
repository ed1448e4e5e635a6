"""Feature files from elsewhere: their headers are checked, and problems give a one-line error."""

import io
import json
import os
import pickle
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from frn.errors import FrnError
from frn.evaluation.arrays import _by_class, _read, evaluate

LABELS = [0, 0, 0, 1, 1, 1]


def npy(array: np.typing.NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def several() -> bytes:
    file = io.BytesIO()
    np.savez(file, np.ones((6, 4)))
    return file.getvalue()


SMALL = npy(np.ones((6, 4), np.float32))
FILES = {
    "several": (several(), "contains several arrays"),
    "larger than it is": (SMALL.replace(b"(6, 4)", b"(6, 9)"), "cannot be read"),
    "a terabyte": (SMALL.replace(b"(6, 4), }           ", b"(6, 40000000000), }"), "cannot be read"),
    "cut": (SMALL[:50], "cannot be read"),
    "objects": (npy(np.array([None] * 6)), "cannot be read"),
    "names": (npy(np.array(["a"] * 6)), "the features are <U1, not numbers"),
    "nothing": (b"", "cannot be read"),
}


@pytest.mark.parametrize("name", FILES)
def test_non_numeric_arrays_give_a_one_line_error(name: str, tmp_path: Path) -> None:
    data, reason = FILES[name]
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(FrnError, match=reason) as caught:
        evaluate(tmp_path / "x.npy", LABELS, way=2, shot=1, queries=1, episodes=1)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(FrnError, match="is not a regular file"):
        evaluate(tmp_path / "x.npy", LABELS)


@pytest.mark.parametrize("shot", [np.int64(1), np.array([1, 2])], ids=["one", "several"])
def test_numpy_shots_become_integers_in_results(shot: Any) -> None:
    results = evaluate(np.eye(6), LABELS, way=2, shot=shot, queries=1, episodes=2)
    assert [entry["shot"] for entry in json.loads(json.dumps(results))] == np.atleast_1d(shot).tolist()


def test_default_protocol_follows_the_paper() -> None:
    maps, began = np.random.default_rng(0).standard_normal((5 * 21, 2)), time.perf_counter()
    results = evaluate(maps, np.repeat(np.arange(5), 21))
    assert [(each["way"], each["shot"], each["queries"], each["episodes"]) for each in results] == [
        (5, 1, 16, 10_000),
        (5, 5, 16, 10_000),
    ]
    assert 0 < sum(each["seconds"] for each in results) <= time.perf_counter() - began + 0.001  # each is rounded
    assert evaluate(maps, np.repeat(np.arange(5), 21), shot=1, seed=0)[0]["accuracy"] == results[0]["accuracy"]


def test_accuracy_requires_an_episode() -> None:
    with pytest.raises(FrnError, match="needs episodes >= 1, not 0"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=0)


def test_parquet_columns_are_read_and_missing_ones_reported(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"features": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}), tmp_path / "x.parquet")
    assert _read(tmp_path / "x.parquet", "features").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(FrnError, match="has no column 'labels'; it has features, label"):
        _read(tmp_path / "x.parquet", "labels")


def test_validation_classes_that_are_too_small_are_reported() -> None:
    with pytest.raises(FrnError, match=r"the validation features.*'?b'?"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=2, validation=(np.eye(6), list("aaaaab")))
    with pytest.raises(FrnError, match=r"the validation features.*'?c'?"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=2, validation=(np.eye(6), list("aabbbc")))


def test_feature_scale_does_not_change_heads_or_accuracy() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 8)
    maps, others = (generator.standard_normal((4, 16))[labels] + generator.standard_normal((32, 16)) for _ in range(2))
    found = [
        evaluate(unit * maps, labels, way=3, shot=2, queries=4, episodes=20, validation=(unit * others, labels))[0]
        for unit in (1.0, 8.0)
    ]
    assert found[0]["accuracy"] == found[1]["accuracy"]
    assert found[0]["head"] == pytest.approx(found[1]["head"])
    assert found[0]["accuracy"] != evaluate(maps, labels, way=3, shot=2, queries=4, episodes=20)[0]["accuracy"]


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(pickle.dumps(Payload(tmp_path / "harm")))
    with pytest.raises(FrnError, match=r"cannot be read as \.npy or \.parquet"):
        _read(tmp_path / "x.npy", "features")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's names of descriptors")
def test_refused_archive_is_closed(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(several())
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FrnError, match="pass the one with the labels"):
        _read(tmp_path / "x.npy", "labels")
    assert os.listdir("/proc/self/fd") == before


def test_a_file_above_a_tebibyte_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        file.truncate((1 << 40) + 1)
    with pytest.raises(FrnError, match=r"x\.npy: is 1\.05e\+06 MiB; the limit is 1\.05e\+06 MiB"):
        _read(tmp_path / "x.npy", "features")


def test_images_are_sorted_by_class_and_locations_come_before_channels() -> None:
    maps = np.arange(2 * 3 * 2 * 2, dtype=float).reshape(2, 3, 2, 2)
    found, sizes, names = _by_class(maps, ["b", "a"])
    assert (sizes, names, found.dtype.name) == ((1, 1), ["a", "b"], "float32")
    np.testing.assert_array_equal(found, maps[::-1].reshape(2, 3, 4).transpose(0, 2, 1))
    vectors, *_ = _by_class(maps[:, :, 0, 0], [1, 0])
    np.testing.assert_array_equal(vectors, maps[::-1, None, :, 0, 0])
    three, sizes, names = _by_class(np.arange(5.0)[:, None, None], [7, 3, 7, 3, 7])
    assert (three.ravel().tolist(), sizes, names) == ([1, 3, 0, 2, 4], (2, 3), ["3", "7"])


@pytest.mark.parametrize(
    ("features", "labels", "reason"),
    [
        (np.ones(6), LABELS, r"or \(n, d, h, w\) with n labels, not \(6,\) with labels \(6,\)"),
        (np.ones((6, 1, 1, 1, 1)), LABELS, r"not \(6, 1, 1, 1, 1\) with labels \(6,\)"),
        (np.ones((6, 0)), LABELS, r"not \(6, 1, 0\) with labels \(6,\)"),
        (np.ones((6, 4)), LABELS[:5], r"not \(6, 1, 4\) with labels \(5,\)"),
        (np.ones((6, 4)), [LABELS], r"not \(6, 1, 4\) with labels \(1, 6\)"),
        (np.full((6, 4), np.inf), LABELS, "the features are not all finite numbers"),
        (np.ones((6, 4)), None, "pass the labels of the features, or a Parquet file"),
        (np.ones((6, 4)), np.ones(6, complex), "the labels are complex128, not numbers or names"),
    ],
)
def test_unsuitable_features_and_labels_are_described(features: Any, labels: Any, reason: str) -> None:
    with pytest.raises(FrnError, match=reason):
        evaluate(features, labels, way=2, shot=1, queries=1, episodes=1)


def test_features_of_zeros_are_evaluated() -> None:
    (result,) = evaluate(np.zeros((6, 4)), LABELS, way=2, shot=1, queries=1, episodes=1)
    assert result["accuracy"] == 50


def test_a_head_with_layers_is_refused() -> None:
    with pytest.raises(FrnError, match=r"method 'ctx' has layers that need training \(key\.weight, value\.weight\)"):
        evaluate(np.eye(6), LABELS, way=2, shot=1, queries=1, episodes=1, method="ctx")


def test_classes_that_are_too_small_are_reported() -> None:
    for labels in ([0, 0, 0, 0, 0, 1], [0, 0, 2, 2, 2, 1]):  # even if two others are large enough
        with pytest.raises(FrnError, match=r"the features.*'?1'?"):
            evaluate(np.eye(6), labels, way=2, shot=1, queries=1, episodes=2)


class Columns(dict[str, list[Any]]):
    """A table as pyarrow returns it, for systems without pyarrow."""

    @property
    def column_names(self) -> list[str]:
        return list(self)

    def column(self, name: str) -> Any:
        return SimpleNamespace(to_pylist=lambda: self[name])


def test_columns_of_a_table_become_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Columns(features=[[[1.0, 2.0]], [[3.0, 4.0]]], labels=["a", "b"])
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=SimpleNamespace(read_table=lambda _: table)))
    (tmp_path / "x.PARQUET").touch()
    assert _read(tmp_path / "x.PARQUET", "features").shape == (2, 1, 2)
    assert _read(str(tmp_path / "x.PARQUET"), "labels").tolist() == ["a", "b"]
    found, sizes, names = _by_class(tmp_path / "x.PARQUET", None)
    assert (found.tolist(), sizes, names) == ([[[1, 2]], [[3, 4]]], (1, 1), ["a", "b"])
    with pytest.raises(FrnError, match=r"x\.PARQUET: has no column 'label'; it has features, labels$"):
        _read(tmp_path / "x.PARQUET", "label")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FrnError, match="Parquet needs the pyarrow package: pip install pyarrow"):
        _read(tmp_path / "x.PARQUET", "labels")
