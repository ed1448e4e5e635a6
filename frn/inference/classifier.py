"""Classifier from a few images per class: it assigns a query to the enrolled class that reconstructs it best."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, tee
from operator import is_not
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps
from frn.images.boxes import box_name, split_box
from frn.images.near_copies import Looks, nearest_copies
from frn.inference.enrolled_form import (
    EnrolledForm,
    LeftOut,
    are_alike,
    as_project_head,
    form_key,
    head_of,
    store_copies,
    store_head,
    stored_copies,
    to_bytes,
)
from frn.inference.enrollment import (
    Enrollment,
    describe_unused,
    keys_of,
    left_out_places,
    listed_state,
    usable,
    usable_examples,
)
from frn.inference.find import MOST, Finder, distinct, margins
from frn.inference.records import Prediction as Prediction
from frn.inference.scorers import Comparison, OtherHead, Reconstruction, Scorer
from frn.inference.unknown import (
    FALSE_REJECTIONS,
    Calibration,
    KnownRule,
    Measures,
    Shares,
    calibrate,
    explained,
    stride,
)
from frn.projects.copies import without_copies
from frn.projects.session import State, Support, describe_copies
from frn.ridge.enrolment import EnrolledClass, Floats
from frn.ridge.parameters import HeadParameters, probabilities
from frn.ridge.tuning import with_gamma

CHUNK = 64
"""Number of examples that are compared with all classes at once."""


class Classifier:
    """An extractor with enrolled classes. Classes may have different numbers of images."""

    def __init__(
        self,
        extractor: Extractor,
        store: FeatureStore | None = None,
        other: OtherHead | None = None,
        finder: Finder | None = None,
    ) -> None:
        """Start without classes. The store keeps the feature maps of example images from one run to the next.

        A head other than FRN's is `other` or found next to the model; `finder` searches photos for their subject.
        Raises FrnError as `OtherHead.find`.
        """
        self.extractor = extractor
        self.store = store
        self.head = extractor.head or HeadParameters()
        """Alpha, beta and gamma; chosen again whenever the classes change (`ridge.tuning`)."""
        self.other = None if extractor.head else other or OtherHead.find(extractor)
        """The head of a model with another one."""
        self.uses_project_head = False
        """True if the head is the project's (`State.head`) and differs from the one that these examples would get."""
        self.state = State()
        self.closer = Classifier(extractor.closer, store) if extractor.closer else None
        """With `--tta auto`: the same classes as seen in views, for a second look at photos whose answer is unsure."""
        self.sure = 0.0
        """Probability of the best class below which a photo gets a second look."""
        self.threshold_override: float | None = None
        """Minimum `known` of an image; None calibrates it on the examples."""
        self.false_rejections = FALSE_REJECTIONS
        """Fraction of known images that the calibrated rule rejects."""
        self.classes: dict[str, EnrolledClass] = {}
        """Enrolled classes by name; empty with another head, whose classes are the maps of their examples, `pools`."""
        self.pools: dict[str, Maps] = {}
        self._finder = finder
        self._boxes: dict[str, Path] = {}
        """Names with boxes of the examples, by content key of their whole photo, if subjects are searched for."""
        self.maps: Mapping[str, Maps] | None = None
        """Feature maps (r, d) of the examples by content key; None until they are needed."""
        # These are parts of the enrolled form, which describes them.
        self.leave_one_out: dict[str, Shares] = {}
        self.looks: dict[str, bytes] = {}
        self.copies: dict[str, str] = {}
        """Photos of the classes that are not used, because they are copies (`copies.find_copies`)."""
        self._looks: tuple[State, list[tuple[Looks, list[Support]]]] | None = None
        """The looks and the examples of each class, of this state."""
        self._scorer: Scorer | None = None
        self.left_out: LeftOut | None = None
        self.other_maps: Mapping[str, Maps] = {}
        """Feature maps (r, d), by content key, of photos that the user marked as none of the classes."""
        self.others: Measures | None = None
        """Errors (n, way), energies (n,) and distances (n, way) of these photos."""
        self._calibration: tuple[tuple[object, ...], Calibration] | None = None
        """The last calibration, with its arguments."""

    @property
    def rule(self) -> KnownRule:
        """Rule that decides whether an image is unknown."""
        rule, threshold = self.calibration.rule, self.threshold_override
        return rule if threshold is None else replace(rule, threshold=threshold)

    @property
    def threshold(self) -> float:
        """Probability of belonging to one of the classes below which an image is unknown."""
        return self.rule.threshold

    @property
    def calibration(self) -> Calibration:
        """Rule calibrated on the examples, and its expected error rates."""
        if self.left_out is None:
            raise FrnError("no classes yet: enroll some first")
        errors, labels, energies, distances, smaller = self.left_out
        given = (self.left_out, self.head, self.false_rejections, self.others)
        if self._calibration is None or any(map(is_not, given, self._calibration[0])):
            measures = errors, energies, distances
            counts = [len(entry.supports) for entry in self.state.classes]
            found = calibrate(measures, labels, self.head.gamma, self.false_rejections, self.others, counts, smaller)
            self._calibration = given, found
        return self._calibration[1]

    def enroll(self, classes: Mapping[str, Sequence[Path]], others: Sequence[Path] = ()) -> list[FrnError]:
        """Enroll image files as classes, replacing earlier ones, and `others` as photos of no class.

        Everything else is as for `enroll_state`.
        """
        return self._enroll(listed_state(classes, others)) + self.enroll_closer()

    def enroll_state(self, state: State) -> list[FrnError]:
        """Enroll the classes of a session or project that have photos. This is how every door opens classes.

        The current content of a photo counts, whatever is stored. Photos whose files have not changed since they were
        last read are not opened if their maps are stored. A missing photo is not used, and neither is a class that
        has only missing ones.

        Returns what to report: for each class, how many photos are missing or have changed; why others were skipped
        (unreadable, or repeated); whether the head comes from the project. Raises FrnError if all photos of
        all classes are missing, or a class has photos, but none that can be read.
        """
        listed = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        notes = self._enroll(listed) if state.search != "auto" else self._choose(listed)
        notes += self.enroll_closer()
        self.threshold_override = state.threshold
        return notes

    def _choose(self, listed: State) -> list[FrnError]:
        """Enroll classes, and search for subjects if leave-one-out gains two examples; a single one is chance.

        Both ways, the example photos are classified like new ones: whole, or their subjects.
        """
        self._enroll(replace(listed, search="none"))
        examples = [s for entry in self.state.classes if len(entry.supports) > 1 for s in entry.supports]
        examples = examples[:: stride(len(examples), "one")]
        right, why = [0, 0], "leave-one-out needs two classes, one of them with two photos"
        if len(self.names) > 1 and examples:
            whole = self.finder.left_out(
                self.state, examples, [*self.classes.values()], self.head, self.example_maps(), self.store, whole=True
            )
            notes = self._enroll(replace(listed, search="one"))
            assert self.left_out is not None  # it has been enrolled
            right = [whole.right, self.left_out.right]
            why = f"leave-one-out is right for {right[1]} of {len(examples)} examples with it, {right[0]} without"
        if right[1] - right[0] < 2:
            return [*self._enroll(replace(listed, search="none")), FrnError(f"subjects are not searched for: {why}")]
        return [*notes, FrnError(f"subjects are searched for: {why}")]

    @property
    def finder(self) -> Finder:
        """Return what searches photos for their subject. Raises FrnError if the model cannot."""
        if self._finder is None:
            self._finder = Finder(self.extractor)
        return self._finder

    def remember_photos(self, state: State) -> State:
        """Remember the whole photo of each example if subjects are searched for; return the state with their hash.

        Photos of no class that have a box keep it as well.
        """
        if state.search == "none":
            return replace(state, whole_photos="")
        paths = [support.path for entry in state.classes for support in entry.supports]
        others = [other.path for other in state.others if split_box(other.path)[1] is not None]
        keys = self.extractor.keys([split_box(path)[0] for path in (*paths, *others)], self.store)
        self._boxes = {key: path for key, path in zip(keys, (*paths, *others), strict=True) if isinstance(key, str)}
        whole = json.dumps([key if isinstance(key, str) else "" for key in keys[: len(paths)]])
        return replace(state, whole_photos=hashlib.blake2b(whole.encode(), digest_size=16).hexdigest())

    def read(
        self, paths: Iterable[Path], store: FeatureStore | None = None
    ) -> Iterator[tuple[Path, Embedded | FrnError]]:
        """Embed image files in order, each as it is classified: its subject, if subjects are searched for."""
        if self.state.search == "none":
            yield from self.extractor.read(paths, store=store)
            return
        searched: deque[tuple[Path, str]] = deque()  # what the extractor reads ahead

        def subjects() -> Iterator[Path]:
            for path in paths:
                (key,) = self.extractor.keys([path], self.store)
                searched.append((path, "" if isinstance(key, FrnError) else key))
                yield self.subject(path, searched[-1][1])

        for where, outcome in self.extractor.read(subjects(), store=store):
            path, key = searched.popleft()
            box = split_box(where)[1]
            yield path, outcome if isinstance(outcome, FrnError) else replace(outcome, box=box, whole=key)

    def subject(self, path: Path, key: str | None = None) -> Path:
        """Return a photo's name with the box of its subject, if subjects are searched for and it is a part of it.

        `key` is the photo's content key, if it is known.
        """
        if self.state.search == "none" or split_box(path)[1] is not None:
            return path
        key = key or str(self.extractor.keys([path], self.store)[0])
        if key in self._boxes:  # an example, which has its box
            return Path(box_name(str(path), box)) if (box := split_box(self._boxes[key])[1]) else path
        assert isinstance(self.scorer, Reconstruction)  # the finder refuses other heads
        return self.finder.located(path, self.scorer.joined)

    def subjects(self, path: Path) -> list[Path]:
        """Return the names of all subjects in a photo, best first: parts that are known and overlap little.

        A photo that has a box, or cannot be read, is returned unchanged.
        """
        if split_box(path)[1] is not None:
            return [path]
        assert isinstance(self.scorer, Reconstruction)  # the finder refuses other heads
        try:
            boxes = self.finder.candidates(path, self.scorer.joined)
        except FrnError:  # reading it will say why
            return [path]
        read = [outcome for _, outcome in self.extractor.read(Path(box_name(str(path), box)) for box in boxes)]
        maps = np.stack([outcome.maps for outcome in read if isinstance(outcome, Embedded)])
        measures, rule = self.measures(maps, [None] * len(maps)), self.rule
        margin, _ = margins(*measures[:2])
        strangers = rule.known(measures) < rule.threshold
        # A part of a subject often has a larger margin than the subject, so larger boxes are preferred.
        ranks = np.argsort(-margin * np.sqrt([box.width for box in boxes]))
        ranked = [boxes[place] for place in ranks.tolist() if not strangers[place]]
        return [Path(box_name(str(path), box)) for box in distinct(ranked, MOST)]

    def subject_in(self, image: Image.Image) -> Image.Image:
        """Return the part of an upright RGB image that shows its subject."""
        assert isinstance(self.scorer, Reconstruction)  # the finder refuses other heads
        if (box := self.finder.box_in(image, self.scorer.joined)) is None:
            return image
        left, top, width, height = box
        return image.crop((left, top, min(left + width, image.width), min(top + height, image.height)))

    def enroll_closer(self, maps: Mapping[str, Maps] | None = None) -> list[FrnError]:
        """Enroll the same classes for the second look, and choose which photos get it; return what to report.

        `maps` are the examples' maps of its extractor, by content key; by default they are read from the files.

        Photos get a second look if it is right for more examples by leave-one-out. They are those whose answer is at
        most as sure as the surest one that it corrects: a smaller limit that is as good for the examples is not for
        other photos (`assets/benchmarks/find.py --tta`).
        """
        if (closer := self.closer) is None:
            return []
        closer.state = self.state
        if maps is not None or not closer._use_stored(self.state):
            closer.adopt(self.state, closer.example_maps() if maps is None else maps)
            closer.maps = maps
        if self.state.others:
            closer._read_others(self.state.others)
        assert self.left_out is not None and closer.left_out is not None  # noqa: PT018  (both have just been enrolled)
        (errors, labels, *_), (closer_errors, *_) = self.left_out, closer.left_out
        if not len(labels):
            return [FrnError("no photo is looked at twice: leave-one-out needs a class with two photos")]
        right, closer_right = (each.argmin(1) == labels for each in (errors, closer_errors))
        gains = closer_right.sum() > right.sum()
        shares = probabilities(errors, self.head.gamma).max(1)
        self.sure = float(shares[closer_right & ~right].max()) + 1e-9 if gains else 0.0
        rates = f"right for {closer_right.mean():.0%} of the examples, the first look for {right.mean():.0%}"
        looks = f"answers below {self.sure:.0%} get a second look" if gains else "no photo gets a second look"
        return [FrnError(f"{looks}: by leave-one-out, it is {rates}")]

    def left_out_answers(self) -> tuple[NDArray[np.intp], float]:
        """Return the labels (n,) of the examples for leave-one-out, and the share of them that gets a second look."""
        assert self.left_out is not None  # there are classes
        answers = self.left_out.errors.argmin(1)
        if self.closer is None or self.closer.left_out is None or not self.sure:
            return answers, 0.0
        unsure = probabilities(self.left_out.errors, self.head.gamma).max(1) < self.sure
        return np.where(unsure, self.closer.left_out.errors.argmin(1), answers), float(unsure.mean())

    def _enroll(self, listed: State) -> list[FrnError]:
        if listed.search != "none" and self.closer is not None:
            raise FrnError("--tta auto looks at whole photos again, and --find at their subject. Use one of them.")
        if listed.search != "none":
            listed = self.finder.boxed_examples(listed, self.store)
        listed = self.remember_photos(listed)
        paths = [support.path for entry in listed.classes for support in entry.supports]
        state, notes = usable(listed, self.extractor.keys(paths, self.store))
        copies = stored_copies(self.store, state, self.extractor)
        if copies is None or not self._use_stored(without_copies(state, copies)):
            outcomes = [outcome for _, outcome in self.extractor.read(paths, store=self.store)]
            state, copies, notes = usable_examples(listed, outcomes)
            found = {each.key: each for each in outcomes if isinstance(each, Embedded)}
            used = without_copies(state, copies)
            self.looks = {key: found[key].look for key in used.holders()}
            self.adopt(used, {key: each.maps for key, each in found.items()})
            store_copies(self.store, state, self.extractor, copies)
        else:
            notes += describe_copies(state, copies)
        self.copies = copies
        if self.uses_project_head:
            notes.append(FrnError("lambda and gamma come from the project; `frn enroll` chooses them for its photos"))
        return notes + (self._read_others(listed.others) if listed.others else [])

    def _read_others(self, photos: Sequence[Support]) -> list[FrnError]:
        """Calibrate with photos that belong to none of the classes; those that are examples do not count."""
        read = [found for _, found in self.read([photo.path for photo in photos], self.store)]
        keys = [found if isinstance(found, FrnError) else found.key for found in read]
        current = [
            photo if isinstance(key, FrnError) else Support.of(photo.path, key)
            for photo, key in zip(photos, keys, strict=True)
        ]
        holders = self.state.holders()
        others = {photo.key: photo for photo in current if photo.key and photo.key not in holders}
        self.state = replace(self.state, others=tuple(others.values()))
        self.mark_others({f.key: f.maps for f in read if not isinstance(f, FrnError) and f.key in others})
        return describe_unused("photos of no class", photos, keys)

    def mark_others(self, maps: Mapping[str, Maps]) -> None:
        """Calibrate with maps (r, d), by content key, of photos that belong to none of the classes."""
        self.other_maps = maps
        self.others = self.measures(np.stack([*maps.values()]), [None] * len(maps)) if maps else None

    def measures(self, maps: Maps, keys: Sequence[str | None]) -> Measures:
        """Return errors (n, way), energies (n,) and distances (n, way) of maps (n, r, d); examples by leave-one-out."""
        scorer = self.scorer
        return scorer.class_errors(maps, keys), scorer.energy(maps), scorer.distances(maps, keys)

    def _use_stored(self, state: State) -> bool:
        """Use the classes of a state if they are stored; return whether they are."""
        enrollment = Enrollment(self.extractor, self.store)
        if self.other is not None or (form := enrollment.stored(state)) is None:
            return False
        self.use(state, form)
        self.uses_project_head = enrollment.uses_project_head
        return True

    def use(self, state: State, form: EnrolledForm, scorer: Reconstruction | None = None) -> None:
        """Use classes that are already enrolled, and their scorer if there is one."""
        self.head, self.classes, self.leave_one_out = form.head, form.classes, form.leave_one_out
        self.left_out, self.looks = form.left_out, form.looks
        self._start(
            replace(state, head=as_project_head(form.head, state, self.extractor)), scorer or Reconstruction(form)
        )

    def hold(self, state: State, feature_maps: Mapping[str, Maps]) -> Comparison:
        """Take the classes of a state for another head, without leave-one-out errors, which take a run per example."""
        assert self.other is not None  # of the two kinds of heads, this is for the other one
        self.pools = {c.name: np.stack([feature_maps[s.key] for s in c.supports]) for c in state.classes}
        scorer = Comparison(self.other, self.pools, {c.name: keys_of(c) for c in state.classes})
        self._start(state, scorer)
        return scorer

    def _start(self, state: State, scorer: Scorer) -> None:
        self.state, self.maps = state, None
        self._scorer = scorer if scorer.names else None
        self.mark_others({})

    def adopt(self, state: State, feature_maps: Mapping[str, Maps]) -> None:
        """Enroll the classes of a state from feature maps (r, d), given by content key."""
        if self.other is not None:
            self.hold(state, feature_maps)
            self.left_out = errors, labels, *_ = self._leave_out(feature_maps)
            own = 1 - errors[np.arange(len(labels)), labels]
            self.leave_one_out = {
                name: own[labels == label].clip(0) for label, name in enumerate(self.pools) if (labels == label).any()
            }
            return
        if self._use_stored(state):
            return
        enrollment = Enrollment(self.extractor, self.store)
        form = replace(enrollment.enroll(state, feature_maps), looks=self.looks)
        self.use(state, form)
        self.uses_project_head = enrollment.uses_project_head
        self.complete(state, form, self._leave_out(feature_maps))

    def complete(self, state: State, form: EnrolledForm, left_out: LeftOut) -> None:
        """Add the leave-one-out results of the examples to the classes in use, and store them.

        If subjects are searched for, gamma is fitted to these results.
        """
        self.left_out = left_out
        if state.search != "none" and len(left_out.labels):
            form = replace(form, head=self._with_gamma(state), left_out=left_out)
            self.use(state, form)
        if self.store is not None and form.classes:
            key = form_key(state, self.extractor, form.head)
            with suppress(UnicodeEncodeError):  # MessagePack stores no class name that is not UTF-8
                data = to_bytes(replace(form, left_out=self.left_out), key)
                self.store.put_bytes(self.extractor.sha256, key, data)

    def _leave_out(self, feature_maps: Mapping[str, Maps]) -> LeftOut:
        """Return the leave-one-out results of the examples of classes with at least two."""
        if self.state.search != "none" and self.left_out_photos:
            classes = list(self.classes.values())
            return self.finder.left_out(self.state, self.left_out_photos, classes, self.head, feature_maps, self.store)
        places = {entry.name: label for label, entry in enumerate(self.state.classes)}
        holders = self.state.holders()
        keys = [(places[holders[support.key][0].name], support.key) for support in self.left_out_photos]
        errors, energies, distances = [np.zeros((0, len(places)))], [np.zeros(0)], [np.zeros((0, len(places)))]
        for start in range(0, len(keys), CHUNK):
            chunk = [key for _, key in keys[start : start + CHUNK]]
            maps = np.stack([feature_maps[key] for key in chunk])
            errors.append(self.scorer.class_errors(maps, chunk))
            energies.append(self.scorer.energy(maps))
            distances.append(self.scorer.distances(maps, chunk))
        labels = np.array([label for label, _ in keys], dtype=np.intp)
        smaller = self.scorer.smaller([key for _, key in keys]) if keys else np.zeros((0, 2))
        return LeftOut(np.concatenate(errors), labels, np.concatenate(energies), np.concatenate(distances), smaller)

    @property
    def left_out_photos(self) -> list[Support]:
        """Return the examples for leave-one-out: all in classes of two or more, or an even selection of many."""
        return [entry.supports[place] for entry, place in left_out_places(self.state)]

    def _with_gamma(self, state: State) -> HeadParameters:
        """Return the head with gamma for searched photos, whose margins are larger; a project keeps its own."""
        assert self.left_out is not None  # just computed
        counts = [len(entry.supports) for entry in state.classes]
        head = with_gamma(self.head, self.left_out.errors, self.left_out.labels, counts, self.extractor.prior)
        store_head(self.store, state, self.extractor, head)
        kept = head_of(state, self.extractor) or head
        self.uses_project_head = not are_alike(kept, head)
        return kept

    def classify(
        self, paths: Iterable[Path], *, transductive: bool = False
    ) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files, in order; an unreadable file yields its error, and the others are still classified.

        With `transductive`, all images refine the classes before the first answer.
        """
        asked, read = tee(self.read(paths))
        answers = self.answers((found for _, found in read), transductive=transductive)
        yield from zip((path for path, _ in asked), answers, strict=True)

    def answers(
        self, embedded: Iterable[Embedded | FrnError], *, transductive: bool = False
    ) -> Iterator[Prediction | FrnError]:
        """Yield predictions of embedded images, a batch at a time; examples are scored by leave-one-out."""
        remaining = iter(embedded)
        while batch := list(islice(remaining, None if transductive else self.extractor.batch)):
            found = [outcome for outcome in batch if isinstance(outcome, Embedded)]
            predictions = iter(self.predictions(found, transductive=transductive))
            for outcome in batch:
                if isinstance(outcome, FrnError):
                    yield outcome
                else:
                    prediction = next(predictions)
                    key, searched = outcome.whole or outcome.key, bool(outcome.whole)
                    yield replace(prediction, box=outcome.box, searched=searched, key=key)

    def predictions(
        self, found: Sequence[Embedded], *, transductive: bool = False, copies: bool = True
    ) -> list[Prediction]:
        """Classify embedded photos as `predict_all`; those whose answer is unsure after a second look, if it gains.

        Without `copies`, near copies of examples are not recognised. Raises FrnError if `transductive` is combined with
        second looks.
        """
        if transductive and self.closer is not None:
            raise FrnError("--transductive compares maps of one kind. Remove --tta auto, or use --tta views.")
        maps, keys = [each.maps for each in found], [each.key for each in found]
        predictions = self.predict_all(
            maps, keys, [each.look for each in found] if copies else None, transductive=transductive
        )
        for place, again in self._second_looks(found, predictions).items():
            assert self.closer is not None  # it has looked again
            better = self.closer.predict(again.maps, again.key)
            predictions[place] = replace(better, near_copy_of=predictions[place].near_copy_of)
        return predictions

    def answering(self, found: Embedded) -> "tuple[Classifier, Embedded]":
        """Return the classifier whose look at a photo decides, and the photo as it sees it."""
        if self.closer is None:
            return self, found
        again = self._second_looks([found], self.predict_all([found.maps], [found.key]))
        return (self.closer, again[0]) if again else (self, found)

    def _second_looks(self, found: Sequence[Embedded], predictions: Sequence[Prediction]) -> dict[int, Embedded]:
        """Return the photos that get a second look, by place, as it sees them; one that is gone gets none."""
        if self.closer is None:
            return {}
        self.closer.threshold_override, self.closer.false_rejections = self.threshold_override, self.false_rejections
        unsure = [place for place, each in enumerate(predictions) if max(each.probabilities.values()) < self.sure]
        again = self.closer.extractor.look_closer([found[place] for place in unsure], self.store)
        return {place: each for place, each in zip(unsure, again, strict=True) if isinstance(each, Embedded)}

    def near_copies(self, looks: Sequence[bytes], feature_maps: Sequence[Maps]) -> list[Support | None]:
        """Return the example that each image, with its map (r, d), is a near copy of, or None.

        The feature maps find the class whose examples are compared: that of the original reconstructs a copy best.
        """
        if not self.looks:  # the classes were adopted without looks
            return [None] * len(looks)
        if self._looks is None or self._looks[0] is not self.state:
            groups = [[s for s in entry.supports if s.key in self.looks] for entry in self.state.classes]
            self._looks = self.state, [(Looks([self.looks[s.key] for s in group]), group) for group in groups]
        columns = self.scorer.class_errors(np.stack(feature_maps), [None] * len(looks)).argmin(1)
        copies: list[Support | None] = []
        for seen, column in zip(looks, columns.tolist(), strict=True):
            examples, supports = self._looks[1][column]
            (place,) = nearest_copies(Looks([seen]), examples)
            copies.append(None if place is None else supports[place])
        return copies

    def example_maps(self) -> Mapping[str, Maps]:
        """Return the feature maps (r, d) of every example by content key; most are in the store.

        Raises FrnError if an example cannot be read, or has changed since it was enrolled.
        """
        if self.maps is None:
            sha256, shape = self.extractor.sha256, self.extractor.shape
            stored = {key: self.store and self.store.get(sha256, key, shape) for key in self.state.holders()}
            maps = {key: found[0] for key, found in stored.items() if found}
            known = {s.path: s.key for entry in self.state.classes for s in entry.supports if s.key not in maps}
            for path, outcome in self.extractor.read(known, store=self.store):
                if isinstance(outcome, FrnError):
                    raise outcome
                if outcome.key != known[path]:
                    raise FrnError(f"{path}: has changed since the classes were loaded. Load them again.")
                maps[outcome.key] = outcome.maps
            self.maps = maps
        return self.maps

    def predict(self, feature_maps: Maps, key: str | None = None, look: bytes | None = None) -> Prediction:
        """Classify one feature map (r, d). If its content key is that of an example, it is scored by leave-one-out."""
        return self.predict_all([feature_maps], [key], None if look is None else [look])[0]

    def predict_all(
        self,
        feature_maps: Sequence[Maps],
        keys: Sequence[str | None],
        looks: Sequence[bytes] | None = None,
        *,
        transductive: bool = False,
    ) -> list[Prediction]:
        """Classify feature maps (r, d); examples, recognised by their content keys, are scored by leave-one-out.

        Near copies of examples are recognised by their perceptual hashes.

        With `transductive`, the maps that are not examples refine the classes.
        """
        if not len(feature_maps):
            return []
        maps = np.stack(feature_maps)
        scorer, gamma = self.scorer, self.head.gamma
        measures, rule = self.measures(maps, keys), self.rule
        errors, explains, known = measures[0], explained(*measures[:2]), rule.known(measures)
        if transductive:
            errors, gamma = scorer.refined(errors, maps, keys, self._pools)
        shares = probabilities(errors, gamma)
        twins = self.near_copies(looks, feature_maps) if looks is not None else [None] * len(maps)

        def by_class(row: NDArray[np.floating]) -> dict[str, float]:
            return dict(zip(scorer.names, row.tolist(), strict=True))

        return [
            Prediction(
                by_class(share),
                by_class(error),
                by_class(reconstructed),
                chance,
                chance < rule.threshold,
                example,
                None if example else twin,
                transductive,
                key,
            )
            for share, error, reconstructed, chance, example, twin, key in zip(
                shares, errors, explains, known.tolist(), map(scorer.example_of, keys), twins, keys, strict=True
            )
        ]

    def error_maps(self, feature_maps: Maps, key: str | None = None) -> Floats:
        """Return the squared error of each location by each class, (r, d) to (way, h, w); examples by leave-one-out.

        Raises FrnError with a head other than FRN's, which cannot show which parts are badly reconstructed.
        """
        errors = self.scorer.location_errors(feature_maps, key)
        return self.extractor.on_grid(errors.T)

    def _pools(self) -> list[Maps]:
        examples = self.example_maps()
        return [np.stack([examples[s.key] for s in entry.supports]) for entry in self.state.classes]

    @property
    def names(self) -> list[str]:
        """Return the names of the classes."""
        return [entry.name for entry in self.state.classes]

    @property
    def scorer(self) -> Scorer:
        """Return what compares photos with the classes. Raises FrnError if there are no classes."""
        if self._scorer is None:
            raise FrnError("no classes yet: enroll some first")
        return self._scorer
