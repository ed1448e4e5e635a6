"""The subject of a photo is found by the margin of windows of larger maps."""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from frn_export.graphs.finder import finder_graph
from frn_export.quantise import int8
from onnxruntime import InferenceSession
from PIL import Image
from typer.testing import Result

from frn.data.synthetic import draw_moth, species
from frn.errors import FrnError, FrnWarning
from frn.estimator.few_shot import FewShotClassifier
from frn.estimator.loading import load_classifier, load_extractor
from frn.features.any_size import any_size
from frn.features.extractor import MAX_FEATURE, Embedded, Extractor, Tta
from frn.features.feature_cache import FeatureStore
from frn.images.boxes import Box, box_name, split_box
from frn.images.opening import open_image
from frn.inference.classifier import Classifier
from frn.inference.enrolled_form import LeftOut
from frn.inference.enrollment import listed_state
from frn.inference.find.examples import boxed_examples, learn
from frn.inference.find.finder import SCALE, Finder, Sought
from frn.inference.find.windows import distinct, margins, pixel_box, window_means
from frn.projects.project import load_project
from frn.ridge.enrolment import Allowance, ClassScorer, enroll
from frn.ridge.unequal import without_one
from tests.commands import frn

Photos = dict[str, list[tuple[Path, Box]]]


def moths_in_noise(draw: np.random.Generator, size: tuple[int, int], subjects: dict[int, Box]) -> Image.Image:
    """Return a photo with moths of these kinds at square boxes."""
    noise = draw.integers(0, 256, (10, 14, 3), dtype=np.uint8)
    scene = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
    for kind, box in subjects.items():
        scene.paste(draw_moth(species(kind), draw, box.width), box[:2])
    return scene


def listed(home: Path, photos: dict[str, list[tuple[Path, Box | None]]] | Photos, *more: str) -> Path:
    """Write a CSV of classes, with the boxes of photos that have one."""
    rows = [
        ",".join([str(path), name, *map(str, box or ["", "", "", ""])])
        for name, own in photos.items()
        for path, box in own
    ]
    (table := home / "classes.csv").write_text("\n".join(["path,label,x,y,width,height", *rows, *more]))
    return table


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


@pytest.mark.parametrize(
    ("model", "tta"),
    [("conv4", "none"), ("conv4", "hflip"), ("conv4", "views"), ("resnet9-photo", "none"), ("frn-photo", "none")],
)
def test_a_larger_photo_has_a_larger_map_of_the_plain_network(model: str, tta: Tta) -> None:
    plain, finder = load_extractor(model, "cpu"), Finder(load_extractor(model, "cpu", tta))
    side, (h, w) = plain.transform.size, plain.grid
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    expected = plain.feature_maps(pixels[None])[0].reshape(h, w, -1)
    expected /= np.sqrt(np.square(expected).sum(-1).mean())
    assert np.allclose(finder.maps(pixels, 1.0), expected, atol=1e-5)
    wide = np.concatenate([pixels, pixels], 1)
    assert finder.maps(wide, 1.0).shape[:2] == (h, 2 * w)
    strip = np.zeros((2, 900, 3), np.uint8) + 1
    assert 10 * w <= finder.maps(strip, 1.0).shape[1] < 10.5 * w
    assert finder.maps(wide, 1.5).shape[:2] == (3 * h // 2, 3 * w)


def test_windows_are_shares_of_the_shorter_side_of_a_photo_of_1024_pixels(tmp_path: Path) -> None:
    extractor = load_extractor("frn-photo", "cpu")
    finder, draw = Finder(extractor), np.random.default_rng(0)
    Image.fromarray(draw.integers(0, 256, (1100, 2200, 3), dtype=np.uint8)).save(tmp_path / "wide.png")
    pixels, size = finder.pixels(tmp_path / "wide.png")
    assert (pixels.shape, size) == ((512, 1024, 3), (2200, 1100))
    assert extractor.head
    classes = [enroll(draw.random((1, *extractor.shape)), extractor.head)]
    sought = Sought(ClassScorer(classes), np.zeros(extractor.shape[1]))
    for share, (margin, parts) in zip((6, 4, 2), finder.windows(finder.maps(pixels, SCALE), sought), strict=True):
        left, top, width, height = parts[-1]
        assert (9 * height, 9 * 2 * width) == pytest.approx((share, share))  # ninths of the height
        assert (left + width, top + height, *parts[0][:2]) == pytest.approx((1, 1, 0, 0))
        assert len(parts) == len(margin) == (9 - share + 1) * (18 - share + 1)


def test_an_exported_finder_of_an_int8_model_finds_the_same_windows() -> None:
    plain, draw = load_extractor("frn-photo", "cpu"), np.random.default_rng(0)
    pixels = np.stack([plain.transform(draw_moth(species(n % 3), draw, 192)) for n in range(9)])
    extractor = Extractor(int8(plain.data, pixels), "int8", trusted=True)
    assert extractor.head
    maps = extractor.feature_maps(pixels)
    finder, weights = Finder(extractor), draw.normal(size=extractor.shape[1])
    short = round(SCALE * finder.side)
    noise = draw.integers(0, 256, (short, 2 * short, 3), dtype=np.uint8)
    images = noise.transpose(2, 0, 1)[None] / np.float32(255)
    found = finder.maps(noise, SCALE)
    for way in (1, 2, 3):
        classes = {str(kind): enroll(maps[kind::3], extractor.head) for kind in range(way)}
        classes = {name: replace(one, allowance=Allowance(int(name) / 5, 0.6)) for name, one in classes.items()}
        session = InferenceSession(finder_graph(finder, classes, weights).SerializeToString())
        (windows,) = session.run(["windows"], {session.get_inputs()[0].name: images})
        sought = Sought(ClassScorer([*classes.values()]), weights)
        places = [parts[margin.argmax()] for margin, parts in finder.windows(found, sought)]
        cells = np.array(places) * [*found.shape[1::-1], *found.shape[1::-1]]
        assert windows.tolist() == cells.round().astype(int).tolist()


def test_boxes_that_share_too_much_of_the_smaller_one_are_dropped() -> None:
    first, at_limit, below = Box(0, 0, 10, 10), Box(7, 5, 10, 10), Box(8, 3, 20, 10)  # 15% and 14% of the first
    assert distinct([first, at_limit, below], 3) == [first, below]
    assert distinct([first, below], 1) == [first]
    touching = [Box(0, 0, 2, 2), Box(2, 0, 2, 2), Box(0, 2, 2, 2)]
    assert distinct(touching, 3) == touching


def test_all_subjects_are_parts_that_are_known_the_best_first() -> None:
    """Of a part and the larger part around it, the larger one is kept unless its margin is much smaller."""
    boxes = [Box(0, 0, 10, 10), Box(0, 0, 40, 40), Box(100, 0, 20, 20), Box(200, 0, 30, 30)]
    errors = np.array([[0.5, 1.0], [0.7, 1.0], [0.0, 1.0], [0.9, 1.0]])
    rule = SimpleNamespace(threshold=0.1, known=lambda _: np.array([0.9, 0.9, 0.15, 0.2]))
    fake: Any = SimpleNamespace(
        sought=None,
        rule=rule,
        threshold_override=None,
        finder=SimpleNamespace(candidates=lambda path, _: (boxes, np.zeros((4, 1, 1)))),
        measures=lambda *_: (errors, np.ones(4), None),
    )

    def found(name: str = "photo") -> list[Path]:
        fake.least_known = vars(Classifier)["least_known"].fget(fake)
        return Classifier.subjects(fake, Path(name))

    assert found() == [Path(box_name("photo", box)) for box in (boxes[1], boxes[3])]
    fake.threshold_override = 0.1  # even background counts if the user wants it
    assert found() == [Path(box_name("photo", box)) for box in (boxes[2], boxes[1], boxes[3])]
    assert found(box_name("photo", boxes[0])) == [Path(box_name("photo", boxes[0]))]
    boxes[:], errors = [Box(10 * place, 0, 9, 9) for place in range(20)], np.tile([0.0, 1.0], (20, 1))
    rule.known = lambda _: np.ones(20)
    assert len(found()) == 16

    def broken(*_: object) -> None:
        raise FrnError("broken")

    fake.finder.candidates = broken
    assert found() == [Path("photo")]


def test_the_subject_of_an_image_is_cut_out() -> None:
    image = Image.new("RGB", (50, 40))
    for box, size in ((Box(5, 10, 20, 9), (20, 9)), (Box(5, 10, 99, 99), (45, 30)), (None, (50, 40))):
        fake: Any = SimpleNamespace(sought=None, finder=SimpleNamespace(box_in=lambda *_, box=box: box))
        assert Classifier.subject_in(fake, image).size == size


def test_larger_maps_that_are_zero_or_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    finder, pixels = Finder(load_extractor("conv4", "cpu")), np.zeros((9, 9, 3), np.uint8)
    largest = np.float32(MAX_FEATURE)
    for value, is_valid in ((largest, True), (np.nextafter(largest, np.inf), False), (np.nan, False), (0, False)):
        session = SimpleNamespace(
            inputs=[("images",)], run=lambda _, value=value: np.full((1, 2, 2, 3), value, np.float32)
        )
        monkeypatch.setattr(finder, "session", session)
        if is_valid:
            assert np.square(finder.maps(pixels, 1.0)).sum(-1).mean() == pytest.approx(1)
        else:
            with pytest.raises(FrnError, match="returned a feature map that is not finite, or zero"):
                finder.maps(pixels, 1.0)


def test_a_network_that_depends_on_its_size_is_refused() -> None:
    model = onnx.load_model_from_string(load_extractor("conv4", "cpu").data)
    first = model.graph.node[0]
    model.graph.node.insert(1, onnx.helper.make_node("Reshape", [first.output[0], "shape"], ["attention"]))
    with pytest.raises(FrnError, match=r"x\.onnx: is not purely convolutional, so it cannot search photos"):
        any_size(model.SerializeToString(), "x.onnx")


def test_a_small_subject_is_found_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extractor, draw = load_extractor("frn-photo", "cpu"), np.random.default_rng(0)
    moths = [np.stack([extractor.transform(draw_moth(species(n), draw, 192)) for _ in range(3)]) for n in range(3)]
    assert extractor.head
    classes = [enroll(extractor.feature_maps(each), extractor.head) for each in moths]
    sought = Sought(ClassScorer(classes), np.zeros(extractor.shape[1]))
    finder = Finder(extractor)
    for number, (left, top) in enumerate([(10, 20), (400, 30), (200, 220), (420, 210)]):
        place = {number % 3: Box(left, top, 170, 170)}
        moths_in_noise(draw, (600, 400), place).save(path := tmp_path / f"{number}.png")
        for own in (None, number % 3):
            file, box = split_box(finder.box(path, sought, own))
            assert file == path
            assert box is not None
            assert overlap(box, Box(left, top, 170, 170)) > 0.6
    (expected,) = load_extractor("frn-photo", "cpu").read([where := finder.box(path, sought)])
    with monkeypatch.context() as patch:
        patch.setattr(extractor, "feature_maps", lambda pixels: pytest.fail("the winner is embedded twice"))
        ((_, read),) = extractor.read([where])
    assert isinstance(read, Embedded)
    assert isinstance(expected[1], Embedded)
    assert (read.key, read.look) == (expected[1].key, expected[1].look)
    assert np.allclose(read.maps, expected[1].maps, atol=1e-5)
    boxed = Path(box_name(str(path), Box(1, 2, 3, 4)))
    assert finder.box(boxed, sought) == boxed  # a given box stays


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Photos:
    """Photos of 600 x 400 pixels with a moth of 170 somewhere: four of each of three kinds, and where they are."""
    root, draw = tmp_path_factory.mktemp("scenes"), np.random.default_rng(2)
    placed: Photos = {}
    for kind in range(3):
        (root / f"moth {kind}").mkdir()
        for number in range(4):
            box = Box(int(draw.integers(430)), int(draw.integers(230)), 170, 170)
            moths_in_noise(draw, (600, 400), {kind: box}).save(path := root / f"moth {kind}" / f"{number}.png")
            placed.setdefault(path.parent.name, []).append((path, box))
    return placed


def overlap(one: Box, other: Box) -> float:
    """Return the fraction of the smaller box that lies within the other: a part of a subject may be found."""
    across = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
    down = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
    return max(across, 0) * max(down, 0) / min(one.width * one.height, other.width * other.height)


def run(*words: str | Path) -> Result:
    """Run a command that succeeds."""
    ran = frn(*words)
    assert ran.exit_code == 0, ran.output
    return ran


def frn_json(*words: str | Path) -> list[dict[str, Any]]:
    """Run a command with --json and return the objects that it prints."""
    return [json.loads(line) for line in run(*words, "--json").stdout.splitlines() if line.startswith("{")]


def test_what_boxes_teach_is_stored(photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extractor, store = load_extractor("conv4", "cpu"), FeatureStore(tmp_path / "features.sqlite")
    finder, again = Finder(extractor), Finder(extractor)
    boxes = [Path(box_name(str(path), box)) for own in photos.values() for path, box in own[:2]]
    lesson = learn(finder, boxes, store)
    with monkeypatch.context() as patch:
        patch.setattr(again, "pixels", lambda path: pytest.fail("what was learned is stored"))
        stored = learn(again, boxes, store)
        missing = learn(again, [*boxes, Path(box_name(str(tmp_path / "missing.png"), Box(0, 0, 9, 9)))], store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "get_bytes", lambda *_: b"damaged")
        other = learn(Finder(extractor), boxes, store)
    assert all(np.array_equal(each.weights, lesson.weights) for each in (stored, missing, other))
    assert not learn(finder, [path for path, _ in photos["moth 0"]], store).weights.any()


def fake_finder(scenes: dict[str, tuple[np.ndarray, tuple[int, int]]]) -> Any:
    """Return a finder of photos with these maps and sizes, by name."""

    def pixels(path: Path) -> tuple[str, tuple[int, int]]:
        if path.name not in scenes:
            raise FrnError(f"{path}: cannot be read")
        return path.name, scenes[path.name][1]

    extractor = SimpleNamespace(sha256="x", shape=(16, 5), keys=lambda paths, _: [str(path) for path in paths])
    return SimpleNamespace(extractor=extractor, pixels=pixels, maps=lambda name, _: scenes[name][0])


def test_boxes_teach_a_ridge_regression_in_which_a_box_weighs_as_much_as_its_surroundings() -> None:
    draw = np.random.default_rng(0)
    scenes = {
        "a": (draw.random((4, 6, 5)), (120, 60), Box(20, 15, 40, 30)),
        "b": (draw.random((5, 3, 5)), (60, 200), Box(10, 70, 30, 100)),
        "tiny": (draw.random((3, 3, 5)), (90, 90), Box(70, 12, 1, 1)),  # the nearest cell counts as inside
        "full": (draw.random((2, 2, 5)), (50, 50), Box(0, 0, 50, 50)),
    }
    finder = fake_finder({name: (maps, size) for name, (maps, size, _) in scenes.items()})

    def expected(names: list[str]) -> np.ndarray:
        rows, targets, weights = list[np.ndarray](), list[float](), list[float]()
        for name in names:
            maps, (wide, high), (left, top, width, height) = scenes[name]
            places = [
                ((x + 0.5) * wide / maps.shape[1], (y + 0.5) * high / maps.shape[0])
                for y, x in np.ndindex(maps.shape[:2])
            ]
            inside = [left <= x <= left + width and top <= y <= top + height for x, y in places]
            if name == "tiny":
                inside[2] = True
            rows += [np.append(cell, 1) for cell in maps.reshape(-1, 5)]
            targets += [1.0 if each else -1.0 for each in inside]
            weights += [0.5 / inside.count(each) for each in inside]
        x, w = np.stack(rows), np.array(weights)[:, None]
        squares = x.T @ (w * x)
        penalty = np.append(np.full(5, 0.3 * np.trace(squares[:5, :5]) / 5), 0)
        return np.linalg.solve(squares + np.diag(penalty), x.T @ (w[:, 0] * targets))[:5]

    boxes = {name: Path(box_name(name, box)) for name, (_, _, box) in scenes.items()}
    useless = {"broken": Box(0, 0, 9, 9), "a": Box(120, 0, 9, 9), "b": Box(0, 200, 9, 9), "full": Box(9, 9, 0, 0)}
    ignored = [Path(box_name(name, box)) for name, box in useless.items()]
    lesson = learn(finder, [Path("none"), *boxes.values(), *ignored], None)
    assert np.allclose(lesson.weights, expected([*scenes]))
    assert np.allclose(lesson.without(boxes["b"]), expected(["a", "tiny", "full"]))
    assert np.allclose(lesson.without(Path("none")), lesson.weights)
    alone = learn(finder, [boxes["a"]], None)
    assert np.allclose(alone.weights, expected(["a"]))
    assert np.allclose(alone.without(boxes["a"]), alone.weights)  # a single box teaches its own photo, too
    assert not learn(finder, [], None).weights.any()


def test_examples_of_a_class_without_a_box_stay_whole(
    photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, store = Finder(load_extractor("conv4", "cpu")), FeatureStore(tmp_path / "features.sqlite")
    (first, box), *others = photos["moth 0"]
    paths = [path for path, _ in others]
    whole = [path for path, _ in photos["moth 1"]]
    state = listed_state({"a": [Path(box_name(str(first), box)), *paths, tmp_path / "gone.png"], "b": whole})
    boxed, plain = boxed_examples(finder, state, store).classes
    given, *found, gone = [split_box(support.path) for support in boxed.supports]
    assert given == (first, box)
    assert [path for path, _ in found] == paths
    assert all(each is not None for _, each in found)
    assert gone == (tmp_path / "gone.png", None)
    assert plain == state.classes[1]
    monkeypatch.setattr(finder, "located", lambda *_: pytest.fail("what was found is stored"))
    assert boxed_examples(finder, state, store).classes == (boxed, plain)
    for unchanged in (listed_state({"a": paths, "b": whole}), listed_state({"a": [boxed.supports[0].path], "b": []})):
        assert boxed_examples(finder, unchanged, store) is unchanged


def test_leave_one_out_of_whole_photos_is_that_of_enrollment(photos: Photos) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu"))
    classifier.enroll({name: [path for path, _ in own[:k]] for k, (name, own) in enumerate(photos.items(), 2)})
    results = classifier.leave_out_photos(classifier.left_out_photos, classifier.example_maps())
    assert classifier.left_out is not None
    for result, expected in zip(results, classifier.left_out, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_an_even_selection_of_many_boxes_teaches() -> None:
    maps = np.random.default_rng(0).random((2, 2, 5))
    names = [f"{number:03}" for number in range(101)]
    boxes = [Path(box_name(name, Box(0, 0, 9, 9))) for name in names]
    finder = fake_finder(dict.fromkeys(names, (maps, (20, 20))))
    assert learn(finder, boxes, None).boxes == tuple(boxes[::2])
    assert learn(finder, boxes[:100], None).boxes == tuple(boxes[:100])


def test_examples_that_moved_still_teach_and_are_left_out(photos: Photos, tmp_path: Path) -> None:
    finder, store = Finder(load_extractor("conv4", "cpu")), FeatureStore(tmp_path / "features.sqlite")
    before, after = list[Path](), list[Path]()
    for number, (path, box) in enumerate(photos["moth 0"][:2]):
        (file := tmp_path / f"{number}.png").write_bytes(path.read_bytes())
        before.append(Path(box_name(str(file), box)))
        after.append(Path(box_name(str(tmp_path / f"{number} moved.png"), box)))
    first = learn(finder, before, store)
    expected = first.without(before[0])
    assert learn(finder, before, store, first) is first
    for old, new in zip(before, after, strict=True):
        split_box(old)[0].rename(split_box(new)[0])
    assert np.array_equal(learn(finder, after, store, first).without(after[0]), expected)


def test_one_box_per_class_finds_the_others_and_a_project_keeps_them(photos: Photos, tmp_path: Path) -> None:
    draw_moth(species(5), np.random.default_rng(9), 300).save(other := tmp_path / "other.png")
    examples = {name: [own[0], *((path, None) for path, _ in own[1:3])] for name, own in photos.items()}
    examples["unknown"] = [(other, Box(90, 40, 120, 120))]
    table = listed(tmp_path, examples)
    project = tmp_path / "moths.frn.json"
    frn_json("enroll", table, "--out", project, "--find", "one")
    assert frn_json("classify", project, other)[0]["box"] == [90, 40, 120, 120]
    stored = json.loads(project.read_text())
    assert stored["find"] == "one"
    true = {name: dict(own) for name, own in photos.items()}
    for entry in stored["classes"]:
        for image in entry["images"]:
            path, box = split_box(tmp_path / image["path"])
            assert box is not None
            assert overlap(box, true[entry["name"]][path.resolve()]) > 0.6
    queries = [own[3] for own in photos.values()]
    answers = frn_json("classify", project, *(path for path, _ in queries))
    assert [answer["label"] for answer in answers] == list(photos)
    assert all(overlap(Box(*answer["box"]), box) > 0.6 for answer, (_, box) in zip(answers, queries, strict=True))
    assert frn_json("classify", table, "--find", "one", *(path for path, _ in queries)) == answers
    example, _ = photos["moth 0"][1]  # it is scored by leave-one-out, with the box that it has
    (answer,) = frn_json("classify", project, example)
    assert answer["example_of"] == "moth 0"
    assert "box" not in frn_json("classify", project, example, "--find", "none")[0]
    run("classify", project, queries[0][0], "--out", written := tmp_path / "answers.csv", "--crops", tmp_path / "crops")
    assert answers[0]["box"] is not None
    draw_moth(species(1), np.random.default_rng(9), 192).save(full := tmp_path / "full.png")
    (answer,) = frn_json("classify", project, full)
    assert (answer["label"], answer["box"]) == ("moth 1", None)  # the whole photo has the largest margin
    run("classify", project, full, "--out", empty := tmp_path / "full.csv")
    head, row = empty.read_text().splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["width"] == ""
    head, row = written.read_text().splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["width"] == str(answers[0]["box"][2])
    (crop,) = (tmp_path / "crops").iterdir()
    assert crop.name == f"moth 0 3 {','.join(map(str, answers[0]['box']))}.png"
    assert open_image(crop).size == tuple(answers[0]["box"][2:])
    crop.write_text("mine")
    words = ("classify", project, queries[0][0], "--crops", tmp_path / "crops")
    refused = frn(*words)
    assert (refused.exit_code, crop.read_text()) == (1, "mine"), refused.stderr
    assert str(crop) in refused.stderr.replace("\n", "")
    run(*words, "--replace")
    assert open_image(crop).size == tuple(answers[0]["box"][2:])
    run("classify", project, queries[0][0], "--out", lines := tmp_path / "answers.jsonl")
    resumed = run("classify", project, *(path for path, _ in queries), "--out", lines, "--resume")
    assert "3 photos, 2 of them classified now" in resumed.stdout.replace("\n", " ")
    listed(tmp_path, examples, "gone.png,moth 0,,,,")  # without a box
    warned = run("classify", table, "--find", "one", queries[0][0]).stderr
    assert "class 'moth 0': 1 of 4 photos is missing and not used" in " ".join(warned.split())


@pytest.mark.nightly
def test_all_finds_every_subject(photos: Photos, tmp_path: Path) -> None:
    places = [Box(5, 5, 190, 190), Box(650, 20, 190, 190), Box(350, 230, 190, 190)]
    scene = moths_in_noise(np.random.default_rng(3), (900, 450), dict(enumerate(places)))
    scene.save(path := tmp_path / "scene.png")
    answers = frn_json("classify", listed(tmp_path, photos), path, "--find", "all")
    assert sorted(answer["label"] for answer in answers) == list(photos)
    assert all(overlap(Box(*answer["box"]), places[int(answer["label"][-1])]) > 0.6 for answer in answers)
    assert all(answer["image"].startswith(f"{path}#xywh=") for answer in answers)


def test_the_library_searches_as_the_command_does(photos: Photos, tmp_path: Path) -> None:
    paths = {name: [path for path, _ in own[:3]] for name, own in list(photos.items())[:2]}
    boxed = {name: [box_name(str(own[0]), photos[name][0][1]), str(own[1])] for name, own in paths.items()}
    few = FewShotClassifier("conv4", find=True, device="cpu").fit(boxed)
    few.partial_fit({name: own[2:] for name, own in paths.items()}).save(path := tmp_path / "x.frn.json")
    state = load_project(path).state
    assert state.search == "one"
    split = {entry.name: [split_box(photo.path) for photo in entry.supports] for entry in state.classes}
    assert {name: [file.resolve() for file, _ in own] for name, own in split.items()} == paths
    assert all(box for own in split.values() for _, box in own)
    query = photos["moth 2"][0][0]
    answer = frn_json("classify", path, query)[0]
    expected = few.predict_proba([query])
    assert few.error_map(query).mean((1, 2)).argmin() == expected[0].argmax()
    for photo in (query, Image.open(query)):
        assert few.predict_proba([photo])[0] == pytest.approx([*answer["probabilities"].values()], abs=2e-6)
    for other in (pickle.loads(pickle.dumps(few)), FewShotClassifier.load(path)):
        assert np.array_equal(other.predict_proba([query]), expected)
    pixels = np.asarray(Image.open(query))
    with pytest.raises(FrnError, match="find needs examples that are files"):
        FewShotClassifier("conv4", find=True, device="cpu").fit([query, pixels], ["a", "b"])
    with pytest.raises(FrnError, match="find must be True, False or one of none, one, all, auto, not 'two'"):
        FewShotClassifier("conv4", find="two").fit(boxed)  # type: ignore[arg-type]


def test_the_library_says_what_auto_decides(tmp_path: Path) -> None:
    moths = {f"moth {kind}": [tmp_path / f"{kind}{number}.png" for number in range(2)] for kind in range(2)}
    for kind, own in enumerate(moths.values()):
        for number, path in enumerate(own):
            draw_moth(species(kind), np.random.default_rng(number), 96).save(path)
    with pytest.warns(FrnWarning, match="subjects are not searched for") as caught:
        few = FewShotClassifier("conv4", find="auto", device="cpu").fit(moths)
    assert [each.filename for each in caught] == [__file__]
    few.save(path := tmp_path / "x.frn.json")
    state = load_project(path).state
    assert [[photo.path for photo in entry.supports] for entry in state.classes] == [*moths.values()]
    plain = FewShotClassifier("conv4", find=False, device="cpu").fit(moths)
    assert np.array_equal(few.predict_proba(moths["moth 0"]), plain.predict_proba(moths["moth 0"]))


def test_a_box_on_something_else_is_named(photos: Photos, tmp_path: Path) -> None:
    (path, box), own = photos["moth 1"][2], photos["moth 1"]
    wrong = Box(0 if box.left > 215 else 430, 0 if box.top > 115 else 230, 170, 170)  # the farthest corner
    table = listed(tmp_path, {**photos, "moth 1": [*own[:2], (path, wrong), *own[3:]]})
    said = " ".join(run("enroll", table, "--out", tmp_path / "moths.frn.json", "--find", "one").output.split())
    assert re.findall(r"check the box (\S+ \S+):", said) == [box_name("moth 1/2.png", wrong)]


@pytest.mark.parametrize(
    ("counts", "right", "note"),
    [
        ((2,), (), "not searched for: leave-one-out needs two classes, one of them with two photos"),
        ((2, 2), (), "not searched for: leave-one-out is right for 4 of 4 examples with it, 4 without"),
        ((2, 2, 1), (1, 2), "not searched for: leave-one-out is right for 2 of 4 examples with it, 1 without"),
        ((2, 2, 1), (1, 3), "searched for: leave-one-out is right for 3 of 4 examples with it, 1 without"),
    ],
)
def test_auto_searches_if_two_more_examples_are_right(
    tmp_path: Path, counts: tuple[int, ...], right: tuple[int, ...], note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, count in enumerate(counts):
        (home := tmp_path / f"moth {kind}").mkdir()
        for number in range(count):
            draw_moth(species(kind), np.random.default_rng(number), 96).save(home / f"{number}.png")
    if right:
        values = iter(right)
        monkeypatch.setattr(LeftOut, "right", property(lambda _: next(values)))
    classifier, notes = load_classifier(tmp_path, "conv4", find="auto")
    assert str(notes[-1]) == f"subjects are {note}"
    assert classifier.state.search == ("none" if note.startswith("not") else "one")


@pytest.mark.nightly
@pytest.mark.parametrize("small", [True, False])
def test_auto_searches_if_subjects_are_small(photos: Photos, tmp_path: Path, small: bool) -> None:
    filling: dict[str, list[tuple[Path, Box | None]]] = {
        f"moth {kind}": [(tmp_path / f"{kind}{place}.png", None) for place in range(4)] for kind in range(3)
    }
    for kind, own in enumerate(filling.values()):
        for place, (path, _) in enumerate(own):
            draw_moth(species(kind), np.random.default_rng(place), 192).save(path)
    classifier, notes = load_classifier(listed(tmp_path, photos if small else filling), find="auto")
    assert classifier.state.search == ("one" if small else "none")
    assert str(notes[-1]).startswith("subjects are searched for" if small else "subjects are not searched for")


def test_an_export_finds_what_python_finds(photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = listed(tmp_path, {name: own[:3] for name, own in photos.items()})
    run("enroll", table, "--out", project := tmp_path / "moths.frn.json", "--find", "one", "--model", "conv4")
    run("export", "--classes", project, "--out", tmp_path / "out")
    queries = [own[3][0] for own in photos.values()]
    answers = frn_json("classify", project, *queries)
    monkeypatch.chdir(tmp_path / "out")
    blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
    opening, classifying, finding = (
        next(block for block in blocks if word in block) for word in ("def open_photo", '"classifier.onnx"', "finder")
    )
    code = opening + finding + classifying.replace('np.asarray(open_photo("photo.jpg"))', "image")
    for answer, query in zip(answers, queries, strict=True):
        values: dict[str, Any] = {}
        exec(code.replace("photo.jpg", str(query)), values)
        left, top, right, bottom = max(
            values["boxes"], key=lambda box: values["margin"](np.asarray(values["photo"].crop(box)))
        )
        assert [left, top, right - left, bottom - top] == answer["box"]
        assert values["label"] == answer["label"]
        assert values["known"] == pytest.approx(answer["known"], abs=2e-3)


def test_few_photos_explain_less_of_a_searched_example(
    photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extractor, store = load_extractor("conv4", "cpu"), FeatureStore(tmp_path / "features.sqlite")
    files = {
        name: [path for path, _ in own[: 1 if place == 0 else 3]] for place, (name, own) in enumerate(photos.items())
    }
    classifier, again, project, foreign = (Classifier(extractor, store) for _ in range(4))
    state = replace(listed_state(files), search="one")
    classifier.enroll_state(state)
    monkeypatch.setattr("frn.inference.map_classifier.left_out", lambda *_: pytest.fail("it is stored"))
    again.enroll_state(state)
    project.enroll_state(classifier.state)
    assert classifier.head == again.head == project.head
    assert {classifier.uses_project_head, again.uses_project_head, project.uses_project_head} == {False}
    monkeypatch.undo()
    assert classifier.state.head
    other = replace(classifier.head, gamma=2 * classifier.head.gamma)
    foreign.enroll_state(replace(classifier.state, head=replace(classifier.state.head, head=other)))
    assert (foreign.head, foreign.uses_project_head) == (other, True)
    assert classifier.left_out is not None
    errors, labels, energies, _, smaller = classifier.left_out
    share, usual = without_one([*classifier.classes.values()][-1].allowance, 3, 1)
    own_errors = errors[np.arange(len(labels)), labels]
    is_usual, plain = own_errors < usual * energies, (own_errors + share * usual * energies) / (1 + share)
    assert smaller[:, 0].mean() > np.where(is_usual, own_errors, plain).mean()  # without the allowance
    whole = Classifier(extractor, store)
    whole.enroll(files)
    assert whole.left_out is not None
    assert not np.allclose(errors, whole.left_out.errors)  # the subject of each example was searched for
    assert (smaller >= 0).all()
    assert len(classifier.rule.offsets) == len(files)
