"""`FewShotClassifier`: few-shot classification as a scikit-learn estimator. This module does not need torch."""

import dataclasses
import inspect
import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, FrnWarning
from frn.estimator.fitted import Fitted, PhotoAnswer, embed_all
from frn.estimator.labels import Labels, as_known, as_labels, check_kind, label_type, read_labels
from frn.estimator.loading import classifier_file, load_classifier, load_extractor
from frn.estimator.photos import NO_FILE, Photo, check_flag, expanded, list_photos, path_of, several
from frn.features.extractor import Embedded, Extractor, Tta
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import Device, OwnModel
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrollment import listed_state
from frn.inference.explanation import Explanation, explain
from frn.inference.find.examples import boxed_examples
from frn.inference.map_classifier import MapClassifier
from frn.models.zoo import DEFAULT_MODEL, resolve
from frn.projects.class_files import class_files
from frn.projects.project import ModelReference, Project, load_project, save_project
from frn.projects.session import ClassEntry, Find, State, Support, check_threshold, with_unused
from frn.system.files import write_atomically


class FewShotClassifier:
    """Few-shot classifier, a scikit-learn estimator (`clone`, `cross_val_score`, `Pipeline`, `pickle`).

    Photos are a list of files, bytes, open files, Pillow images, tensors or arrays (`frn.estimator.photos`), or one
    array (n, h, w, 3). A single photo or array (h, w, 3) is rejected: put it in a list.

    Any number of threads may use one classifier. Each call uses the classes as they were when it started; `fit` and
    `partial_fit` run one after the other.

    Examples:
        >>> classifier = FewShotClassifier().fit({"jay": ["a.jpg", "b.jpg"], "wren": ["c.jpg"]})
        >>> classifier.predict(["x.jpg"])
        array(['jay'], dtype='<U4')

    Attributes:
        classes_: the labels in their original type, sorted; for a loaded project, its names in its order. Every
            array with a way axis has this order.
        threshold_: probability of belonging to one of the classes below which a photo is unknown.
        expected_: expected error rates for unknown photos in words, or why the examples cannot show how sure answers
            are.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        threshold: float | None = None,
        tta: Tta = "none",
        find: Find | bool = "none",
        device: Device = "auto",
    ) -> None:
        """Set the parameters; the model is opened at first use.

        Args:
            model: shipped name, `features.onnx`, or (through torch) a model file or run folder.
            threshold: `known` below which a photo is unknown; None calibrates it from the examples.
            tta: "hflip" averages a photo with its mirror image: more accurate, but takes twice as long. "views" joins
                four crops of the whole photo, for subjects that are small or off-centre; takes four times as long.
                "auto" does so for photos whose answer is unsure, if leave-one-out says that it gains.
            find: "one" or True classifies the subject of each photo, which is searched for; examples must be files, and
                those without a box are found from those with one. "auto" does so if leave-one-out says that it gains.
            device: device of the extractor; "auto" uses CUDA if it is available.

        Raises FrnError if the model does not exist.
        """
        if not isinstance(model, str | Path):
            raise FrnError(f"model must be a name or a path, not {model!r}")
        resolve(model)
        self.model = model
        self.threshold = check_threshold(threshold)
        self.tta: Tta = tta
        self.find: Find | bool = find
        self.device: Device = device
        self._forget()

    def _forget(self) -> None:
        self._now: Fitted | None = None
        """The classes that each call uses; a fit replaces them."""
        self._writing = threading.RLock()
        """Lock for `fit` and `partial_fit`, so that no update is lost."""

    def fit(
        self,
        X: str | Path | Mapping[Any, Sequence[Photo]] | Sequence[Photo],  # noqa: N803  (scikit-learn's name)
        y: Iterable[Any] | None = None,
        *,
        level: int | None = None,
    ) -> Self:
        """Enroll classes, replacing earlier ones. Copies of a photo in a class count once.

        Args:
            X: the photos of each class by its label; a list of photos, together with `y`; or the path of class folders,
                a zip, CSV or project, as for `frn classify`.
            y: label of each photo of a list: text or numbers, as returned by `predict`.
            level: level of the class folders, 1 or 2, if a path has two levels of folders.

        Warns:
            FrnWarning: for each file of a path that is skipped, and for photos that are not used because they are near
                copies of others of their class, or the same photo, saved again, is in another class.

        Raises FrnError if a photo cannot be read or is given to two classes, a class has no photo, or the model is
        rejected.
        """
        photos = _flat(X, y, level)
        with self._writing:
            self._enroll(None, *photos)
        return self

    def partial_fit(
        self,
        X: str | Path | Mapping[Any, Sequence[Photo]] | Sequence[Photo],  # noqa: N803
        y: Iterable[Any] | None = None,
        *,
        level: int | None = None,
    ) -> Self:
        """Add shots to existing classes, and new classes; the result equals one `fit` of all photos.

        A photo is not its own witness: it is classified without itself. The first photo of a new class therefore keeps
        another label (`predict` warns), while similar photos get the new one.

        The parameters and errors are those of `fit`; after an error, the classes are unchanged.
        """
        photos = _flat(X, y, level)
        with self._writing:
            self._enroll(self._now, *photos)
        return self

    @property
    def classes_(self) -> Labels:
        """Labels of the classes."""
        if self._now is None:
            raise AttributeError("classes_ exists only after fit")
        return self._now.labels

    @property
    def classifier_(self) -> Classifier:
        """The classifier of the enrolled classes: what the command line and the app use."""
        return self._fitted.classifier

    @property
    def threshold_(self) -> float:
        """Probability of belonging to one of the classes below which a photo is unknown."""
        return self.classifier_.threshold

    @property
    def expected_(self) -> str:
        """Expected error rates for unknown photos in words, or why the examples cannot show how sure answers are."""
        return self.classifier_.calibration.describe()

    def predict(self, photos: Sequence[Photo], *, transductive: bool = False) -> Labels:
        """Return the label of each photo, (n,). Unknown photos also get a label: see `is_unknown`.

        With `transductive`, all photos refine the classes first, so each label depends on the other photos.

        Warns:
            FrnWarning: if a photo is the only one of its class and gets another label, because a photo is not its own
                witness: it is classified without itself.
        """
        fitted = self._fitted
        answers = list(fitted.predictions(photos, transductive))
        single = {entry.name for entry in fitted.classifier.state.classes if len(entry.supports) == 1}
        if alone := [one.example_of for one in answers if one.example_of in single and one.example_of != one.label]:
            warnings.warn(
                f"the only photo of class {alone[0]!r} gets another label, because a photo is not its own witness. "
                "Add a second photo to the class.",
                FrnWarning,
                stacklevel=2,
            )
        return fitted.labels_of(answer.label for answer in answers)

    def predict_proba(self, photos: Sequence[Photo], *, transductive: bool = False) -> NDArray[np.float64]:
        """Return the probability of each class (Eq. 9), (n, way); `transductive` as for `predict`."""
        return self._table(photos, lambda answer: answer.probabilities, transductive)

    def explained(self, photos: Sequence[Photo]) -> NDArray[np.float64]:
        """Return the fraction of each photo's energy that each class reconstructs, (n, way)."""
        return self._table(photos, lambda answer: answer.explained)

    def known(self, photos: Sequence[Photo]) -> NDArray[np.float64]:
        """Return the probability that each photo belongs to one of the classes, (n,); NaN if it cannot be known."""
        return np.array([answer.known for answer in self._fitted.predictions(photos)])

    def is_unknown(self, photos: Sequence[Photo]) -> NDArray[np.bool_]:
        """Return whether each photo is unknown, (n,): `known` is below `threshold_`."""
        return np.array([answer.unknown for answer in self._fitted.predictions(photos)], dtype=bool)

    def answers(self, photos: Iterable[Photo]) -> Iterator[PhotoAnswer]:
        """Yield the complete result for each photo, in constant memory.

        A photo that cannot be read gets an `error` field; the others are still classified. Later fits do not affect the
        answers.
        """
        return self._fitted.each(several(photos))

    def error_map(self, photo: Photo) -> NDArray[np.float32]:
        """Return the squared reconstruction error of every location for every class, (way, h, w)."""
        classifier, embedded = self._answering(photo)
        return classifier.error_maps(embedded.maps, embedded.key)

    def explain(self, photo: Photo, against: object = None) -> Explanation:
        """Return which parts of a photo decided between its class and another one, and where each was rebuilt from.

        The other class is `against`, or the second best. Raises FrnError as `frn.inference.explanation.explain`.
        """
        classifier, embedded = self._answering(photo)
        return explain(classifier, embedded.maps, embedded.key, None if against is None else str(against))

    def score(self, X: Sequence[Photo], y: Iterable[Any]) -> float:  # noqa: N803
        """Return the fraction of photos with the correct label.

        Raises FrnError if the numbers of photos and labels differ or are zero, or only one of labels and classes is
        text.
        """
        fitted, photos = self._fitted, list_photos(X)
        truth = as_labels(y)
        if len(photos) != len(truth):
            raise FrnError(f"{len(photos)} photos but {len(truth)} labels")
        if not photos:
            raise FrnError("no photos to score: pass at least one")
        check_kind(truth, fitted.labels)
        predicted = fitted.labels_of(answer.label for answer in fitted.predictions(photos))
        return float(np.mean(predicted == as_known(truth, fitted.labels)))

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write a project file (`X.frn.json`) that refers to photos by path and to classes by name.

        The type of the labels is kept. Raises FrnError if they are neither text, numbers nor booleans, photos were not
        given as files, or the file already exists and `replace` is not set.
        """
        path, replace, fitted = expanded(path), check_flag("replace", replace), self._fitted
        classifier = fitted.classifier
        if any(support.path == NO_FILE for entry in classifier.state.classes for support in entry.supports):
            raise FrnError("only photos that are files can be saved in a project; some were images or arrays")
        state = dataclasses.replace(classifier.state, threshold=classifier.threshold_override)
        state = with_unused(state, fitted.listed, classifier.copies)
        reference = ModelReference.of(str(fitted.opened[0]), classifier.extractor, path.parent)
        document = fitted.document | {"labels": label_type(fitted.labels)}
        save_project(path, Project(reference, state, document), replace=replace)

    @classmethod
    def load(cls, path: str | Path, *, device: Device = "auto") -> Self:
        """Open a project file.

        Warns:
            UserWarning: for each class with photos that are missing or have changed. Missing photos are not used.

        Raises FrnError if the file is not a project, its model is missing or different, or all photos are missing.
        """
        path = expanded(path)
        project = load_project(path)
        name, state = project.model.locate(path.parent), project.state
        loaded = cls(name, threshold=state.threshold, device=device, tta=project.model.tta, find=state.search)
        classifier, skipped = load_classifier(path, device=device)
        for each in skipped:
            warnings.warn(str(each), stacklevel=2)
        labels = read_labels(classifier.names, project.document.get("labels"))
        loaded._now = Fitted(classifier, labels, loaded._parameters, project.document, state)
        return loaded

    def export_onnx(self, path: str | Path) -> None:
        """Write the classifier as one ONNX file, from an image to label, probabilities and error maps.

        Raises FrnError if no class is fitted, the file cannot be written, or another file has its name.
        """
        write_atomically(expanded(path), classifier_file(self.classifier_))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in list(inspect.signature(type(self)).parameters)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; fitted classes stay until the next `fit`. Raises FrnError for an unknown parameter."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise FrnError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._now is not None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the extractor's bytes, so that a pickle opens without the model file."""
        state: dict[str, Any] = {"params": self.get_params()}
        if (fitted := self._now) is not None:
            classifier = fitted.classifier
            state |= {"extractor": classifier.extractor.data, "classes": classifier.state, "labels": fitted.labels}
            state |= {"read": _examples(classifier), "threshold": classifier.threshold_override}
            state |= {"trusted": isinstance(classifier.extractor.session, OwnModel), "opened": fitted.opened}
            state |= {"document": fitted.document, "listed": fitted.listed, "others": classifier.other_maps}
            state |= {"where": classifier.extractor.where}
            if (second := classifier.second) is not None:
                state |= {"closer": second.closer.extractor.data, "closer_maps": second.maps}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state["params"].items():
            setattr(self, name, value)
        self._forget()
        if "extractor" in state:
            trusted = state["trusted"]  # as when the extractor was first opened
            extractor = Extractor(state["extractor"], state["where"], trusted=trusted, device=self.device)
            if state.get("closer"):
                extractor.tta = "auto"
                extractor.closer = Extractor(state["closer"], state["where"], trusted=trusted, device=self.device)
            read, others, closer_maps = state["read"], state["others"], state.get("closer_maps", {})
            classifier, _ = _enrolled(extractor, state["classes"], read, others, state["threshold"], closer_maps)
            self._now = Fitted(classifier, *(state[name] for name in ("labels", "opened", "document", "listed")))

    @property
    def _fitted(self) -> Fitted:
        if (fitted := self._now) is None:
            raise _not_fitted("no classes yet: call fit first")
        return fitted

    def _answering(self, photo: Photo) -> tuple[MapClassifier, Embedded]:
        """Return the classifier that answers a photo, and the photo as it sees it."""
        classifier = self.classifier_
        (embedded,) = embed_all(classifier.extractor, [photo], classifier)
        return classifier.answering(embedded)

    @property
    def _parameters(self) -> tuple[object, ...]:
        return self.model, self.device, self.tta

    def _open(self) -> Extractor:
        if (fitted := self._now) is not None and fitted.opened == self._parameters:
            return fitted.classifier.extractor
        return load_extractor(self.model, self.device, self.tta)

    def _enroll(self, fitted: Fitted | None, photos: Sequence[Photo], labels: Labels, others: Sequence[Photo]) -> None:
        """Enroll photos together with the examples of existing classes; `others` belong to none of them."""
        extractor, before = self._open(), State() if fitted is None else fitted.classifier.state
        if fitted and extractor.sha256 != fitted.classifier.extractor.sha256:
            raise FrnError(
                "the classes were fitted with a different model or tta: fit them again, or restore the parameters"
            )
        search, photos = self._searched(extractor, before, photos, labels)
        embedded = list(embed_all(extractor, photos))
        if fitted:
            check_kind(labels, fitted.labels)
        together = np.concatenate([fitted.labels, labels]) if fitted else labels  # a common type: with 2.5, 1 is 1.0
        all_labels, named = np.unique(together), list(map(str, together.tolist()))
        members: dict[str, list[Support]] = {name: [] for name in map(str, all_labels.tolist())}
        holders: dict[str, str] = {}
        for entry, name in zip(before.classes, named, strict=False):
            members[name] += entry.supports
            holders |= dict.fromkeys((support.key for support in entry.supports), name)
        for photo, name, each in zip(photos, named[-len(labels) :], embedded, strict=True):
            if (holder := holders.setdefault(each.key, name)) != name:
                what = path_of(photo) if isinstance(photo, str | Path) else "the same photo"
                first, second = sorted((holder, name), key=list(members).index)
                raise FrnError(f"{what}: is in class {first!r} and in class {second!r}")
            if all(support.key != each.key for support in members[name]):  # repeats in a class are allowed
                members[name].append(Support.of(path_of(photo), each.key))
        apart = {each.key: (photo, each.maps) for photo, each in zip(others, embed_all(extractor, others), strict=True)}
        read, other_maps = {each.key: each for each in embedded}, {key: maps for key, (_, maps) in apart.items()}
        closer_maps: dict[str, Maps] = {}
        if extractor.closer:
            closer_maps = {each.key: each.maps for each in embed_all(extractor.closer, [*photos, *others])}
        if fitted:
            earlier = fitted.classifier
            read |= _examples(earlier)
            other_maps = {**earlier.other_maps, **other_maps}
            closer_maps = {**(earlier.second.maps if earlier.second else {}), **closer_maps}
        marked = {other.key: other for other in before.others}
        marked |= {key: Support.of(path_of(photo), key) for key, (photo, _) in apart.items() if key not in marked}
        ids, fresh = {entry.name: entry.id for entry in before.classes}, itertools.count(before.next_id)
        entries = [ClassEntry(ids.get(name) or next(fresh), name, tuple(each)) for name, each in members.items()]
        listed = State(
            tuple(entries),
            next_id=next(fresh),
            others=tuple(other for key, other in marked.items() if key not in holders),
            search=search,
        )
        threshold = check_threshold(self.threshold)
        threshold = None if threshold is None else float(threshold)  # JSON needs a float
        classifier, notes = _enrolled(extractor, listed, read, other_maps, threshold, closer_maps)
        for note in notes:
            warnings.warn(str(note), FrnWarning, stacklevel=3)
        classifier.copies = (fitted.classifier.copies if fitted else {}) | classifier.copies
        document, project = (fitted.document, fitted.listed) if fitted else ({}, State())
        self._now = Fitted(classifier, all_labels, self._parameters, document, project)

    def _searched(
        self, extractor: Extractor, before: State, photos: Sequence[Photo], labels: Labels
    ) -> tuple[Find, Sequence[Photo]]:
        """Return whether photos are searched for their subject, and the new examples with the boxes that were found.

        Raises FrnError if they must be searched and are not files.
        """
        search: Find = {True: "one", False: "none"}.get(self.find, self.find)  # type: ignore[arg-type, assignment]
        if search not in get_args(Find):
            raise FrnError(f"find must be True, False or one of {', '.join(get_args(Find))}, not {self.find!r}")
        if search == "none":
            return search, photos
        if not all(isinstance(photo, str | Path) for photo in photos):
            raise FrnError("find needs examples that are files. Save them, or leave find off.")
        names = list(map(str, labels.tolist()))
        members = {entry.name: [s.path for s in entry.supports] for entry in before.classes}
        for name, photo in zip(names, photos, strict=True):
            members.setdefault(name, []).append(path_of(photo))
        classifier, listed = Classifier(extractor), listed_state(members)
        if search == "auto":
            for note in classifier.enroll_state(dataclasses.replace(listed, search="auto"))[-1:]:
                warnings.warn(str(note), FrnWarning, stacklevel=4)
            search = classifier.state.search
        if search == "none":
            return search, photos
        boxed = boxed_examples(classifier.finder, listed, classifier.store)
        paths = {entry.name: [s.path for s in entry.supports] for entry in boxed.classes}
        for entry in before.classes:
            del paths[entry.name][: len(entry.supports)]
        return search, [paths[name].pop(0) for name in names]

    def _table(
        self, photos: Sequence[Photo], row: Callable[[Prediction], Mapping[str, float]], transductive: bool = False
    ) -> NDArray[np.float64]:
        fitted = self._fitted
        rows = [list(row(answer).values()) for answer in fitted.predictions(photos, transductive)]
        return np.array(rows, dtype=np.float64).reshape(-1, len(fitted.labels))


def _examples(classifier: Classifier) -> dict[str, Embedded]:
    """Return the examples of enrolled classes as they were embedded, by content key."""
    looks = classifier.looks
    return {key: Embedded(key, maps, looks.get(key, b"")) for key, maps in classifier.example_maps().items()}


def _enrolled(
    extractor: Extractor,
    listed: State,
    read: Mapping[str, Embedded],
    others: Mapping[str, Maps],
    threshold: float | None,
    closer_maps: Mapping[str, Maps],
) -> tuple[Classifier, list[FrnError]]:
    """Enroll examples, with maps of photos of no class, and of both for a second look, by content key."""
    classifier = Classifier(extractor)
    classifier.threshold_override = threshold
    listed = classifier.remember_photos(listed)
    notes = classifier.enroll_read(listed, [read[s.key] for entry in listed.classes for s in entry.supports])
    classifier.mark_others({other.key: others[other.key] for other in listed.others if other.key in others})
    classifier.maps = {key: read[key].maps for key in classifier.state.holders()}
    if classifier.second is not None:
        classifier.second.enroll(classifier, closer_maps)
    return classifier, notes


def _not_fitted(message: str) -> FrnError:
    """Return an error that is also scikit-learn's NotFittedError if the program uses scikit-learn."""
    if "sklearn" not in sys.modules:
        return FrnError(message)
    from sklearn.exceptions import NotFittedError

    both: type[FrnError] = type("NotFittedError", (FrnError, NotFittedError), {"__doc__": NotFittedError.__doc__})
    return both(message)


def _flat(
    photos: str | Path | Mapping[Any, Sequence[Photo]] | Sequence[Photo],
    labels: Iterable[Any] | None,
    level: int | None,
) -> tuple[list[Photo], Labels, Sequence[Photo]]:
    """Return photos, the label of each, and photos of no class, from a path, a mapping of classes or two lists."""
    others: Sequence[Photo] = ()
    if isinstance(photos, str | Path):
        files = class_files(expanded(photos), level)
        for remark in (*files.notes, *files.skipped):
            warnings.warn(remark, FrnWarning, stacklevel=3)
        photos, others = files.members, files.others
    if not isinstance(photos, Mapping):
        listed = list_photos(photos)
        if labels is None:  # in the wording of scikit-learn's own message
            raise FrnError("a list of photos requires y to be passed, but the target y is None")
        each_label = as_labels(labels)
        if len(each_label) != len(listed):
            raise FrnError(f"{len(listed)} photos need the same number of labels, not {len(each_label)}")
    elif labels is not None:
        raise FrnError("y is for a list of photos; a mapping has labels as its keys")
    else:
        members = [(label, list_photos(of_class)) for label, of_class in photos.items()]
        for label, of_class in members:
            if not of_class:
                raise FrnError(f"class {label!r} has no photos. Give it at least one, or remove it.")
        listed = [photo for _, of_class in members for photo in of_class]
        each_label = as_labels([label for label, of_class in members for _ in of_class])
    if not listed:
        raise FrnError("no classes to enroll: give at least one class with a photo")
    return listed, each_label, others
