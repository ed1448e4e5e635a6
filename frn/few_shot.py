"""`FewShotClassifier`: few-shot classification from Python, with the conventions of scikit-learn. Free of torch."""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from frn.errors import FrnError
from frn.files import write_atomically
from frn.images import Pixels, decode, read_file, to_rgb
from frn.inference.classifier import Classifier, Prediction
from frn.inference.extractor import BATCH
from frn.inference.features import FeatureStore, Maps, content_key
from frn.inference.project import ModelReference, Project, load_project, save_project
from frn.inference.runtime import Device
from frn.inference.session import Duplicate, Support, build_state, check_threshold
from frn.loading import load_extractor
from frn.zoo import DEFAULT_MODEL

Photo: TypeAlias = str | Path | Image.Image | Pixels
"""A file, a Pillow image, or pixels (h, w, 3) or (h, w) in uint8."""


class FewShotClassifier:
    """Classes from a few photos each.

    >>> classifier = FewShotClassifier().fit({"jay": ["a.jpg", "b.jpg"], "wren": ["c.jpg"]})
    >>> classifier.predict(["x.jpg"])
    array(['jay'], dtype=object)

    Attributes:
        classes_: the names, in the order of every array with a way axis.
        threshold_: share that a class must explain of a photo that is to be known.
    """

    def __init__(
        self, model: str | Path = DEFAULT_MODEL, *, threshold: float | None = None, device: Device = "auto"
    ) -> None:
        """Open a model.

        Args:
            model: shipped name, `features.onnx`, or (through torch) a model file or run folder.
            threshold: share of a photo that a class must explain; None calibrates it from the examples.
            device: where the extractor runs; "auto" takes CUDA where it answers.

        Raises:
            FrnError: if there is no such model, or it is refused.
        """
        self.model = str(model)
        self._classifier = Classifier(load_extractor(model, device), FeatureStore())
        self._classifier.threshold_override = check_threshold(threshold)

    def fit(
        self, photos: Mapping[str, Sequence[Photo]] | Sequence[Photo], labels: Sequence[str] | None = None
    ) -> "FewShotClassifier":
        """Enroll classes, in place of any that were there. A photo given twice to a class counts once.

        Args:
            photos: the photos of each class by name; or a list of photos, with `labels` beside it.
            labels: class name of each photo of a list.

        Raises:
            FrnError: if a photo cannot be read or is given to two classes, or a class has none.
        """
        if not isinstance(photos, Mapping):
            photos = _by_label(photos, labels)
        elif labels is not None:
            raise ValueError("labels go with a list of photos; a mapping has them as its keys")
        if not photos:
            raise FrnError("there is no class to enroll: give at least one with a photo")
        feature_maps: dict[str, Maps] = {}
        supports: dict[str, list[Support]] = {}
        for name, members in photos.items():
            if not len(members):
                raise FrnError(f"class {name!r} has no photos. Give it at least one, or leave it out.")
            keys, found = self._embed(members)
            feature_maps.update(zip(keys, found, strict=True))
            supports[str(name)] = [Support.of(_path(p), key) for p, key in zip(members, keys, strict=True)]
        state, duplicates = build_state(supports.items())
        _refuse_contradictions(duplicates, supports)
        self._classifier.adopt(state, feature_maps)
        return self

    @property
    def classes_(self) -> list[str]:
        """Names of the classes."""
        return list(self._classifier.classes)

    @property
    def threshold_(self) -> float:
        """Share that a class must explain of a photo that is to be known."""
        return self._classifier.threshold

    def predict(self, photos: Sequence[Photo]) -> NDArray[np.object_]:
        """The class of each photo, (n,). A photo of none of the classes gets one too: see `is_unknown`."""
        return np.array([answer.label for answer in self._answers(photos)], dtype=object)

    def predict_proba(self, photos: Sequence[Photo]) -> NDArray[np.float64]:
        """Probability of each class (Eq. 9), (n, way)."""
        return self._table(answer.probabilities for answer in self._answers(photos))

    def explained(self, photos: Sequence[Photo]) -> NDArray[np.float64]:
        """Share of each photo's energy that each class rebuilds, (n, way)."""
        return self._table(answer.explained for answer in self._answers(photos))

    def is_unknown(self, photos: Sequence[Photo]) -> NDArray[np.bool_]:
        """Whether no class explains at least `threshold_` of a photo, (n,)."""
        return np.array([answer.unknown for answer in self._answers(photos)], dtype=bool)

    def error_map(self, photo: Photo) -> NDArray[np.float32]:
        """Squared reconstruction error of every location for every class, (way, h, w)."""
        return self._classifier.error_maps(self._embed([photo])[1][0])

    def score(self, photos: Sequence[Photo], labels: Sequence[str]) -> float:
        """Share of the photos that get their label."""
        if len(photos) != len(labels):
            raise ValueError(f"{len(photos)} photos but {len(labels)} labels")
        return float(np.mean(self.predict(photos) == np.asarray(labels, dtype=object)))

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write a project file (`X.frn.json`) that refers to the photos where they are.

        Raises:
            FrnError: if photos were not given as files, or the file is there already and `replace` is not set.
        """
        path, classifier = Path(path), self._classifier
        if not classifier.classes:
            raise FrnError("there is no class yet: fit some first")
        if any(support.path == _NO_FILE for entry in classifier.state.classes for support in entry.supports):
            raise FrnError("only photos given as files can be saved in a project; some were images or arrays")
        state = dataclasses.replace(classifier.state, threshold=classifier.threshold_override)
        reference = ModelReference.of(self.model, classifier.extractor, path.parent)
        save_project(path, Project(reference, state), replace=replace)

    @classmethod
    def load(cls, path: str | Path, *, device: Device = "auto") -> "FewShotClassifier":
        """Open a project file.

        Warns:
            UserWarning: for each photo that is gone or has changed.

        Raises:
            FrnError: if it is no project, or its model is missing or another.
        """
        path = Path(path)
        project = load_project(path)
        name = project.model.locate(path.parent)
        loaded = cls(name, device=device)
        project.model.check(loaded._classifier.extractor.sha256, path, name)
        for left_out in loaded._classifier.enroll_state(project.state):
            warnings.warn(str(left_out), stacklevel=2)
        return loaded

    def export_onnx(self, path: str | Path) -> None:
        """Write the whole classifier as one ONNX file: image in; label, probabilities and error maps out.

        Raises:
            FrnError: if there is no class yet, or the file cannot be written.
        """
        from frn_export.classifier import classifier_graph

        classifier = self._classifier
        graph = classifier_graph(
            classifier.extractor.data, classifier.classes, threshold=classifier.threshold, gamma=classifier.head.gamma
        )
        write_atomically(Path(path), graph.SerializeToString(deterministic=True))

    def _answers(self, photos: Sequence[Photo]) -> list[Prediction]:
        return [self._classifier.predict(feature_maps) for feature_maps in self._embed(photos)[1]]

    def _embed(self, photos: Sequence[Photo]) -> tuple[list[str], Maps]:
        """Content keys, and feature maps (n, r, d)."""
        if isinstance(photos, str | Path | Image.Image):
            raise ValueError("photos is a list: put a single one in brackets")
        extractor = self._classifier.extractor
        keys: list[str] = []
        pieces = [np.empty((0, *extractor.shape), dtype=np.float32)]
        for start in range(0, len(photos), BATCH):
            opened = [_open(photo) for photo in photos[start : start + BATCH]]
            keys += [key for key, _ in opened]
            pieces.append(extractor.feature_maps(np.stack([extractor.transform(image) for _, image in opened])))
        return keys, np.concatenate(pieces)

    def _table(self, rows: Iterable[dict[str, float]]) -> NDArray[np.float64]:
        return np.array([list(row.values()) for row in rows], dtype=np.float64).reshape(-1, len(self.classes_))


_NO_FILE = Path()
"""Stands for a photo that was given as pixels."""


def _path(photo: Photo) -> Path:
    return Path(photo).absolute() if isinstance(photo, str | Path) else _NO_FILE


def _open(photo: Photo) -> tuple[str, Image.Image]:
    """A photo's content key and its pixels."""
    if isinstance(photo, str | Path):
        data = read_file(Path(photo))
        return content_key(data), decode(data, Path(photo))
    if isinstance(photo, Image.Image):
        image = to_rgb(ImageOps.exif_transpose(photo))
    else:
        pixels = np.asarray(photo)
        right_shape = pixels.ndim in (2, 3) and pixels.shape[2:] in ((), (3,)) and pixels.size
        if pixels.dtype != np.uint8 or not right_shape:
            raise ValueError(f"an array of pixels is uint8 (h, w, 3) or (h, w), not {pixels.dtype} {pixels.shape}")
        image = Image.fromarray(pixels).convert("RGB")
    return content_key(b"%dx%d" % image.size + image.tobytes()), image


def _by_label(photos: Sequence[Photo], labels: Sequence[str] | None) -> dict[str, list[Photo]]:
    if labels is None or len(labels) != len(photos):
        raise ValueError(f"{len(photos)} photos need as many labels, not {0 if labels is None else len(labels)}")
    classes: dict[str, list[Photo]] = {}
    for photo, label in zip(photos, labels, strict=True):
        classes.setdefault(str(label), []).append(photo)
    return classes


def _refuse_contradictions(duplicates: Sequence[Duplicate], supports: Mapping[str, Sequence[Support]]) -> None:
    """A photo of two classes is a mistake; one given twice to a class is not."""
    for duplicate in duplicates:
        holders = [name for name, members in supports.items() if any(duplicate.key == m.key for m in members)]
        if len(holders) > 1:
            raise FrnError(f"{duplicate.path}: is given to class {holders[0]!r} and to class {holders[1]!r}")
