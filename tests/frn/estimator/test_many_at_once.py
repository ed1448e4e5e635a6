"""One classifier for many threads and photos, with constant memory; photos and labels in any form."""

import io
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from frn import FewShotClassifier
from frn.errors import FrnError, FrnWarning
from frn.estimator.photos import open_photo
from frn.features.extractor import Extractor


def photo(seed: int, size: int = 32) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


def like(seed: int) -> NDArray[np.uint8]:
    """A slightly changed photo, because an example would be classified by leave-one-out."""
    pixels = photo(seed)
    pixels[0, 0, 0] ^= 1
    return pixels


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> FewShotClassifier:
    """A classifier with a trivial network: a feature map consists of four means of the photo's rows."""

    def feature_maps(self: Extractor, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        r, d = self.shape
        flat = pixels.reshape(len(pixels), -1)[:, : r * d].astype(np.float32) / 255
        maps: NDArray[np.float32] = np.resize(flat, (len(pixels), r, d)).astype(np.float32)
        return maps

    monkeypatch.setattr(Extractor, "feature_maps", feature_maps)
    return FewShotClassifier("conv4", device="cpu")


@pytest.mark.nightly
def test_eight_threads_predict_and_fit_one_classifier_two_thousand_times(cheap: FewShotClassifier) -> None:
    cheap.fit([photo(0), photo(1)], ["a", "b"])
    taught, left = 40, itertools.count()
    lock = threading.Lock()

    def work(worker: int) -> None:
        for number in range(250):
            if number % 50 == 25:
                with lock:
                    new = next(left)
                cheap.partial_fit([photo(100 + new)], [f"new {new}"])
            elif number % 3:
                label = cheap.predict([like(number % 2)])[0]
                assert label == "ab"[number % 2]
            else:
                shares = cheap.predict_proba([like(0)])
                assert shares.sum() == pytest.approx(1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(cheap.classes_) == 2 + taught


def test_answers_come_in_batches_and_bad_photos_are_skipped(cheap: FewShotClassifier, tmp_path: Path) -> None:
    cheap.fit([photo(0), photo(1)], ["a", "b"])
    (tmp_path / "x.jpg").write_text("no photo")
    asked = 0

    def endless() -> Iterator[Any]:
        nonlocal asked
        for asked in itertools.count(1):
            yield tmp_path / "x.jpg" if asked == 2 else like(asked % 2)

    answers = list(itertools.islice(cheap.answers(endless()), 5))
    assert asked <= 5 + cheap.classifier_.extractor.batch
    assert [answer.label for answer in answers] == ["b", None, "b", "a", "b"]
    assert isinstance(answers[1].error, FrnError)
    assert (answers[1].photo, answers[1].unknown) == (tmp_path / "x.jpg", False)
    first = answers[0]
    assert first.probability == cheap.predict_proba([like(1)])[0, 1]
    assert first.explained == cheap.explained([like(1)])[0, 1]
    assert first.unknown == cheap.is_unknown([like(1)])[0]
    strict = cheap.set_params(threshold=1.0).fit([photo(n) for n in range(4)], [*"abab"])
    assert [answer.unknown for answer in strict.answers([like(0)])] == [True]
    with pytest.raises(ValueError, match="photos must be a list"):
        cheap.answers("x.jpg")


def test_fit_accepts_scikit_learn_argument_names(cheap: FewShotClassifier) -> None:
    assert cheap.fit(X=[photo(0), photo(1)], y=["a", "b"]).score(X=[like(0)], y=["a"]) == 1
    assert cheap.fit([photo(0), photo(1)], y=[["a"], ["b"]]).predict([like(1)]) == ["b"]


@pytest.mark.parametrize("label", [None, float("nan"), np.nan])
def test_a_photo_without_a_label_is_refused(cheap: FewShotClassifier, label: Any) -> None:
    with pytest.raises(ValueError, match=r"label number 2 is .*every photo needs a label"):
        cheap.fit([photo(0), photo(1)], [1.0, label])


def test_scoring_matches_labels_loosely(cheap: FewShotClassifier) -> None:
    cheap.fit([photo(0), photo(1)], ["Ivory Gull", "E\u0301"])
    assert cheap.classes_.tolist() == ["Ivory Gull", "É"]
    with pytest.warns(FrnWarning, match="'ivory_gull' is matched to the class 'Ivory Gull'") as caught:
        assert cheap.score([like(0), like(1)], ["ivory_gull", "E\u0301"]) == 1
    assert caught[0].filename == __file__
    with pytest.warns(FrnWarning, match="'Ivory Gul' is not a class; the nearest name is 'Ivory Gull'"):
        assert cheap.score([like(0)], ["Ivory Gul"]) == 0


def forms() -> dict[str, Any]:
    pixels, buffer = photo(7), io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    chw = pixels.transpose(2, 0, 1)
    return {
        "bytes": buffer.getvalue(),
        "open file": io.BytesIO(buffer.getvalue()),
        "image": Image.fromarray(pixels),
        "array": pixels,
        "CHW": chw,
        "floats": pixels / 255,
        "CHW floats": (chw / 255).astype(np.float32),
        "RGBA": np.dstack([pixels, np.full(pixels.shape[:2], 255, dtype=np.uint8)]),
        "tensor": torch.from_numpy(chw.copy()),
        "tensor of rows": torch.from_numpy(pixels),
        "tensor of floats": torch.from_numpy(chw.copy()).float().div(255).requires_grad_(),
    }


@pytest.mark.parametrize("form", forms())
def test_every_form_of_a_photo_gives_the_same_result(form: str) -> None:
    np.testing.assert_array_equal(np.asarray(open_photo(forms()[form])[1]), photo(7))


def test_grey_and_transparent_arrays_are_read() -> None:
    grey = photo(1)[..., :1]
    for pixels in (grey, grey[..., 0]):
        assert (np.asarray(open_photo(pixels)[1]) == grey).all()
    clear = np.dstack([photo(1), np.zeros((32, 32), dtype=np.uint8)])
    assert (np.asarray(open_photo(clear)[1]) == 255).all()


def test_shape_is_part_of_a_photo() -> None:
    pixels = photo(1)
    wide, narrow = (open_photo(pixels.reshape(-1, width, 3)) for width in (64, 16))
    assert wide[0] != narrow[0]
    tensor: Any = torch.from_numpy(pixels.reshape(3, -1, 4))  # (3, h, 4), not (h, w, 4)
    assert open_photo(tensor)[1].size == (4, 256)


@pytest.mark.parametrize(
    "pixels", [photo(0).astype(float), photo(0).astype(np.int64), photo(0) / 255 - 1, photo(0) / 128, photo(0)[..., :2]]
)
def test_ambiguous_pixels_are_refused(pixels: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|uint8 from 0 to 255|an array of pixels must be"):
        open_photo(pixels)


def test_tilde_expands_to_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    Image.fromarray(photo(3)).save(tmp_path / "x.png")
    assert (np.asarray(open_photo("~/x.png")[1]) == photo(3)).all()
    with pytest.raises(FrnError, match=r"~nobody\.png"):  # no user has this name
        open_photo("~nobody.png")


def test_column_of_paths_works_like_a_list(cheap: FewShotClassifier, tmp_path: Path) -> None:
    for seed in (0, 1):
        Image.fromarray(photo(seed)).save(tmp_path / f"{seed}.png")
        Image.fromarray(like(seed)).save(tmp_path / f"like {seed}.png")
    column, asked = (np.array([[str(tmp_path / f"{name}{i}.png")] for i in (0, 1)]) for name in ("", "like "))
    fitted = cheap.fit(cast(Any, column), np.array([["a"], ["b"]]))
    greys: Any = np.stack([photo(seed)[..., 0] for seed in (0, 1)])  # (n, h, w): two grey photos
    assert fitted.explained(greys).shape == (2, 2)
    assert fitted.predict(cast(Any, asked)).tolist() == ["a", "b"]
    rows = (f"{tmp_path}/0.png,a", "file://otherhost/y.png,b", f"{tmp_path}/1.png,b")
    (tmp_path / "x.csv").write_text("\n".join(["path,label", *rows]))
    with pytest.warns(FrnWarning, match=r"x\.csv: row 3 is skipped") as told:
        assert cheap.fit(tmp_path / "x.csv").predict(cast(Any, asked)).tolist() == ["a", "b"]
    assert [each.filename for each in told] == [__file__]
