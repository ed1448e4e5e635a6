"""Measure the search for the subject of each photo (`frn.inference.find`).

    python assets/benchmarks/find.py --boxed raccoons --boxed cards/train --pasted cub --backgrounds scenes

`--boxed` are photos with annotated boxes (a folder or file, as for `frn enroll`), of which those with exactly one box
are used; all sources together are one set. `--pasted` are data sets (DATA/val/CLASS/photo), whose photos are pasted at
a random place into a photo of `--backgrounds`, a folder of folders, so that they cover `--share` of its shorter side;
each share has its table. Accuracy in percent, as the mean of the draws:

    whole                    whole photos everywhere
    boxed examples           boxes on the examples, new photos whole
    boxed, found             boxes on the examples, the subject of each new photo found
    boxed, a fifth wrong     the same, with the box of every fifth example elsewhere in its photo
    wrong boxes named        percentage of these boxes that `frn enroll` doubts
    right boxes named        percentage of the other boxes that it doubts
    one box, found           one box per class; the other examples and the new photos found
    whole, found             no box: whole examples, the subject of each new photo found
    all boxed                boxes on the new photos as well
    filling                  the photos before they are pasted, whole
    filling, found           the same, searched all the same
    filling, auto            the same, searched if leave-one-out says that it gains (`--find auto`)
    overlap                  intersection of the found box and the true one over their union (row `boxed, found`)

Of `--pasted`, `--several` photos with 0 to 5 subjects are searched with `--find all`: precision and recall of boxes
that overlap a subject by half, the fraction of these with the right class, and the mean error of their number.

The last lines give the milliseconds to embed a photo, whole and with the search, on one core.

With `--tta`, the sets are not searched: the photos, pasted and filling, are classified with `--tta none`, `views` and
`auto`. The table has the accuracy, the processor time of a new photo from file to answer as a multiple of that without
(the median over parts of 20 photos), and the percentage of photos that got a second look.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench.photos import draw_classes, pooled_classes
from bench.subjects import Draw, boxed_photos, elsewhere, overlap, paste, several, whole
from numpy.typing import NDArray

from frn.cli.shell.console import print_table
from frn.data.folders import scan
from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor, Tta
from frn.features.feature_cache import Maps
from frn.images.boxes import box_name, split_box
from frn.images.opening import open_image
from frn.images.transforms import Pixels
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrollment import listed_state
from frn.inference.find.examples import learn
from frn.inference.find.finder import Finder, Sought
from frn.inference.lessons import doubtful_boxes
from frn.models.zoo import DEFAULT_MODEL
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.tuning import tune_by_leave_one_out

WAY, PART = 5, 20
TTAS: tuple[Tta, ...] = ("none", "views", "auto")


class Memory(Finder):
    """A finder that keeps what it has computed."""

    def __init__(self, extractor: Extractor) -> None:
        super().__init__(extractor)
        self.decoded: dict[Path, tuple[Pixels, tuple[int, int]]] = {}
        self.looks: dict[tuple[float, tuple[int, ...], bytes], Maps] = {}
        self.embedded: dict[Path, Maps] = {}

    def pixels(self, path: Path) -> tuple[Pixels, tuple[int, int]]:
        """Return the pixels of a photo, from memory."""
        if path not in self.decoded:
            self.decoded[path] = super().pixels(path)
        return self.decoded[path]

    def maps(self, pixels: Pixels, scale: float) -> Maps:
        """Return the map of a photo at a scale, from memory."""
        return self._kept(pixels, scale, lambda: super(Memory, self).maps(pixels, scale))

    def look(self, pixels: Pixels) -> Maps:
        """Return the map of a part of a photo, from memory."""
        return self._kept(pixels, 0, lambda: super(Memory, self).look(pixels))

    def _kept(self, pixels: Pixels, scale: float, compute: Callable[[], Maps]) -> Maps:
        key = scale, pixels.shape, hashlib.blake2b(pixels.tobytes(), digest_size=16).digest()
        if key not in self.looks:
            self.looks[key] = compute()
        return self.looks[key]

    def embed(self, paths: Sequence[Path]) -> Maps:
        """Return the maps (n, r, d) of photos or boxes of photos, from memory."""
        for path in paths:
            if path not in self.embedded:
                pixels = self.extractor.transform(open_image(path))
                (self.embedded[path],) = self.extractor.feature_maps(pixels[None])
        return np.stack([self.embedded[path] for path in paths])


def enrolled(finder: Memory, examples: Sequence[Sequence[Path]]) -> Sought:
    """Return classes of these photos, and what their boxes teach."""
    pools = [finder.embed(paths) for paths in examples]
    head = tune_by_leave_one_out(pools, finder.extractor.prior)
    lesson = learn(finder, [path for paths in examples for path in paths], None)
    return Sought(ClassScorer([enroll(pool, head) for pool in pools]), lesson.weights)


def accuracy(finder: Memory, sought: Sought, paths: Sequence[Path], labels: NDArray[np.intp]) -> float:
    """Return the percentage of photos, or boxes of photos, that get their label."""
    return 100 * float((sought.scorer.class_error(finder.embed(paths)).argmin(1) == labels).mean())


def measure(finder: Memory, draw: Draw) -> dict[str, float]:
    """Return the value of each row for a draw of boxed photos."""

    def right(sought: Sought, paths: Sequence[Path]) -> float:
        return accuracy(finder, sought, paths, draw.labels)

    def found(sought: Sought) -> list[Path]:
        return [finder.box(path, sought) for path in new]

    new = [whole(path) for path in draw.queries]
    boxed, plain = enrolled(finder, draw.examples), enrolled(finder, [[*map(whole, own)] for own in draw.examples])
    seeds = enrolled(finder, [own[:1] for own in draw.examples])
    one = enrolled(
        finder,
        [
            [own[0], *(finder.box(whole(path), seeds, label) for path in own[1:])]
            for label, own in enumerate(draw.examples)
        ],
    )
    wrong = [[(elsewhere(path) if n % 5 == 1 else path) for n, path in enumerate(own)] for own in draw.examples]
    astray = enrolled(finder, wrong)
    places = found(boxed)
    pairs = [(split_box(place)[1], split_box(true)[1]) for place, true in zip(places, draw.queries, strict=True)]
    return {
        "whole": right(plain, new),
        "boxed examples": right(boxed, new),
        "boxed, found": right(boxed, places),
        "boxed, a fifth wrong": right(astray, found(astray)),
        **doubts(finder, wrong),
        "one box, found": right(one, found(one)),
        "whole, found": right(plain, found(plain)),
        "all boxed": right(boxed, draw.queries),
        "overlap": float(np.mean([overlap(box, true) if box else 0.0 for box, true in pairs if true])),
    }


def doubts(finder: Finder, wrong: Sequence[Sequence[Path]]) -> dict[str, float]:
    """Return the percentages of wrong and right boxes that are doubted; every fifth is wrong."""
    if len(wrong[0]) == 1:  # there is no leave-one-out
        return {}
    classifier = Classifier(finder.extractor, finder=finder)
    classifier.enroll_state(replace(listed_state({str(label): own for label, own in enumerate(wrong)}), search="one"))
    named = {photo.path for photo in doubtful_boxes(classifier, classifier.example_maps().__getitem__)}
    shares = [[path in named for own in wrong for n, path in enumerate(own) if (n % 5 == 1) == bad] for bad in (1, 0)]
    return {
        f"{kind} boxes named": 100 * float(np.mean(own)) for kind, own in zip(("wrong", "right"), shares, strict=True)
    }


def measure_filling(finder: Memory, draw: Draw) -> dict[str, float]:
    """Return the value of each row for a draw of photos that the subject fills."""
    sought = enrolled(finder, draw.examples)
    photos = {"filling": draw.queries, "filling, found": [finder.box(path, sought) for path in draw.queries]}
    rows = {name: accuracy(finder, sought, paths, draw.labels) for name, paths in photos.items()}
    classifier = Classifier(finder.extractor, finder=finder)
    state = listed_state({str(label): own for label, own in enumerate(draw.examples)})
    classifier.enroll_state(replace(state, search="auto"))
    rows["filling, auto"] = rows["filling" if classifier.state.search == "none" else "filling, found"]
    return rows


def compare_tta(model: str, draw: Draw) -> dict[str, float]:
    """Return accuracies, times and the share of second looks of a draw with each test-time augmentation."""
    classifiers = [Classifier(load_extractor(model, "cpu", tta)) for tta in TTAS]
    for classifier in classifiers:
        classifier.enroll({str(label): [*map(whole, own)] for label, own in enumerate(draw.examples)})
    predictions: list[list[Prediction]] = [[] for _ in TTAS]
    times: list[list[float]] = []
    for start in range(0, len(draw.queries), PART):  # each in turn, so that a busy machine slows all of them
        times.append([])
        for classifier, answers in zip(classifiers, predictions, strict=True):
            before = time.process_time()
            found = [*classifier.classify(map(whole, draw.queries[start : start + PART]))]
            times[-1].append(time.process_time() - before)
            answers += [answer for _, answer in found if isinstance(answer, Prediction)]
    row = {
        tta: 100 * float(np.mean([int(each.label) for each in answers] == draw.labels))
        for tta, answers in zip(TTAS, predictions, strict=True)
    }
    ratios = np.median(np.array(times) / np.array(times)[:, :1], axis=0).tolist()
    sureness = np.array([max(each.probabilities.values()) for each in predictions[0]])
    second = classifiers[-1].second
    assert second is not None  # the last of TTAS is auto
    times_of = {f"{tta}, time": ratio for tta, ratio in zip(TTAS[1:], ratios[1:], strict=True)}
    return row | times_of | {"second looks": 100 * float((sureness < second.sure).mean())}


def measure_several(
    extractor: Extractor,
    examples: Sequence[Sequence[Path]],
    filling: Sequence[Sequence[Path]],
    scenes: Sequence[Path],
    count: int,
    home: Path,
) -> str:
    """Return precision, recall and the other numbers of `count` photos of several subjects."""
    classifier, draws = Classifier(extractor), np.random.default_rng(0)
    state = listed_state({str(label): own for label, own in enumerate(examples)})
    classifier.enroll_state(replace(state, search="all"))
    found, true, hits, right, off = 0, 0, 0, 0, 0
    for number in range(count):
        labels = draws.integers(len(filling), size=number % 6).tolist()
        photos = [(str(label), filling[label][int(draws.integers(len(filling[label])))]) for label in labels]
        larger, placed = several(scenes[int(draws.integers(len(scenes)))], photos, draws)
        larger.save(file := home / f"several-{number}.png", compress_level=1)
        names = classifier.subjects(file)
        answers = [answer for _, answer in classifier.classify(names)]
        found, true, off = found + len(names), true + len(placed), off + abs(len(names) - len(placed))
        for name, answer in zip(names, answers, strict=True):
            box, remaining = split_box(name)[1], list(placed)
            hit = next((one for one in remaining if box and overlap(box, one[1]) >= 0.5), None)
            if hit and isinstance(answer, Prediction):
                placed.remove(hit)
                hits, right = hits + 1, right + (answer.label == hit[0])
    return (
        f"all subjects: precision {hits / max(found, 1):.2f}, recall {hits / max(true, 1):.2f}, right class "
        f"{right / max(hits, 1):.2f}, number off by {off / count:.2f} of {true / count:.2f}"
    )


def milliseconds(finder: Finder, paths: Sequence[Path], sought: Sought) -> list[float]:
    """Return the time per photo to embed the whole photo, and its subject."""
    spent = []
    for found in (lambda path: path, lambda path: finder.box(path, sought)):
        start = time.process_time()
        for path in paths:
            list(finder.extractor.read([found(path)]))
        spent.append(1000 * (time.process_time() - start) / len(paths))
    return spent


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxed", type=Path, action="append", default=[], help="Photos with annotated boxes.")
    parser.add_argument("--pasted", type=Path, action="append", default=[], help="Data set of subjects to paste.")
    parser.add_argument("--backgrounds", type=Path, help="Folder of folders of photos to paste into.")
    parser.add_argument("--share", type=float, action="append", default=[], help="Side of a pasted subject.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--shot", type=int, action="append", default=[])
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--several", type=int, default=18, help="Number of photos with several subjects.")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--tta", action="store_true", help="Compare test-time augmentation instead.")
    parser.add_argument("--way", type=int, default=WAY)
    return parser


def pasted(
    filling: Sequence[Sequence[Path]], scenes: Sequence[Path], share: float, home: Path, draws: np.random.Generator
) -> list[list[Path]]:
    """Paste photos into scenes, and return these with the boxes of the photos."""
    boxed = list[list[Path]]()
    for label, paths in enumerate(filling):
        boxed.append([])
        for place, path in enumerate(paths):
            larger, box = paste(path, scenes[int(draws.integers(len(scenes)))], share, draws)
            larger.save(file := home / f"{label}-{place}.png", compress_level=1)
            boxed[-1].append(Path(box_name(str(file), box)))
    return boxed


def values_of(
    finder: Memory,
    boxed: Sequence[Sequence[Path]],
    filling: Sequence[Sequence[Path]],
    shot: int,
    options: argparse.Namespace,
    draws: np.random.Generator,
) -> dict[str, float]:
    """Return the value of each row for a draw of photos."""
    if options.tta:
        kinds = {"pasted": boxed, "filling": filling}
        tables = {
            kind: compare_tta(options.model, Draw.of(photos, shot, options.queries, draws))
            for kind, photos in kinds.items()
        }
        return {f"{kind}, {name}": value for kind, table in tables.items() for name, value in table.items()}
    values = measure(finder, Draw.of(boxed, shot, options.queries, draws))
    if filling:
        values |= measure_filling(finder, Draw.of(filling, shot, options.queries, draws))
    return values


def main() -> None:
    """Print a table for each set, and the times."""
    options = parser().parse_args()
    extractor, shots = load_extractor(options.model, "cpu"), options.shot or [1, 5]
    need = max(shots) + options.queries
    scenes = [path for files in scan(options.backgrounds).members.values() for path in files] if options.pasted else []
    sets = [(data, share) for data in options.pasted for share in options.share or [0.45]]
    for number, (data, share) in enumerate([(None, 0.0)] * bool(options.boxed) + sets):
        rows: dict[str, dict[int, list[float]]] = {}
        with tempfile.TemporaryDirectory() as home:
            finder, filling = Memory(extractor), list[list[Path]]()
            for seed in range(options.draws):
                draws, folder = np.random.default_rng([number, seed]), Path(home, str(seed))
                if data is None:
                    boxed = [paths for paths in boxed_photos(options.boxed).values() if len(paths) >= need]
                else:
                    drawn = draw_classes(pooled_classes([data / options.split]), options.way, need, seed, least=need)
                    filling = [*drawn.values()]
                    folder.mkdir()
                    boxed = pasted(filling, scenes, share, folder, draws)
                for shot in shots:
                    for name, value in values_of(finder, boxed, filling, shot, options, draws).items():
                        rows.setdefault(name, {}).setdefault(shot, []).append(value)
            title = f"{data.name} at {share:.0%}" if data else "boxed photos"
            print(f"\n{title}: {len(boxed)} classes, {options.draws} draws")
            cells = [
                [name, *(f"{np.mean(own):.{2 if name == 'overlap' else 1}f}" for own in each.values())]
                for name, each in rows.items()
            ]
            print_table(["", *(f"{shot} shot" + "s" * (shot > 1) for shot in shots)], cells)
            if options.tta:
                continue
            if filling:
                examples, rest = ([own[: max(shots)] for own in boxed], [own[max(shots) :] for own in filling])
                print(measure_several(extractor, examples, rest, scenes, options.several, Path(home)))
            paths = [whole(path) for own in boxed for path in own[:4]]
            plain, found = milliseconds(Finder(extractor), paths, enrolled(finder, [own[:5] for own in boxed]))
            print(
                f"milliseconds per photo: {plain:.1f} whole, {found:.1f} found ({found / plain:.1f} times)", flush=True
            )


if __name__ == "__main__":
    main()
