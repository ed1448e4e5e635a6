"""The subject of a photo is found by the margin of windows of larger maps."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.any_size import any_size
from frn.features.extractor import Tta
from frn.images.boxes import Box, box_name, split_box
from frn.inference.find import Finder, margins, pixel_box, window_means
from frn.ridge.enrolment import ClassScorer, enroll


def test_windows_have_the_means_of_their_cells() -> None:
    values = np.random.default_rng(0).random((7, 9, 3))
    naive = [[values[y : y + 4, x : x + 2].mean((0, 1)) for x in range(8)] for y in range(4)]
    assert np.allclose(window_means(values, (4, 2)), naive)


def test_margin_is_the_mean_of_the_other_classes_less_the_best_or_the_own_one() -> None:
    errors, energies = np.array([[5.0, 1.0, 3.0], [2.0, 4.0, 9.0]]), np.array([10.0, 20.0])
    by_best, best = margins(errors, energies)
    assert by_best.tolist() == [3.0, 4.5]
    assert best.tolist() == [1, 0]
    assert margins(errors, energies, own=2)[0].tolist() == [0.0, -6.0]
    assert margins(errors[:, :1], energies)[0].tolist() == [5.0, 18.0]  # a single class against none


def test_fractions_become_pixels_within_the_photo() -> None:
    assert pixel_box((0.25, 0.5, 0.5, 0.5), (400, 301)) == Box(100, 150, 200, 150)
    assert pixel_box((0.999, 0.999, 0.0001, 0.0001), (3, 3)) == Box(2, 2, 1, 1)


@pytest.mark.parametrize("model", ["conv4", "resnet9-photo", "frn-photo"])
@pytest.mark.parametrize("tta", ["none", "hflip", "views"])
def test_a_larger_photo_has_a_larger_map_of_the_plain_network(model: str, tta: Tta) -> None:
    plain, finder = load_extractor(model, "cpu"), Finder(load_extractor(model, "cpu", tta))
    side, (h, w) = plain.transform.size, plain.grid
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    expected = plain.feature_maps(pixels[None])[0].reshape(h, w, -1)
    expected /= np.sqrt(np.square(expected).sum(-1).mean())
    assert np.allclose(finder.maps(pixels, 1.0), expected, atol=1e-5)
    wide = np.concatenate([pixels, pixels], 1)
    assert finder.maps(wide, 1.0).shape[:2] == (h, 2 * w)
    assert finder.maps(wide, 1.5).shape[:2] == (3 * h // 2, 3 * w)


def test_a_network_that_depends_on_its_size_is_refused() -> None:
    model = onnx.load_model_from_string(load_extractor("conv4", "cpu").data)
    first = model.graph.node[0]
    model.graph.node.insert(1, onnx.helper.make_node("Reshape", [first.output[0], "shape"], ["attention"]))
    with pytest.raises(FrnError, match=r"x\.onnx: is not purely convolutional, so it cannot search photos"):
        any_size(model.SerializeToString(), "x.onnx")


def test_a_small_subject_is_found_wherever_it_is(tmp_path: Path) -> None:
    extractor, draw = load_extractor("frn-photo", "cpu"), np.random.default_rng(0)
    moths = [np.stack([extractor.transform(draw_moth(species(n), draw, 192)) for _ in range(3)]) for n in range(3)]
    assert extractor.head
    scorer = ClassScorer([enroll(extractor.feature_maps(each), extractor.head) for each in moths])
    finder = Finder(extractor)
    for number, (left, top) in enumerate([(10, 20), (400, 30), (200, 220), (420, 210)]):
        noise = draw.integers(0, 256, (10, 14, 3), dtype=np.uint8)
        scene = Image.fromarray(noise).resize((600, 400), Image.Resampling.BICUBIC)
        scene.paste(draw_moth(species(number % 3), draw, 170), (left, top))
        scene.save(path := tmp_path / f"{number}.png")
        for own in (None, number % 3):
            file, box = split_box(finder.box(path, scorer, own))
            assert file == path
            assert box is not None
            across = min(box.left + box.width, left + 170) - max(box.left, left)
            down = min(box.top + box.height, top + 170) - max(box.top, top)
            assert across * down / (box.width * box.height + 170 * 170 - across * down) > 0.4
    boxed = Path(box_name(str(path), Box(1, 2, 3, 4)))
    assert finder.box(boxed, scorer) == boxed  # a given box stays
