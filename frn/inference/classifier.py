"""Classifier from a few images per class: it assigns a query to the enrolled class that reconstructs it best."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, tee
from pathlib import Path

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, content_key
from frn.images.boxes import box_name, split_box
from frn.inference.enrolled_form import classes_key, keep, recall
from frn.inference.enrollment import describe_unused, listed_state, usable, usable_examples
from frn.inference.find.examples import boxed_examples, learn
from frn.inference.find.finder import LEAST_KNOWN, MOST, Finder, Sought
from frn.inference.find.windows import distinct, margins
from frn.inference.map_classifier import MapClassifier
from frn.inference.records import Prediction as Prediction
from frn.inference.scorers import OtherHead, Reconstruction
from frn.inference.second_look import SecondLook
from frn.inference.unknown.calibration import stride
from frn.projects.copies import without_copies
from frn.projects.session import State, Support, describe_copies


class Classifier(MapClassifier):
    """Enrolls and classifies image files, or their subjects; unsure answers may get a second look."""

    def __init__(
        self,
        extractor: Extractor,
        store: FeatureStore | None = None,
        other: OtherHead | None = None,
        finder: Finder | None = None,
        second: SecondLook | None = None,
    ) -> None:
        """Start without classes, as `MapClassifier`. `second` is used again if the extractor has a closer one."""
        super().__init__(extractor, store, other, finder)
        self.second = (second or SecondLook(extractor.closer, store)) if extractor.closer else None
        """With `--tta auto`: a second look at photos whose answer is unsure."""
        self.copies: dict[str, str] = {}  # photos of the classes that are not used, as copies (`copies.find_copies`)
        self._boxes: dict[str, Path] = {}
        """Names with boxes of the examples, by content key of their whole photo, if subjects are searched for."""

    def enroll(self, classes: Mapping[str, Sequence[Path]], others: Sequence[Path] = ()) -> list[FrnError]:
        """Enroll image files as classes, replacing earlier ones, and `others` as photos of no class.

        Everything else is as for `enroll_state`.
        """
        return self._enroll(listed_state(classes, others))

    def enroll_state(self, state: State) -> list[FrnError]:
        """Enroll the classes of a session or project that have photos. This is how every door opens classes.

        The current content of a photo counts, whatever is stored. Photos whose files have not changed since they were
        last read are not opened if their maps are stored. A missing photo is not used, and neither is a class that
        has only missing ones.

        Returns what to report: for each class, how many photos are missing or have changed; why others were skipped
        (unreadable, or repeated); whether the head comes from the project. Raises FrnError if all photos of
        all classes are missing, a class has photos, but none that can be read, or subjects are searched for and photos
        get a second look.
        """
        if self.second:
            self.second.require_whole(state)
        listed = replace(state, classes=tuple(entry for entry in state.classes if entry.supports))
        notes = self._enroll(listed) if state.search != "auto" else self._choose(listed)
        self.threshold_override = state.threshold
        return notes

    def _choose(self, listed: State) -> list[FrnError]:
        """Enroll classes, and search for subjects if leave-one-out gains two examples; a single one is chance.

        Both ways, the example photos are classified like new ones: whole, or their subjects.
        """
        self._enroll(replace(listed, search="none"))
        examples = [s for entry in self.state.classes if len(entry.supports) > 1 for s in entry.supports]
        examples = examples[:: stride(len(examples), "one")]
        gain, why = 0, "leave-one-out needs two classes, one of them with two photos"
        if len(self.names) > 1 and examples:
            without = self.leave_out_photos(examples, self.example_maps()).right
            notes = self._enroll(replace(listed, search="one"))
            assert self.left_out is not None  # it has been enrolled
            right, of = self.left_out.right, len(examples)
            gain, why = (
                right - without,
                f"leave-one-out is right for {right} of {of} examples with it, {without} without",
            )
        if gain < 2:
            return [*self._enroll(replace(listed, search="none")), FrnError(f"subjects are not searched for: {why}")]
        return [*notes, FrnError(f"subjects are searched for: {why}")]

    def remember_photos(self, state: State) -> State:
        """Remember the whole photo of each example if subjects are searched for, and learn from their boxes.

        Returns the state with a hash of these photos. Photos of no class that have a box keep it as well.
        """
        if state.search == "none":
            self.lesson = None
            return replace(state, whole_photos="")
        paths = [support.path for entry in state.classes for support in entry.supports]
        self.lesson = learn(self.finder, paths, self.store, self.lesson)
        others = [other.path for other in state.others if split_box(other.path)[1] is not None]
        keys = self.extractor.keys([split_box(path)[0] for path in (*paths, *others)], self.store)
        self._boxes = {key: path for key, path in zip(keys, (*paths, *others), strict=True) if isinstance(key, str)}
        photo_keys = json.dumps([key if isinstance(key, str) else "" for key in keys[: len(paths)]])
        return replace(state, whole_photos=content_key(photo_keys.encode()))

    @property
    def sought(self) -> Sought:
        """Return what photos are searched for."""
        assert isinstance(self.scorer, Reconstruction)  # the finder refuses other heads
        assert self.lesson is not None  # subjects are searched for
        return Sought(self.scorer.joined, self.lesson.weights)

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
        return self.finder.located(path, self.sought)

    def subjects(self, path: Path) -> list[Path]:
        """Return the names of all subjects in a photo, best first: parts that are known and overlap little.

        A photo that has a box, or cannot be read, is returned unchanged.
        """
        if split_box(path)[1] is not None:
            return [path]
        try:
            boxes, maps = self.finder.candidates(path, self.sought)
        except FrnError:  # reading it will say why
            return [path]
        measures = self.measures(maps, [None] * len(maps))
        margin, _ = margins(*measures[:2])
        strangers = self.rule.known(measures) < self.least_known
        # A part of a subject often has a larger margin than the subject, so larger boxes are preferred.
        ranks = np.argsort(-margin * np.sqrt([box.width for box in boxes]))
        ranked = [boxes[place] for place in ranks.tolist() if not strangers[place]]
        return [Path(box_name(str(path), box)) for box in distinct(ranked, MOST)]

    @property
    def least_known(self) -> float:
        """Return the `known` that one of several subjects needs: the threshold and, unless the user set it, 20%."""
        least = 0.0 if self.threshold_override is not None else LEAST_KNOWN
        return max(self.rule.threshold, least)

    def subject_in(self, image: Image.Image) -> Image.Image:
        """Return the part of an upright RGB image that shows its subject."""
        if (box := self.finder.box_in(image, self.sought)) is None:
            return image
        left, top, width, height = box
        return image.crop((left, top, min(left + width, image.width), min(top + height, image.height)))

    def _enroll(self, listed: State) -> list[FrnError]:
        if listed.search != "none":
            listed = boxed_examples(self.finder, listed, self.store)
        listed = self.remember_photos(listed)
        paths = [support.path for entry in listed.classes for support in entry.supports]
        state, notes = usable(listed, self.extractor.keys(paths, self.store))
        key = f"copies-{classes_key(state, self.extractor)}"
        copies = recall(self.store, self.extractor, key, dict[str, str])
        if copies is None or not self.use_stored(without_copies(state, copies)):
            notes = self.enroll_read(listed, [each for _, each in self.extractor.read(paths, store=self.store)])
        else:
            self.copies = copies
            notes += describe_copies(state, copies)
        if self.uses_project_head:
            notes.append(FrnError("lambda and gamma come from the project; `frn enroll` chooses them for its photos"))
        notes += self._read_others(listed.others) if listed.others else []
        return [*notes, self.second.enroll(self)] if self.second else notes

    def enroll_read(self, listed: State, outcomes: Sequence[Embedded | FrnError]) -> list[FrnError]:
        """Enroll the examples of a state that were read, class by class; return and raise as `enroll_state` does."""
        state, self.copies, notes = usable_examples(listed, outcomes)
        read = {each.key: each for each in outcomes if isinstance(each, Embedded)}
        used = without_copies(state, self.copies)
        self.looks = {key: read[key].look for key in used.holders() if read[key].look}
        self.adopt(used, maps := {key: each.maps for key, each in read.items()})
        self.maps = maps if self.second else None
        keep(self.store, self.extractor, f"copies-{classes_key(state, self.extractor)}", self.copies)
        return notes

    def _read_others(self, photos: Sequence[Support]) -> list[FrnError]:
        """Calibrate with photos that belong to none of the classes; those that are examples do not count."""
        read = [outcome for _, outcome in self.read([photo.path for photo in photos], self.store)]
        keys = [outcome if isinstance(outcome, FrnError) else outcome.key for outcome in read]
        current = [
            photo if isinstance(key, FrnError) else Support.of(photo.path, key)
            for photo, key in zip(photos, keys, strict=True)
        ]
        holders = self.state.holders()
        others = {photo.key: photo for photo in current if photo.key and photo.key not in holders}
        self.state = replace(self.state, others=tuple(others.values()))
        self.mark_others({each.key: each.maps for each in read if isinstance(each, Embedded)})
        return describe_unused("photos of no class", photos, keys)

    def classify(
        self, paths: Iterable[Path], *, transductive: bool = False
    ) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files, in order; an unreadable file yields its error, and the others are still classified.

        With `transductive`, all images refine the classes before the first answer.
        """
        named, read = tee(self.read(paths))
        answers = self.answers((outcome for _, outcome in read), transductive=transductive)
        yield from zip((path for path, _ in named), answers, strict=True)

    def answers(
        self, embedded: Iterable[Embedded | FrnError], *, transductive: bool = False
    ) -> Iterator[Prediction | FrnError]:
        """Yield predictions of embedded images, a batch at a time; examples are scored by leave-one-out."""
        remaining = iter(embedded)
        while batch := list(islice(remaining, None if transductive else self.extractor.batch)):
            embedded_photos = [outcome for outcome in batch if isinstance(outcome, Embedded)]
            predictions = iter(self.predictions(embedded_photos, transductive=transductive))
            for outcome in batch:
                if isinstance(outcome, FrnError):
                    yield outcome
                else:
                    prediction = next(predictions)
                    key, searched = outcome.whole or outcome.key, bool(outcome.whole)
                    yield replace(prediction, box=outcome.box, searched=searched, key=key)

    def predictions(
        self, photos: Sequence[Embedded], *, transductive: bool = False, copies: bool = True
    ) -> list[Prediction]:
        """Classify embedded photos as `predict_all`; those whose answer is unsure after a second look, if it gains.

        Without `copies`, near copies of examples are not recognised. Raises FrnError if `transductive` is combined with
        second looks.
        """
        if transductive and self.second is not None:
            raise FrnError("--transductive compares maps of one kind. Remove --tta auto, or use --tta views.")
        maps, keys = [each.maps for each in photos], [each.key for each in photos]
        looks = [each.look for each in photos] if copies else None
        predictions = self.predict_all(maps, keys, looks, transductive=transductive)
        return self.second.improve(self, photos, predictions) if self.second else predictions

    def answering(self, photo: Embedded) -> tuple[MapClassifier, Embedded]:
        """Return the classifier whose look at a photo decides, and the photo as it sees it."""
        if self.second is None:
            return self, photo
        again = self.second.again(self, [photo], self.predict_all([photo.maps], [photo.key]))
        return again.get(0, (self, photo))
