"""Enrolled classes as bytes, so that reopening a project needs no computation.

The form holds everything that enrolment computes from the feature maps of the examples, so answers are identical to the
last bit. The feature cache stores it. The key of an entry covers everything that decides it: the model and its prior,
the head, the class names, the content of the photos, and a version. The bytes begin with a digest of this key and of
the rest; bytes that differ, or that do not describe these classes, count as absent.

Shape letters: way classes, k examples of a class, m rows, r locations, d channels, n examples that calibrate the
threshold.
"""

import hashlib
import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore, content_key
from frn.images.boxes import Box
from frn.images.near_copies import BYTES as LOOK
from frn.inference.unknown.calibration import stride
from frn.inference.unknown.rule import Shares
from frn.projects.session import ProjectHead, State
from frn.ridge.enrolment import MAX_FACTOR, Array, EnrolledClass
from frn.ridge.parameters import HeadParameters

FORM_VERSION = 16  # version of a form's content: increase it if enrolment, tuning or the looks compute something else
FIND_VERSION = 4  # version of the search for subjects: increase it if it finds other windows
DIGEST = 16
SAME_HEAD = 0.02  # below this difference, two heads count as alike: the search may end apart on another processor

Content: TypeAlias = "HeadParameters | EnrolledForm | dict[str, str] | list[float] | Box"
Kind = TypeVar("Kind", HeadParameters, "EnrolledForm", dict[str, str], list[float], Box)


class LeftOut(NamedTuple):
    """Leave-one-out results of examples."""

    errors: Array  # (n, way)
    labels: NDArray[np.intp]  # their classes, (n,)
    energies: Shares  # (n,)
    distances: Array  # to the classes' centres, (n, way)
    smaller: Shares
    """Error and distance for their class as if it were as small as the smallest, (n, 2); negative if not computed."""

    @property
    def right(self) -> int:
        """Return how many examples are closest to their own class."""
        return int((self.errors.argmin(1) == self.labels).sum())


@dataclass(frozen=True, slots=True)
class EnrolledForm:
    """Everything that a classifier stores about its classes."""

    head: HeadParameters  # alpha, beta and gamma of these classes
    classes: dict[str, EnrolledClass]
    leave_one_out: dict[str, Shares]
    """Fraction of each example that the rest of its class reconstructs, for classes with at least two."""
    own_errors: dict[str, tuple[str, Array]]  # class and leave-one-out errors (r,) of each example by content key
    smaller: dict[str, tuple[float, float]]
    """Error and squared distance of examples from as many photos as the smallest class has, by content key."""
    left_out: LeftOut | None
    looks: dict[str, bytes]  # perceptual hash of each example by content key


def classes_key(state: State, extractor: Extractor) -> str:
    """Return a hash of what a head is chosen for: the extractor, its prior, and the class names and photos in order."""
    classes = [[entry.name, [support.key for support in entry.supports]] for entry in state.classes if entry.supports]
    searched = [] if state.search == "none" else [state.search, FIND_VERSION, state.whole_photos]
    text = json.dumps([FORM_VERSION, extractor.sha256, repr(extractor.prior), classes, *searched])
    return f"classes-{content_key(text.encode())}"


def form_key(state: State, extractor: Extractor, head: HeadParameters) -> str:
    """Return the key under which the form of these classes with this head is stored."""
    text = json.dumps([classes_key(state, extractor), asdict(head)])
    return f"form-{content_key(text.encode())}"


def as_project_head(head: HeadParameters, state: State, extractor: Extractor) -> ProjectHead:
    """Return a head as a project stores it: its numbers, and the key of the classes they were chosen for."""
    return ProjectHead(classes_key(state, extractor), head)


def head_of(state: State, extractor: Extractor) -> HeadParameters | None:
    """Return the head of the project if it was chosen for these classes by this version; otherwise None."""
    return state.head.head if state.head and state.head.of == classes_key(state, extractor) else None


def are_alike(head: HeadParameters, other: HeadParameters) -> bool:
    """Return whether two heads differ only as the same search does from one processor to another."""
    pairs = zip(asdict(head).values(), asdict(other).values(), strict=True)
    return all(math.isclose(one, two, rel_tol=SAME_HEAD, abs_tol=SAME_HEAD) for one, two in pairs)


def stored_head(store: FeatureStore | None, state: State, extractor: Extractor) -> HeadParameters | None:
    """Return the head that was chosen for the classes of a state, or None if it is not stored."""
    head = recall(store, extractor, classes_key(state, extractor), HeadParameters)
    with suppress(FrnError):  # a head out of range counts as absent
        return head and HeadParameters.from_metadata(asdict(head))
    return None


def recall(store: FeatureStore | None, extractor: Extractor, key: str, kind: type[Kind]) -> Kind | None:
    """Return what `keep` has stored under a key, or None if the bytes are missing or anything else."""
    return from_bytes(store.get_bytes(extractor.sha256, key), key, kind) if store else None


def keep(store: FeatureStore | None, extractor: Extractor, key: str, content: Content) -> None:
    """Store what an extractor's maps gave under a key that covers everything that decides it, if there is a store."""
    if store:
        store.put_bytes(extractor.sha256, key, to_bytes(content, key))


def to_bytes(content: Content, key: str) -> bytes:
    """Return a form, or a head, as MessagePack after its digest; an array becomes its type, shape and values."""
    data = msgspec.msgpack.encode(content, enc_hook=lambda array: (array.dtype.str, array.shape, array.tobytes()))
    return _digest(key, data) + data


def from_bytes(data: bytes | None, key: str, kind: type[Kind]) -> Kind | None:
    """Return what `to_bytes` was given with this key, or None if the bytes are anything else."""

    def array(kind: type, stored: Any) -> NDArray[Any]:
        dtype, shape, values = stored
        return np.frombuffer(values, dtype).reshape(shape)

    if data is None or data[:DIGEST] != _digest(key, data[DIGEST:]):
        return None
    try:
        return msgspec.msgpack.decode(data[DIGEST:], type=kind, dec_hook=array)
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST, key=key.encode()).digest()


def describes(form: EnrolledForm, state: State, extractor: Extractor) -> bool:
    """Return whether a form has the classes and photos of a state, in finite numbers of the shapes of the extractor."""
    (r, d), counts = extractor.shape, {entry.name: len(entry.supports) for entry in state.classes}
    holders = {key: entry.name for key, (entry, _) in state.holders().items()}
    examples = sum(count for count in counts.values() if count > 1)
    n, way = len(range(0, examples, stride(examples, state.search))), len(counts)
    return (
        list(form.classes) == list(counts)
        and all(_is_class(enrolled, counts[name] * r, d) for name, enrolled in form.classes.items())
        and {name: len(shares) for name, shares in form.leave_one_out.items()}
        == {name: count for name, count in counts.items() if count > 1}
        and all(_are(shares, (counts[name],), 0, 1) for name, shares in form.leave_one_out.items())
        and {key: name for key, (name, _) in form.own_errors.items()} == holders
        and all(_are(errors, (r,)) for _, errors in form.own_errors.values())
        and form.left_out is not None
        and all(_are(each, (n, way)) for each in (form.left_out.errors, form.left_out.distances))
        and form.left_out.labels.dtype == np.intp
        and _are(form.left_out.labels, (n,), 0, way - 1)
        and _are(form.left_out.energies, (n,), 0)
        and _are(form.left_out.smaller, (n, 2), -1)
        and not form.smaller.keys() - holders.keys()
        and (not form.looks or form.looks.keys() == holders.keys())
        and all(len(look) == LOOK for look in form.looks.values())
    )


def _is_class(enrolled: EnrolledClass, p: int, d: int) -> bool:
    m = len(enrolled.signs)
    return (
        0 < m <= min(p, d)
        and _are(enrolled.rows, (m, d), -MAX_FACTOR, MAX_FACTOR)
        and _are(np.abs(enrolled.signs), (m,), 1, 1)
        and _are(enrolled.centre, (d,))
        and all(0 <= value < math.inf for value in enrolled.allowance)
        and {each.dtype for each in (enrolled.rows, enrolled.signs, enrolled.centre)} == {np.dtype(np.float32)}
    )


def _are(values: NDArray[Any], shape: tuple[int, ...], least: float = -math.inf, most: float = math.inf) -> bool:
    return values.shape == shape and bool((np.isfinite(values) & (values >= least) & (values <= most)).all())
